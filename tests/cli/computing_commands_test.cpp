// What every command that computes does alike: it records what --trace asks for, and tells once that it runs
// on the CPU where a GPU could be expected.
#include <cmath>
#include <csignal>
#include <fstream>

#include "tests/cli/process.h"
#include "tests/support/sentence_directory.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/trace_file.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/weights/npy.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::testing {
namespace {

using Words = std::vector<std::string>;

enum class OnTheCpu { warned_of, chosen };

struct Computing {
  Words words;
  Words scopes;  // as TraceFile::count() takes them
  OnTheCpu cpu = OnTheCpu::warned_of;
};

class ComputingCommands : public ::testing::Test {
 protected:
  void check(const Computing& command) const {
    Words words = command.words;
    words.insert(words.end(), {"--trace", trace_});
    const Outcome outcome = run_ingot(words, environment());
    const std::string name = words[0] + " " + words[1];
    ASSERT_EQ(outcome.exit_code, 0) << name << ": " << outcome.errors;
    EXPECT_GT(test::read_trace(trace_).count(command.scopes), 0) << name;
    if (has_gpu()) return;
    EXPECT_EQ(warnings(outcome.errors), command.cpu == OnTheCpu::warned_of ? 1 : 0)
        << name << ": " << outcome.errors;
  }
  void check_all(const std::vector<Computing>& commands) const {
    for (const Computing& command : commands) check(command);
  }

  static bool has_gpu() { return BackendRegistry::instance().has(DeviceType::cuda); }
  // A build with CUDA on a machine without a GPU, as tests/cli/plugins/gpu_build.cpp makes one.
  static Words environment() {
    return has_gpu() ? Words{} : Words{"INGOT_LOG=warn", "INGOT_PLUGINS=" INGOT_PLUGIN_DIR "/gpu_build.so"};
  }
  static int warnings(const std::string& said) {
    int count = 0;
    for (std::size_t at = 0; (at = said.find("no CUDA device found", at)) != std::string::npos; ++at) ++count;
    return count;
  }

  void write_text() const {
    std::ofstream text(folder_.at("text.txt"));
    for (int i = 0; i < 200; ++i) text << "Line " << i << " comes before line " << i + 1 << ".\n";
    text.close();
    std::ofstream(folder_.at("train.yaml"))
        << "from_scratch: true\n"
           "architecture: {hidden_size: 24, num_hidden_layers: 1, num_attention_heads: 2}\n"
           "vocab_size: 280\nsequence_len: 16\nper_device_train_batch_size: 2\n"
           "max_steps: 1\nreport_to: [none]\n"
        << "datasets: [{path: " << folder_.at("text.txt") << "}]\noutput_dir: " << folder_.at("out") << "\n";
  }

