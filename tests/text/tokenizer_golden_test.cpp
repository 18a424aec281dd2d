// Equality with the Python library, case by case. tools/goldens/tokenizer_goldens.py writes the files.
#include <filesystem>

#include "tests/support/source_dir.h"
#include "tests/text/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/text/bpe_trainer.h"
#include "ingot/text/detokenize_stream.h"
#include "ingot/text/tokenizer.h"

namespace ingot::text {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::ordered_json;

ordered_json golden(const std::string& name) {
  const std::string path = test::source_dir() + "/tests/text/goldens/" + name + ".json";
  return parse_json<ordered_json>(read_file(path), path);
}

const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = golden("texts").get<std::vector<std::string>>();
  return all;
}

void check_cases(const Tokenizer& tokenizer, const ordered_json& g) {
  ASSERT_EQ(g["cases"].size(), texts().size());
  for (std::size_t i = 0; i < texts().size(); ++i) {
    const std::string& text = texts()[i];
    const ordered_json& c = g["cases"][i];
    SCOPED_TRACE(dump_json(ordered_json(text)));
    const Ids plain = c["ids"], full = c.value("with_special", plain);
    EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = false}), plain);
    EXPECT_EQ(tokenizer.encode(text), full);
    const std::string decoded = c.value("decoded", text);
    EXPECT_EQ(tokenizer.decode(plain, false), decoded);
    EXPECT_EQ(tokenizer.decode(full, true), c.value("decoded_skipping", decoded));
  }
  for (const auto& pair : g["pairs"]) {
    const Encoding both =
        tokenizer.encode_pair(pair["first"].get<std::string>(), pair["second"].get<std::string>());
    EXPECT_EQ(both.ids, pair["ids"].get<Ids>()) << pair;
    EXPECT_EQ(both.type_ids, pair["type_ids"].get<Ids>()) << pair;
  }
}

class TokenizerGolden : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerGolden, EqualsTheLibrary) {
  const ordered_json g = golden(GetParam());
  check_cases(Tokenizer::from_json(dump_json(g["tokenizer"]), GetParam()), g);
}

TEST_P(TokenizerGolden, SurvivesSavingAndLoading) {
  const ordered_json g = golden(GetParam());
  const Tokenizer once = Tokenizer::from_json(dump_json(g["tokenizer"]), GetParam());
  const std::string saved = once.to_json();
  const Tokenizer again = Tokenizer::from_json(saved, GetParam());
  check_cases(again, g);
  EXPECT_EQ(again.to_json(), saved);
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() + "/tests/text/goldens"))
    if (entry.path().extension() == ".json" && entry.path().stem() != "gpt2" &&
        entry.path().stem() != "texts")
      names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerGolden, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

TEST(Gpt2Tokenizer, EqualsTheLibraryWithTheRealVocabulary) {
  const auto directory = data_path("tokenizers/gpt2");
  INGOT_REQUIRE_DATA(directory);
  const Tokenizer tokenizer = Tokenizer::from_directory(directory);
  EXPECT_EQ(tokenizer.vocab_size(), 50257);
  EXPECT_EQ(tokenizer.eos_id(), 50256);
  check_cases(tokenizer, golden("gpt2"));
}

TEST(TrainBpe, GivesTheVocabularyAndMergesOfTheLibrary) {
  const ordered_json g = golden("bpe_trained");
  const std::vector<std::string_view> views(texts().begin(), texts().end());
  BpeTrainerConfig config;
  config.vocab_size = 700;
  config.min_frequency = 0;
  const auto trained = parse_json<ordered_json>(train_bpe(config, views).to_json(), "the test");
  EXPECT_EQ(trained["model"]["vocab"], g["tokenizer"]["model"]["vocab"]);
  ordered_json merges = ordered_json::array();
  for (const auto& pair : g["tokenizer"]["model"]["merges"])
    merges.push_back(pair[0].get<std::string>() + " " + pair[1].get<std::string>());
  EXPECT_EQ(trained["model"]["merges"], merges);
}

}  // namespace
}  // namespace ingot::text
