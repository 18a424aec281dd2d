// What `ingot train --explain` tells of configurations written for other tools.
#include "ingot/train/language/explain.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace ingot {
namespace {

ConfigExplanation explained(const std::string& more) {
  return explain_train_config(
      [&] { return Config::parse("base_model: base\ndatasets: [{path: x.jsonl}]\n" + more, "axolotl.yml"); });
}

const ConfigExplanation::Key* find(const std::vector<ConfigExplanation::Key>& keys, const std::string& key) {
  const auto found = std::ranges::find(keys, key, [](const auto& each) { return each.key; });
  return found == keys.end() ? nullptr : &*found;
}

std::string meaning(const std::vector<ConfigExplanation::Key>& keys, const std::string& key) {
  const auto* found = find(keys, key);
  return found == nullptr ? "is not listed" : found->means;
}

std::vector<std::string> other_defaults(const ConfigExplanation& e) {
  std::vector<std::string> keys;
  for (const auto& other : e.defaults) keys.push_back(other.key);
  return keys;
}

TEST(ExplainConfig, AliasesTranslationsAndIgnoredKeysAreTold) {
  const ConfigExplanation e = explained(
      "micro_batch_size: 2\nbf16: auto\nflash_attention: true\nload_in_4bit: true\nadapter: qlora\n"
      "wandb_project:\ndeepspeed: zero2.json\nsequence_len: 64\nlora_r: 8\n");
  EXPECT_EQ(e.problem, "");
  EXPECT_EQ(meaning(e.understood, "base_model"), "model");
  EXPECT_EQ(meaning(e.understood, "micro_batch_size"), "per_device_train_batch_size");
  EXPECT_NE(meaning(e.understood, "bf16").find("torch_dtype"), std::string::npos);
  EXPECT_NE(meaning(e.understood, "load_in_4bit").find("base_format"), std::string::npos);
  EXPECT_EQ(meaning(e.understood, "sequence_len"), "");  // our own name
  EXPECT_EQ(find(e.understood, "sequence_len")->value, "64");
  EXPECT_NE(find(e.without_effect, "flash_attention"), nullptr);
  EXPECT_NE(meaning(e.missing, "deepspeed").find("mpirun"), std::string::npos);
  EXPECT_TRUE(e.refused.empty());
  EXPECT_TRUE(e.unknown.empty());
  for (const auto* keys : {&e.understood, &e.without_effect, &e.missing})
    EXPECT_EQ(find(*keys, "wandb_project"), nullptr);  // null asks for nothing
}

TEST(ExplainConfig, EveryRefusedAndUnknownKeyIsToldAtOnce) {
  const ConfigExplanation e =
      explained("neftune_noise_alpha: 5\nrelora: true\nmicro_batch_sise: 2\nlisa_n_layers: 0\n");
  EXPECT_NE(e.problem.find("relora"), std::string::npos) << e.problem;  // the first of them
  EXPECT_NE(meaning(e.refused, "neftune_noise_alpha").find("lora_dropout"), std::string::npos);
  EXPECT_NE(find(e.refused, "relora"), nullptr);
  EXPECT_EQ(meaning(e.unknown, "micro_batch_sise"), "micro_batch_size");
  EXPECT_NE(find(e.without_effect, "lisa_n_layers"), nullptr);  // 0 asks for nothing
}

TEST(ExplainConfig, DefaultsThatDifferAreThoseThatTheFileLacks) {
  const auto none = other_defaults(explained(""));
  for (const char* key : {"torch_dtype", "weight_decay", "per_device_train_batch_size", "sample_packing"})
    EXPECT_NE(std::ranges::find(none, key), none.end()) << key;
  const auto some = other_defaults(explained(
      "bf16: true\nweight_decay: 0.0\nmicro_batch_size: 2\nsample_packing: true\nwarmup_ratio: 0.1\n"
      "test_datasets: [{path: y.jsonl}]\nevals_per_epoch: 2\nsave_strategy: epoch\nsave_total_limit: 2\n"
      "logging_steps: 1\nseed: 7\n"));
  EXPECT_TRUE(some.empty()) << some.front();
}

TEST(ExplainConfig, AKeyThatIsOursAndOnlyRuledOutElsewhereIsOurs) {
  const ConfigExplanation e = explained("ddp_timeout: 60\n");
  EXPECT_NE(find(e.understood, "ddp_timeout"), nullptr);
  EXPECT_EQ(find(e.without_effect, "ddp_timeout"), nullptr);
}

}  // namespace
}  // namespace ingot