  const test::TemporaryDirectory folder_;
  const std::string trace_ = folder_.at("trace.json"), text_ = folder_.at("text.txt"),
                    config_ = folder_.at("train.yaml"), model_ = folder_.at("out/model");
};

TEST_F(ComputingCommands, OfLanguageModels) {
  write_text();
  const std::string goldens = test::source_dir() + "/tests/models/goldens/";
  check({{"train", config_, "--json"},
         {"step step", "work forward", "module model.layers.0", "op linear", "kernel gemm"}});
  check_all(
      {{{"generate", model_, "-p", "Line", "-n", "1"}, {"step engine step", "work decode", "kernel gemm"}},
       {{"logits", model_, "--tokens", "1,2", "-o", folder_.at("logits.npy")},
        {"module model.layers.0", "op attention"}},
       {{"perplexity", model_, "--text", text_, "--limit", "20"},
        {"module model.layers.0", "op cached_attention"}},
       {{"data", "capture", config_, folder_.at("captured"), "--teacher", model_, "-k", "2", "--json",
         "--set", "sequence_len=64"},
        {"module model.layers.0", "op attention"}},
       {{"imatrix", model_, "--text", text_, "--window", "16", "--limit", "32", "-o",
         folder_.at("imatrix.gguf")},
        {"module model.layers.0", "op attention"}},
       {{"quantize", model_, folder_.at("int4"), "--format", "int4-g32", "--calibrate", text_,
         "--calibration-window", "16", "--calibration-tokens", "32"},
        {"op attention"}},
       {{"convert", model_, folder_.at("model.gguf")}, {"file blk.0.attn_output.weight"}, OnTheCpu::chosen},
       {{"merge", goldens + "qwen3", folder_.at("merged"), "--adapter", goldens + "lora/qwen3_patterns"},
        {"file model.layers.0.self_attn.q_proj.weight"},
        OnTheCpu::chosen}});
}

TEST_F(ComputingCommands, ThatTalk) {
  write_text();
  ASSERT_EQ(run_ingot({"train", config_, "--json"}).exit_code, 0);
  write_file_atomically(model_ + "/chat_template.jinja",
                        "{% for message in messages %}{{ message.content }} {% endfor %}");
  check({{"chat", model_}, {"file load model"}});  // its input is empty
  const Words without_key{"serve", model_, "--api-key-file", folder_.at("no-such-file")};
  if (!has_gpu()) EXPECT_EQ(warnings(run_ingot(without_key, environment()).errors), 1);
  const Words words{"serve", model_, "--port", "0", "--trace", trace_};
  bool ended = false;
  const Outcome outcome = run_ingot_on_terminal(words, [&](const std::string& output, pid_t child, int) {
    if (child == 0 || ended || output.find("http://") == std::string::npos) return;
    ended = ::kill(child, SIGTERM) == 0;
  });
  EXPECT_TRUE(ended) << outcome.output;
  EXPECT_EQ(test::read_trace(trace_).count({"file load model"}), 1);
}

TEST_F(ComputingCommands, OfEncoders) {
  const test::SentenceDirectory encoder, classifier("bert_classifier");
  const Words encoded{"module encoder.layer.0", "op attention"};
  check_all({{{"embed", encoder.path, "-t", "w5"}, encoded},
             {{"classify", classifier.path, "-t", "w5 w6"}, encoded},
             {{"rerank", classifier.path, "-q", "w5", "-t", "w6 w7", "-t", "w8"}, encoded}});
}

TEST_F(ComputingCommands, OfForecasts) {
  const std::string days = folder_.at("days.csv"), forecaster = folder_.at("forecaster");
  std::ofstream table(days);
  table << "ds,sales\n";
  for (int i = 0; i < 200; ++i) table << i << "," << 20 + 5 * std::sin(i * 0.9) << "\n";
  table.close();
  const Words sizes{"--horizon", "7", "--lookback", "14", "--epochs", "1"};
  const auto with_sizes = [&](Words words) {
    words.insert(words.end(), sizes.begin(), sizes.end());
    return words;
  };
  std::ofstream(folder_.at("forecast.yaml"))
      << "data: " << days << "\nmodel: nlinear\nhorizon: 7\nlookback: 14\nnum_epochs: 1\n";
  std::ofstream(folder_.at("study.yaml"))
      << "forecast: forecast.yaml\nspace: {lookback: {choices: [14]}}\ntrials: 1\n";
  const Words fitted{"step step", "work forward", "kernel gemm"};
  check_all({{with_sizes({"forecast", "fit", days, "--json", "-o", forecaster}), fitted},
             {{"forecast", "predict", forecaster, days, "-o", folder_.at("p.csv")}, {"kernel gemm"}},
             {{"forecast", "evaluate", forecaster, days}, {"kernel gemm"}},
             {{"forecast", "plot", forecaster, days, "-o", folder_.at("p.html")}, {"kernel gemm"}},
             {with_sizes({"forecast", "compare", days, "--model", "nlinear", "-o", folder_.at("compared")}),
              fitted},
             {{"forecast", "fit", days, "--model", "naive", "-o", folder_.at("naive")},
              {"work fit and forecast a column"},
              OnTheCpu::chosen},
             {{"tune", folder_.at("study.yaml"), "--json"}, {"work trial"}}});
}

TEST_F(ComputingCommands, OfGraphs) {
  const std::string golden = test::source_dir() + "/tests/onnx/goldens/mlp_dynamo/";
  write_npy(folder_.at("x.npy"), OnnxFile::read_tensor(golden + "test_data_set_0/input_0.pb"));
  check_all(
      {{{"onnx", "run", golden + "model.onnx", "--input", "x=" + folder_.at("x.npy"), "-o", folder_.at("y")},
        {"kernel gemm"}},
       {{"onnx", "check", golden + "model.onnx"}, {"kernel gemm"}, OnTheCpu::chosen}});
}

TEST_F(ComputingCommands, OfGames) {
  const std::string games = folder_.at("games"), log = folder_.at("game.mjai"), net = folder_.at("bc/model"),
                    player = "model:" + net + ",device=auto";
  const Words round{"--length", "round"};
  std::ofstream(folder_.at("bc.yaml"))
      << "phase: bc\nlength: round\nmax_steps: 1\nbatch_size: 8\nreport_to: [none]\n"
         "validation_decisions: 8\nvalidation_split_ratio: 0.5\n"
         "network: {channels: 8, blocks: 1, norm_groups: 4, se_reduction: 4}\n"
      << "games: [" << games << "]\noutput_dir: " << folder_.at("bc") << "\n";
  const Words asked{"work ask a network", "kernel conv"};
  check_all(
      {{{"mahjong", "dataset", "generate", "--games", "2", "--length", "round", "-o", games},
        {"work game"},
        OnTheCpu::chosen},
       {{"mahjong", "train", folder_.at("bc.yaml"), "--json"}, {"step step", "kernel conv"}},
       {{"mahjong", "play", "--player", player, "--length", "round", "--save", log}, {"kernel conv"}},
       {{"mahjong", "arena", player, "tsumogiri", "--walls", "1", "--length", "round"}, asked},
       {{"mahjong", "ladder", folder_.at("bc"), "--walls", "1", "--length", "round", "--device", "auto", "-o",
         folder_.at("ladder.html")},
        asked},
       {{"mahjong", "review", log, "--player", player, "--length", "round", "-o", folder_.at("review.html")},
        {"kernel conv"}}});
}

TEST_F(ComputingCommands, OfBenchmarks) {
  const auto bench = [](const std::string& kind, const Words& more) {
    Words words{"bench", kind, "--runs", "1", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  write_text();
  ASSERT_EQ(run_ingot({"train", config_, "--json"}).exit_code, 0);
  check_all(
      {{bench("decode", {model_, "-n", "1"}), {"step engine step", "work decode", "kernel gemm"}},
       {bench("prefill", {model_, "-n", "2"}), {"step engine step", "work prefill", "kernel gemm"}},
       {bench("kernels", {"--device", "auto", "--megabytes", "1", "--sequence", "1", "--kernel", "rms_norm"}),
        {"kernel rms_norm"}},
       {{"bench", "step-matmuls", "--device", "auto", "--shape", "demo", "--batch", "1", "--sequence", "8",
         "--seconds", "0.001"},
        {"kernel gemm"}},
       {bench("matmul", {"--out", "64", "--in", "64", "--format", "q8_0"}),
        {"kernel quantize_activations"},
        OnTheCpu::chosen}});
}

TEST_F(ComputingCommands, OfBenchmarksOfTraining) {
  check_all({{{"bench", "train", "--device", "auto", "--shape", "demo", "--batch", "1", "--sequence", "8",
               "--runs", "1"},
              {"work forward", "kernel gemm"}},
             {{"bench", "finetune", "--device", "auto", "--shape", "demo", "--batch", "1", "--sequence", "8",
               "--accumulate", "1", "--runs", "1"},
              {"work forward", "kernel gemm"}},
             {{"bench", "selfplay", "--device", "auto", "--channels", "8", "--blocks", "1", "--tables", "2",
               "--rollout-steps", "2", "--minibatch", "4", "--runs", "1"},
              {"data play", "kernel conv"}},
             {{"bench", "policy", "--runs", "1"}, {"kernel conv_packed"}, OnTheCpu::chosen}});
}

TEST_F(ComputingCommands, NoLogLevelHidesTheWarningButChoosingTheCpuDoes) {
  if (has_gpu()) GTEST_SKIP() << "there is a GPU";
  const test::SentenceDirectory encoder;
  const Words words{"embed", encoder.path, "-t", "w5"};
  const auto warned = [&](const std::string& setting, const Words& more = {}) {
    Words all = words, variables = environment();
    all.insert(all.end(), more.begin(), more.end());
    variables.push_back(setting);
    return warnings(run_ingot(all, variables).errors);
  };
  EXPECT_EQ(warned("INGOT_LOG=error"), 1);
  EXPECT_EQ(warned("INGOT_LOG=off"), 1);
  EXPECT_EQ(warned("INGOT_FORCE_CPU=1"), 0);
  EXPECT_EQ(warned("INGOT_LOG=warn", {"--device", "cpu"}), 0);
}

TEST_F(ComputingCommands, ABuildThatCannotUseAGpuSaysNothing) {
  constexpr const char* kNoCuda = "this build has no CUDA backend";
  if (BackendRegistry::instance().why_missing(DeviceType::cuda) != kNoCuda)
    GTEST_SKIP() << "this build has one";
  const test::SentenceDirectory encoder;
  Words words{"embed", encoder.path, "-t", "w5"};
  EXPECT_EQ(warnings(run_ingot(words).errors), 0);
  words.insert(words.end(), {"--device", "cuda"});
  const Outcome outcome = run_ingot(words);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.errors.find(kNoCuda), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace ingot::testing
