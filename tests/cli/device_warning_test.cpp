#include <cmath>
#include <fstream>

#include "tests/cli/process.h"
#include "tests/support/sentence_directory.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"

namespace ingot::testing {
namespace {

using Words = std::vector<std::string>;

// A build with CUDA on a machine without a GPU, as tests/cli/plugins/gpu_build.cpp makes one.
class WithoutGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (BackendRegistry::instance().has(DeviceType::cuda)) GTEST_SKIP() << "there is a GPU";
    std::ofstream text(folder_.at("text.txt")), table(folder_.at("days.csv"));
    table << "ds,sales\n";
    for (int i = 0; i < 200; ++i) {
      text << "Line " << i << " comes before line " << i + 1 << ".\n";
      table << i << "," << 20 + 5 * std::sin(i * 0.9) << "\n";
    }
    std::ofstream(folder_.at("train.yaml"))
        << "from_scratch: true\n"
           "architecture: {hidden_size: 24, num_hidden_layers: 1, num_attention_heads: 2}\n"
           "vocab_size: 280\nsequence_len: 16\nper_device_train_batch_size: 2\n"
           "max_steps: 1\nreport_to: [none]\n"
        << "datasets: [{path: " << folder_.at("text.txt") << "}]\noutput_dir: " << folder_.at("out") << "\n";
  }
  static std::size_t warnings(const Words& words, const Words& environment = {"INGOT_LOG=warn"}) {
    Words all = environment;
    all.push_back("INGOT_PLUGINS=" INGOT_PLUGIN_DIR "/gpu_build.so");
    const std::string errors = run_ingot(words, all).errors;
    std::size_t count = 0;
    for (std::size_t at = 0; (at = errors.find("no CUDA device found", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
  const test::TemporaryDirectory folder_;
  const std::string model_ = folder_.at("out/model"),
                    onnx_ = test::source_dir() + "/tests/onnx/goldens/mlp_dynamo/model.onnx";
};

TEST_F(WithoutGpu, EveryCommandThatComputesTellsSoOnce) {
  EXPECT_EQ(warnings({"train", folder_.at("train.yaml"), "--json"}), 1U);
  const test::SentenceDirectory encoder;
  const std::string days = folder_.at("days.csv"), forecaster = folder_.at("forecaster");
  const Words fit{"forecast", "fit",      days, "--horizon", "7",  "--lookback",
                  "14",       "--epochs", "1",  "--json",    "-o", forecaster};
  EXPECT_EQ(warnings(fit), 1U);
  for (const Words& words : std::vector<Words>{
           {"generate", model_, "-p", "Line", "-n", "1"},
           {"chat", model_},
           {"serve", model_, "--api-key-file", folder_.at("no-such-file")},
           {"logits", model_, "--tokens", "1,2", "-o", folder_.at("logits.npy")},
           {"perplexity", model_, "--text", folder_.at("text.txt"), "--limit", "20"},
           {"embed", encoder.path, "-t", "w5"},
           {"imatrix", model_, "--text", folder_.at("text.txt"), "--window", "16", "--limit", "32", "-o",
            folder_.at("imatrix.gguf")},
           {"quantize", model_, folder_.at("int4"), "--format", "int4-g32", "--calibrate",
            folder_.at("text.txt"), "--calibration-window", "16", "--calibration-tokens", "32"},
           {"forecast", "predict", forecaster, days},
           {"forecast", "evaluate", forecaster, days},
           {"onnx", "run", onnx_}})
    EXPECT_EQ(warnings(words), 1U) << words[0];
}

TEST_F(WithoutGpu, NoLogLevelHidesItButChoosingTheCpuDoes) {
  const Words words{"onnx", "run", onnx_};
  EXPECT_EQ(warnings(words, {"INGOT_LOG=error"}), 1U);
  EXPECT_EQ(warnings(words, {"INGOT_LOG=off"}), 1U);
  EXPECT_EQ(warnings(words, {"INGOT_FORCE_CPU=1"}), 0U);
  EXPECT_EQ(warnings({"onnx", "run", onnx_, "--device", "cpu"}), 0U);
}

TEST_F(WithoutGpu, ABuildThatCannotUseOneSaysNothing) {
  constexpr const char* kNoCuda = "this build has no CUDA backend";
  if (BackendRegistry::instance().why_missing(DeviceType::cuda) != kNoCuda)
    GTEST_SKIP() << "this build has one";
  const Words words{"onnx", "run", onnx_};
  EXPECT_EQ(run_ingot(words).errors.find("no CUDA device found"), std::string::npos);
  Words asked = words;
  asked.insert(asked.end(), {"--device", "cuda"});
  const Outcome outcome = run_ingot(asked);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.errors.find(kNoCuda), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace ingot::testing
