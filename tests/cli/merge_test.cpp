#include <filesystem>
#include <map>

#include "tests/cli/process.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/files.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using testing::Outcome;
using testing::run_ingot;

const std::string kGoldenModels = test::source_dir() + "/tests/models/goldens/";

TEST(Merge, GivesTheLogitsThatPeftGivesWithTheAdapterOn) {
  const NoGrad no_grad;
  const test::TemporaryDirectory directory;
  const std::string merged = directory.at("merged"), adapter = kGoldenModels + "lora/qwen3_patterns";
  const Outcome outcome =
      run_ingot({"merge", kGoldenModels + "qwen3", merged, "--adapter", adapter, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find(R"("adapters":1)"), std::string::npos) << outcome.output;
  const auto model = load_language_model(merged);
  const Tensor tokens = open_weights(kGoldenModels + "qwen3/expected.safetensors")->load_tensor("tokens");
  const Tensor expected = open_weights(adapter + "/expected.safetensors")->load_tensor("logits");
  EXPECT_LE(testing::max_error(model->logits(model->hidden({.tokens = tokens})), expected), 2e-5);
}

TEST(Merge, UpdatesAddUpByTheirWeights) {
  const test::TemporaryDirectory directory;
  const std::string merged = directory.at("merged"), adapter = kGoldenModels + "lora/llama";
  ASSERT_EQ(run_ingot({"merge", kGoldenModels + "llama_bias_untied", merged, "--adapter", adapter + "=0.75",
                       "--adapter", adapter + "=-0.75"})
                .exit_code,
            0);
  const auto before = open_weights(kGoldenModels + "llama_bias_untied"), after = open_weights(merged);
  for (const TensorInfo& info : before->tensors())
    EXPECT_LE(testing::max_error(after->load_tensor(info.name), before->load_tensor(info.name)), 1e-6)
        << info.name;
}

TEST(Merge, TheChatTemplateThatTheAdapterWasTrainedWithIsTheModels) {
  const test::TemporaryDirectory directory;
  const std::string adapter = directory.at("adapter"), merged = directory.at("merged");
  std::filesystem::copy(kGoldenModels + "lora/qwen3_patterns", adapter);
  write_file_atomically(adapter + "/tokenizer_config.json", R"({"chat_template": "as trained"})");
  ASSERT_EQ(run_ingot({"merge", kGoldenModels + "qwen3", merged, "--adapter", adapter}).exit_code, 0);
  EXPECT_EQ(read_file(merged + "/chat_template.jinja"), "as trained");
}

TEST(Merge, WhatCannotBeIsSaidAndLeavesNothing) {
  const test::TemporaryDirectory directory;
  const auto refusal = [&](const std::string& base, const std::string& adapter) {
    const Outcome outcome =
        run_ingot({"merge", kGoldenModels + base, directory.at("x"), "--adapter", adapter});
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(directory.at("x")));
    return outcome.errors;
  };
  EXPECT_NE(refusal("qwen3", kGoldenModels + "lora/gpt2_fused").find("c_attn"), std::string::npos);
  const std::string empty = directory.at("empty");
  std::filesystem::create_directory(empty);
  std::filesystem::copy(kGoldenModels + "lora/llama/adapter_config.json", empty);
  write_safetensors(empty + "/adapter_model.safetensors", std::map<std::string, Tensor>{});
  EXPECT_NE(refusal("llama_bias_untied", empty).find("empty/adapter_model.safetensors"), std::string::npos);
  EXPECT_NE(refusal("llama_bias_untied", empty).find("holds no tensors"), std::string::npos);
  EXPECT_NE(refusal("qwen3", kGoldenModels + "qwen3").find("adapter_config.json"), std::string::npos);
  EXPECT_NE(refusal("qwen3", kGoldenModels + "lora/qwen3_patterns=much").find("'much'"), std::string::npos);
}

}  // namespace
}  // namespace ingot
