#include <algorithm>

#include "tests/infer/goldens.h"
#include "tests/infer/scripted_model.h"
#include "tests/infer/small_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/infer/session.h"

namespace ingot::infer {
namespace {

using test::golden_model;
using test::TemporaryDirectory;

std::vector<std::int32_t> words(std::int32_t seed) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 11 + seed; ++i) ids.push_back((3 + seed + 7 * i * i) % 50);
  return ids;
}

Request request(std::int32_t seed, double temperature, std::int64_t speculate) {
  return {.prompt = words(seed),
          .max_tokens = 14,
          .sampling = {.temperature = temperature, .seed = 7},
          .speculate = speculate};
}

// Several texts at once, of different lengths.
std::vector<Generation> texts(const LanguageModel& model, const EngineOptions& options, double temperature,
                              std::int64_t speculate) {
  Engine engine(model, options);
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (std::int32_t seed = 0; seed < 3; ++seed)
    sequences.push_back(engine.start(request(seed, temperature, speculate)));
  engine.run();
  std::vector<Generation> results;
  for (const auto& sequence : sequences) results.push_back(sequence->result());
  return results;
}

TEST(DraftModel, TextsAreTheSameWithAndWithoutGreedyAndForASeed) {
  const auto model = golden_model("qwen3"), other = golden_model("llama_gqa_llama3"),
             recurrent = golden_model("lfm2");
  for (const LanguageModel* draft : {model.get(), other.get(), recurrent.get()}) {
    for (const double temperature : {0.0, 0.9}) {
      const std::vector<Generation> alone = texts(*model, {}, temperature, 0);
      const std::vector<Generation> speculated = texts(*model, {.draft_model = draft}, temperature, 4);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        EXPECT_EQ(speculated[i].tokens, alone[i].tokens) << i << " at " << temperature;
        EXPECT_GT(speculated[i].drafted, 0);
      }
    }
  }
}

TEST(DraftModel, DraftsOfTheModelItselfAreAccepted) {
  const auto model = golden_model("qwen3");
  for (const Generation& result : texts(*model, {.draft_model = model.get()}, 0, 3))
    EXPECT_EQ(result.accepted, result.drafted);
}

TEST(DraftModel, LongPromptsAreReadInPiecesAndReused) {
  const auto model = golden_model("qwen3");
  const Generation alone = generate(*model, request(9, 0, 0));
  Engine engine(*model, {.chunk = 4, .prefix_cache = true, .draft_model = model.get()});
  for (int i = 0; i < 3; ++i) {
    const Generation result = engine.generate(request(9, 0, 4));
    EXPECT_EQ(result.tokens, alone.tokens);
    EXPECT_GE(result.accepted, result.drafted - 1);
  }
}

TEST(DraftModel, RequestsThatWaitAreWhatTheyAreAlone) {
  test::TemporaryDirectory folder;
  const auto model =
      load_language_model(test::write_small_model(folder.path(), "llama"), {.trainable = false});
  EngineOptions options{.draft_model = model.get()};
  const std::vector<Generation> alone = texts(*model, {}, 0, 0);
  options.max_running = 2;
  const std::vector<Generation> speculated = texts(*model, options, 0, 4);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(speculated[i].tokens, alone[i].tokens);
}

TEST(DraftModel, ItsKeysAndValuesCountInTheMemory) {
  const auto model = golden_model("qwen3");
  const std::size_t memory = std::size_t{1} << 20;
  const std::int64_t alone = Engine(*model, {.kv_memory = memory}).stats().cache.budget;
  const std::int64_t both =
      Engine(*model, {.kv_memory = memory, .draft_model = model.get()}).stats().cache.budget;
  EXPECT_NEAR(static_cast<double>(both), static_cast<double>(alone) / 2, 1);
}

TEST(DraftModel, WithoutTheModelsTokensIsRefused) {
  const TemporaryDirectory folder;
  const auto script = test::script(3 /* <turn> */, "one twz", 4 /* <end> */);
  const std::string model = test::write_scripted_model(folder.at("model"), script);
  const std::string draft = test::write_scripted_model(folder.at("draft"), script);
  Session session({.model = model, .draft_model = draft});
  const WrittenText text = session.generate("<turn>", session.options({.max_tokens = 8, .speculate = 4}));
  EXPECT_EQ(text.text, "one twz");
  EXPECT_GT(text.generation.accepted, 0);
  std::string tokenizer = read_file(draft + "/tokenizer.json");
  const std::size_t a = tokenizer.find("\"a\":"), b = tokenizer.find("\"b\":");
  std::swap(tokenizer[a + 1], tokenizer[b + 1]);
  write_file_atomically(draft + "/tokenizer.json", tokenizer);
  const std::string problem =
      test::message_of<InvalidConfig>([&] { Session({.model = model, .draft_model = draft}); });
  EXPECT_NE(problem.find("draft_model"), std::string::npos) << problem;
}

}  // namespace
}  // namespace ingot::infer
