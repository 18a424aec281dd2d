// A published chat model, where ./dev chat has fetched it: SmolLM2-135M-Instruct in Q4_1.
#include <cstdlib>
#include <filesystem>

#include "tests/cli/process.h"
#include <gtest/gtest.h>

namespace ingot::cli {
namespace {

using testing::run_ingot_with_input;

std::string chat_model() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const std::string root = cache != nullptr ? cache : std::string(home != nullptr ? home : "") + "/.cache";
  return root + "/ingot/demo/SmolLM2-135M-Instruct.Q4_1.gguf";
}

TEST(RealModel, AnswersInAChatAndStops) {
  const std::string model = chat_model();
  if (!std::filesystem::exists(model)) GTEST_SKIP() << model << " is not there; ./dev chat fetches it";
  const auto chat = run_ingot_with_input({"chat", model, "-t", "0", "-n", "40"},
                                         "What is the capital of France? Answer with one word.\n");
  EXPECT_EQ(chat.exit_code, 0) << chat.output;
  EXPECT_NE(chat.output.find("Paris"), std::string::npos) << chat.output;
  EXPECT_EQ(chat.output.find("<|im_end|>"), std::string::npos) << chat.output;
}

}  // namespace
}  // namespace ingot::cli
