#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/cli/process.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <termios.h>

#include "ingot/base/directory_lock.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/progress.h"

namespace ingot::testing {
namespace {

namespace fs = std::filesystem;

class TrainCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream text(directory_ + "/text.txt");
    for (int i = 0; i < 300; ++i) text << "Line " << i << " comes before line " << i + 1 << ".\n";
    std::ofstream(directory_ + "/train.yaml")
        << "from_scratch: true\n"
           "architecture: {hidden_size: 24, num_hidden_layers: 1, "
           "num_attention_heads: 2}\n"
           "vocab_size: 280\n"
           "datasets: [{path: "
        << directory_
        << "/text.txt}]\n"
           "sequence_len: 16\nper_device_train_batch_size: 2\n"
           "max_steps: 6\nsave_steps: 2\neval_steps: 3\nema_decay: 0.9\n"
           "learning_rate: 0.01\nsave_total_limit: 2\n"
           "report_to: [jsonl]\n";
  }

  std::vector<std::string> command(const std::string& output, bool resume = false) const {
    std::vector<std::string> words{"train", directory_ + "/train.yaml", "--json", "--set",
                                   "output_dir=" + directory_ + "/" + output};
    if (resume) words.emplace_back("--resume");
    return words;
  }
  std::string model(const std::string& output) const {
    return read_file(directory_ + "/" + output + "/model/model.safetensors");
  }

  const test::TemporaryDirectory folder_;
  const std::string directory_ = folder_.path();
};

TEST(TrainKeys, OfOtherProgramsAreFoundByTheirNames) {
  EXPECT_NE(run_ingot({"train", "--keys", "eval_strategy"}).output.find("eval_steps or evals_per_epoch"),
            std::string::npos);
  EXPECT_NE(run_ingot({"train", "--keys", "load_best_model_at_end"}).output.find("without effect"),
            std::string::npos);
  EXPECT_NE(run_ingot({"train", "--keys", "lora_rank"}).output.find("lora_r"), std::string::npos);
  for (const char* own : {"lora", "ddp_timeout", "load_in_4bit"}) {
    const std::string told = run_ingot({"train", "--keys", own}).output;
    EXPECT_EQ(told.find("axolotl and Surogate"), std::string::npos) << told;
  }
  EXPECT_NE(run_ingot({"train", "--keys", "lora"}).output.find("lora_alpha"), std::string::npos);
  const auto json =
      parse_json_or_discard<nlohmann::json>(run_ingot({"train", "--keys", "eval_strategy", "--json"}).output);
  EXPECT_EQ(json.at(0).at("keys").at(0).at("key"), "eval_strategy");
}

// kill -9 at every kind of moment: in the middle of a file, between files, before, amid and after the renames
// that make a checkpoint, between steps. Resuming, as often as it takes, must end with the bits of a run that
// was left alone.
TEST_F(TrainCommand, KilledAtAnyMomentAndResumedItEndsWithTheSameBits) {
  ASSERT_EQ(run_ingot(command("whole")).exit_code, 0);
  const std::string expected = model("whole");
  const std::vector<std::string> faults{"crash:train.step:1",
                                        "crash:train.step:5",
                                        "crash:write:3000",
                                        "crash:write:60000",
                                        "crash:write:200000",
                                        "crash:file.before_rename:4",
                                        "crash:directory.before_rename:1",
                                        "crash:directory.before_rename:2",
                                        "crash:directory.after_rename:2",
                                        "crash:directory.after_rename:4"};
  int run = 0;
  for (const std::string& fault : faults) {
    const std::string output = "killed" + std::to_string(run++);
    EXPECT_EQ(run_ingot(command(output), {"INGOT_FAULT=" + fault}).exit_code, 128 + SIGKILL) << fault;
    const Outcome resumed = run_ingot(command(output, true));
    ASSERT_EQ(resumed.exit_code, 0) << fault << ": " << resumed.errors;
    EXPECT_EQ(model(output), expected) << fault;
  }
}

TEST_F(TrainCommand, KilledAgainAndAgainItStillEndsWithTheSameBits) {
  ASSERT_EQ(run_ingot(command("whole")).exit_code, 0);
  int kills = 0;
  Outcome outcome = run_ingot(command("often"), {"INGOT_FAULT=crash:train.step:3"});
  while (outcome.exit_code == 128 + SIGKILL && kills < 10) {
    ++kills;
    outcome = run_ingot(command("often", true), {"INGOT_FAULT=crash:train.step:3"});
  }
  EXPECT_GE(kills, 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(model("often"), model("whole"));
}

TEST_F(TrainCommand, CtrlCAndOtherSignalsEndItInOrderAndTheExitCodeTells) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string output = directory_ + "/run" + std::to_string(signal);
    bool sent = false;
    const Outcome stopped =
        run_ingot_on_terminal({"train", directory_ + "/train.yaml", "--set", "output_dir=" + output, "--set",
                               "save_steps=0", "--set", "max_steps=1000000"},
                              [&](const std::string& text, pid_t child, int) {
                                if (child == 0 || sent || text.find("validation loss") == std::string::npos)
                                  return;
                                sent = ::kill(child, signal) == 0;
                              });
    EXPECT_EQ(stopped.exit_code, 128 + signal) << stopped.output;
    EXPECT_NE(stopped.output.find("stopped after "), std::string::npos) << stopped.output;
    const std::string steps = stopped.output.substr(stopped.output.find("stopped after ") + 14);
    EXPECT_NE(read_file(output + "/metrics.jsonl").find("\"step\":" + steps.substr(0, steps.find(' ')) + ","),
              std::string::npos);
    EXPECT_NE(stopped.output.find("checkpoint-"), std::string::npos) << stopped.output;
  }
}

TEST_F(TrainCommand, ALossAboveTheWatchdogsThresholdEndsTheRunWithStatusOne) {
  std::vector<std::string> words = command("high");
  words.insert(words.end(), {"--set", "loss_watchdog_threshold=0.1", "--set", "loss_watchdog_patience=2"});
  const Outcome result = run_ingot(words);
  EXPECT_EQ(result.exit_code, 1) << result.output;
  const auto json = parse_json<nlohmann::json>(result.output.substr(result.output.find('{')), "the summary");
  EXPECT_EQ(json["end"], "loss too high");
  EXPECT_EQ(json["steps"], 2);
  ASSERT_EQ(json["events"].size(), 1U);
  EXPECT_EQ(json["events"][0]["event"], "loss_too_high");
  EXPECT_NE(json["checkpoint"].get<std::string>().find("checkpoint-000002"), std::string::npos);
  EXPECT_NE(read_file(directory_ + "/high/metrics.jsonl").find(R"("event":"loss_too_high")"),
            std::string::npos);
}

TEST_F(TrainCommand, ADirectoryThatAnotherRunWritesToIsRefused) {
  const DirectoryLock other(directory_ + "/busy");
  const Outcome refused = run_ingot(command("busy"));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("another process writes its results there"), std::string::npos)
      << refused.errors;
}

TEST_F(TrainCommand, ADirectoryThatVanishesIsAnError) {
  const std::string output = directory_ + "/gone";
  bool moved = false;
  const Outcome ended =
      run_ingot_on_terminal({"train", directory_ + "/train.yaml", "--set", "output_dir=" + output, "--set",
                             "save_steps=0", "--set", "max_steps=1000000"},
                            [&](const std::string& text, pid_t child, int) {
                              if (child == 0 || moved || text.find("validation loss") == std::string::npos)
                                return;
                              fs::rename(output, output + "-elsewhere");
                              moved = true;
                            });
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_NE(ended.output.find("it was moved or removed"), std::string::npos) << ended.output;
  EXPECT_FALSE(fs::exists(output + "/model"));
}

// A smaller terminal comes in between, then Ctrl-C.
TEST_F(TrainCommand, TheDashboardFollowsTheTerminalAndLeavesItAsItWas) {
  termios before{}, after{};
  bool resized = false, sent = false;
  std::size_t seen = 0;
  std::vector<std::string> words{"train", directory_ + "/train.yaml", "--set",
                                 "output_dir=" + directory_ + "/dashboard"};
  words.insert(words.end(), {"--dashboard", "--set", "max_steps=1000000", "--set", "save_steps=0"});
  const Outcome stopped =
      run_ingot_on_terminal(words, [&](const std::string& text, pid_t child, int terminal) {
        if (child == 0) return static_cast<void>(::tcgetattr(terminal, &after));
        if (!resized && text.find("│") != std::string::npos) {
          ::tcgetattr(terminal, &before);
          const winsize narrow{.ws_row = 20, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
          resized = ::ioctl(terminal, TIOCSWINSZ, &narrow) == 0;
          seen = text.size();
        }
        if (resized && !sent && text.size() > seen + 15'000) sent = ::kill(child, SIGINT) == 0;
      });
  EXPECT_EQ(stopped.exit_code, 128 + SIGINT) << stopped.output;
  for (const char* part :
       {"loss ", "gradient norm", "tokens/s", "memory ", "peak", "ETA", "└", "stopped after"})
    EXPECT_NE(stopped.output.find(part), std::string::npos) << part;
  EXPECT_EQ(stopped.output.find("\x1b[?"), std::string::npos) << "a mode of the terminal was changed";
  EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
  // What was drawn well after the change, which lines on their way to a busy reader were not, is not wider
  // than the terminal then was.
  ASSERT_GT(stopped.output.size(), seen + 15'000);
  const std::string last = stopped.output.substr(stopped.output.size() - 5'000);
  for (std::size_t begin = last.find('\n') + 1; begin < last.size();) {
    const std::size_t end = std::min(last.find("\r\n", begin), last.size());
    const std::string line = last.substr(begin, end - begin);
    if (line.find("│") != std::string::npos) EXPECT_LT(display_width(line), 60) << line;
    begin = end + 2;
  }
}

TEST_F(TrainCommand, TheDashboardIsLinesWhereThereIsNoTerminal) {
  std::vector<std::string> words{"train", directory_ + "/train.yaml", "--set",
                                 "output_dir=" + directory_ + "/plain"};
  words.insert(words.end(), {"--dashboard", "--set", "max_steps=2"});
  const Outcome outcome = run_ingot(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ((outcome.output + outcome.errors).find('\x1b'), std::string::npos);
  EXPECT_NE(outcome.errors.find("training  2/2"), std::string::npos) << outcome.errors;
}

TEST_F(TrainCommand, EveryRunSaysWhatItRanWithAndDiffTellsTwoApart) {
  const auto train = [&](const std::string& output, const std::string& setting) {
    std::vector<std::string> words = command(output);
    words.insert(words.end(), {"--set", setting, "--set", "report_to=[jsonl, html]"});
    const Outcome outcome = run_ingot(words);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  };
  train("a", "max_steps=2");
  train("b", "learning_rate=0.02");
  const auto run = parse_json<nlohmann::json>(read_file(directory_ + "/a/run.json"), "run.json");
  EXPECT_EQ(run["command"][1], "train");
  EXPECT_EQ(run["configuration"]["given"]["max_steps"], "2");
  EXPECT_TRUE(run["configuration"]["defaults"].contains("weight_decay"));
  EXPECT_EQ(run["data"]["datasets"].get<std::string>().size(), 64U);
  EXPECT_EQ(read_file(directory_ + "/a/checkpoint-000002/run.json"), read_file(directory_ + "/a/run.json"));
  EXPECT_TRUE(read_file(directory_ + "/a/metrics.jsonl").starts_with("{\"type\":\"run\",\"step\":0"));
  EXPECT_NE(read_file(directory_ + "/a/report.html").find("instruction set"), std::string::npos);

  const Outcome told = run_ingot({"diff", directory_ + "/a", directory_ + "/b", "--json"});
  ASSERT_EQ(told.exit_code, 0) << told.errors;
  const auto diff = parse_json<nlohmann::json>(told.output, "ingot diff");
  EXPECT_EQ(diff["configuration"]["learning_rate"], nlohmann::json({"0.01", "0.02"}));
  EXPECT_EQ(diff["configuration"]["max_steps"], nlohmann::json({"2", "6"}));
  EXPECT_EQ(diff["configuration"].size(), 2U);
  EXPECT_TRUE(diff["data"].empty());
  EXPECT_EQ(diff["metrics"]["steps"], nlohmann::json({"2", "6"}));
  train("c", "train_seed=7");
  const auto seeds = parse_json<nlohmann::json>(
      run_ingot({"diff", directory_ + "/b", directory_ + "/c", "--json"}).output, "ingot diff");
  EXPECT_TRUE(seeds["configuration"].contains("train_seed"));
  EXPECT_TRUE(seeds["data"].empty()) << "another order of the same data";
  const Outcome same = run_ingot({"diff", directory_ + "/b/checkpoint-000004", directory_ + "/b"});
  EXPECT_NE(same.output.find("Configuration and data are the same"), std::string::npos) << same.output;
  EXPECT_NE(same.output.find("steps                 4"), std::string::npos) << same.output;
  EXPECT_NE(run_ingot({"diff", directory_, directory_ + "/b"}).errors.find("is not a run"),
            std::string::npos);
}

TEST(DiffCommand, ShowsLongCommandsAndPathsFromWhereTheyDiffer) {
  const test::TemporaryDirectory directory;
  const std::string folder = "/data/of/one/project/with/a/long/path/to/its/experiments";
  for (const std::string run : {"first", "second"}) {
    const nlohmann::json json{
        {"command", {"ingot", "train", folder + "/train.yaml", "--set", "learning_rate=0.01", "--name", run}},
        {"configuration", {{"given", {{"model", folder + "/" + run + "/model"}}}}}};
    std::filesystem::create_directory(directory.at(run));
    write_file_atomically(directory.at(run + "/run.json"), json.dump());
  }
  const std::string told = run_ingot({"diff", directory.at("first"), directory.at("second")}).output;
  const std::string row = "… first  … second\n", path = "…/first/model  …/second/model\n";
  EXPECT_NE(told.find(path), std::string::npos) << told;
  EXPECT_NE(told.find(row), std::string::npos) << told;
}

TEST(BenchTrain, RecomputationStandsAloneOrNamesItsKind) {
  const auto recompute = [](const std::vector<std::string>& options) {
    std::vector<std::string> words{"bench", "train", "--shape", "demo", "--batch", "1", "--sequence", "8"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--runs", "1", "--json"});
    const Outcome outcome = run_ingot(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return parse_json<nlohmann::json>(outcome.output, "the test").at("recompute").get<std::string>();
  };
  EXPECT_EQ(recompute({}), "false");
  EXPECT_EQ(recompute({"--recompute"}), "true");
  EXPECT_EQ(recompute({"--recompute", "full"}), "true");
  EXPECT_EQ(recompute({"--recompute", "selective"}), "selective");
  EXPECT_EQ(run_ingot({"bench", "train", "--recompute", "some"}).exit_code, 2);
}

TEST_F(TrainCommand, WhatItTrainedCanBeUsedByEveryOtherCommand) {
  ASSERT_EQ(run_ingot(command("run")).exit_code, 0);
  const std::string path = directory_ + "/run/model";
  const Outcome text = run_ingot({"generate", path, "--prompt", "Line 7", "-n", "8", "--seed", "3"});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_EQ(text.output.rfind("Line 7", 0), 0U);
  EXPECT_EQ(text.output,
            run_ingot({"generate", path, "--prompt", "Line 7", "-n", "8", "--seed", "3"}).output);
  const Outcome ids = run_ingot({"tokenize", path, "--text", "Line 7"});
  ASSERT_EQ(ids.exit_code, 0) << ids.errors;
  std::string list = ids.output;
  list.pop_back();
  EXPECT_EQ(run_ingot({"tokenize", path, "--ids", list}).output, "Line 7\n");
  EXPECT_NE(run_ingot({"inspect", path}).output.find("model.embed_tokens.weight"), std::string::npos);
  EXPECT_EQ(run_ingot({"inspect", path, "--json"}).output.front(), '{');
  const Outcome logits = run_ingot({"logits", path, "--tokens", list, "-o", directory_ + "/logits.npy"});
  EXPECT_EQ(logits.exit_code, 0) << logits.errors;
  EXPECT_TRUE(fs::exists(directory_ + "/logits.npy"));
  EXPECT_EQ(run_ingot({"logits", path, "--tokens", "1,99999"}).exit_code, 2);
  const Outcome elsewhere = run_ingot({"plan", directory_ + "/train.yaml", "--gpus", "2", "--json"});
  const auto on_h100 = parse_json<nlohmann::json>(elsewhere.output, "plan");
  EXPECT_TRUE(on_h100["configured"]["fits"].get<bool>()) << elsewhere.output << elsewhere.errors;
  const Outcome memory = run_ingot({"memory", directory_ + "/train.yaml", "--json"});
  EXPECT_NE(memory.output.find("\"fits\": true"), std::string::npos) << memory.output << memory.errors;
  const auto fits_gpu = [&](const std::string& size) {
    return run_ingot({"memory", directory_ + "/train.yaml", "--gpu-memory", size}).output.find("it fits") !=
           std::string::npos;
  };
  const auto plan = parse_json<nlohmann::json>(memory.output, "plan");
  const auto& by_optimizer = plan["with_overhead_by_optimizer_and_recompute"];
  EXPECT_EQ(by_optimizer["adamw"]["false"], plan["with_overhead"]);
  EXPECT_LT(by_optimizer["adamw"]["selective"].get<double>(), by_optimizer["adamw"]["false"].get<double>());
  EXPECT_LE(by_optimizer["adamw_8bit"]["true"].get<double>(), by_optimizer["adamw"]["true"].get<double>());
  EXPECT_TRUE(fits_gpu("80GB"));
  EXPECT_FALSE(fits_gpu("100kB"));
  EXPECT_EQ(run_ingot({"memory", directory_ + "/train.yaml", "--gpu-memory", "large"}).exit_code, 2);
  EXPECT_NE(run_ingot({"devices", "--json"}).output.find("\"device\": \"cpu\""), std::string::npos);
}

TEST_F(TrainCommand, ContinuesFromAModelDirectory) {
  ASSERT_EQ(run_ingot(command("first")).exit_code, 0);
  std::vector<std::string> words = command("second");
  for (const char* change : {"from_scratch=false", "architecture=null"}) {
    words.emplace_back("--set");
    words.emplace_back(change);
  }
  words.emplace_back("--set");
  words.push_back("model=" + directory_ + "/first/model");
  const Outcome second = run_ingot(words);
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_NE(model("second"), model("first"));
}

TEST_F(TrainCommand, ExplainTellsWhatBecomesOfEachKeyAndTrainsNothing) {
  const std::string path = directory_ + "/axolotl.yml";
  std::ofstream(path) << "base_model: some/model\ndatasets: [{path: x.jsonl, type: alpaca}]\n"
                         "micro_batch_size: 2\nflash_attention: true\nfsdp: [full_shard]\n"
                         "bf16: true\noutput_dir: "
                      << directory_ << "/explained\n";
  const Outcome fine = run_ingot({"train", "--from", path, "--explain"});
  EXPECT_EQ(fine.exit_code, 0) << fine.errors;
  for (const char* part : {"is per_device_train_batch_size", "is torch_dtype: bf16", "flash_attention: true",
                           "mpirun", "weight_decay", "0.1", "can be trained"})
    EXPECT_NE(fine.output.find(part), std::string::npos) << part << '\n' << fine.output;
  EXPECT_FALSE(fs::exists(directory_ + "/explained"));
  const Outcome refused =
      run_ingot({"train", path, "--explain", "--json", "--set", "relora=true", "--set", "lerning_rate=1"});
  EXPECT_EQ(refused.exit_code, 1);
  const auto json = parse_json<nlohmann::json>(refused.output, "the output");
  EXPECT_EQ(json["refused"][0]["key"], "relora");
  EXPECT_EQ(json["unknown"][0]["did_you_mean"], "learning_rate");
  EXPECT_NE(json["problem"].get<std::string>().find("relora"), std::string::npos);
}

TEST_F(TrainCommand, AModelLearnsFromWhatWasCapturedOfATeacher) {
  ASSERT_EQ(run_ingot(command("teacher")).exit_code, 0);
  const std::string teacher = directory_ + "/teacher/model", captured = directory_ + "/captured";
  const std::string tokenizer = "tokenizer=" + teacher;
  const Outcome capture = run_ingot({"data", "capture", directory_ + "/train.yaml", captured, "--teacher",
                                     teacher, "-k", "16", "--set", tokenizer, "--json"});
  ASSERT_EQ(capture.exit_code, 0) << capture.errors;
  EXPECT_EQ(parse_json<nlohmann::json>(capture.output, "the output")["top_k"], 16);
  std::vector<std::string> words = command("student");
  for (const std::string& change : {tokenizer, "kd_logprobs=" + captured}) {
    words.emplace_back("--set");
    words.push_back(change);
  }
  const Outcome student = run_ingot(words);
  EXPECT_EQ(student.exit_code, 0) << student.errors;
  words.emplace_back("--set");
  words.emplace_back("sequence_len=24");
  words[4] = "output_dir=" + directory_ + "/other";
  const Outcome other = run_ingot(words);
  EXPECT_NE(other.exit_code, 0);
  EXPECT_NE(other.errors.find("captured of other data"), std::string::npos) << other.errors << other.output;
}

// The demo on a terminal: a bar, falling validation losses, a model and a report, and the next command to
// type.
TEST_F(TrainCommand, TheDemoShowsItselfAndLeavesAModelAndAReport) {
  const std::string output = directory_ + "/demo";
  const Outcome demo = run_ingot_on_terminal(
      {"demo", "--data", test::source_dir() + "/docs", "-o", output, "--minutes", "0.05"});
  ASSERT_EQ(demo.exit_code, 0) << demo.output;
  for (const char* expected :
       {"bigram", "GFLOP/s", "validation loss", "ETA", "ingot generate", "report.html", "█"}) {
    EXPECT_NE(demo.output.find(expected), std::string::npos) << expected;
  }
  // The command that it says to try next does run.
  const std::size_t command = demo.output.find("Now try:") + std::string("Now try:").size();
  const std::size_t begin = demo.output.find_first_not_of(" \r\n", command);
  const std::string next = demo.output.substr(begin, demo.output.find_first_of("\r\n", begin) - begin);
  EXPECT_EQ(std::system((next + " -n 4 > /dev/null").c_str()), 0) << next;
  EXPECT_TRUE(fs::exists(output + "/model/model.safetensors"));
  // Some steps are too few to be better than pairs of tokens.
  EXPECT_TRUE(demo.output.find("too few. Give it more time") != std::string::npos ||
              demo.output.find("by heart") != std::string::npos)
      << demo.output;
  const Outcome again = run_ingot({"demo", "-o", output});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.errors.find("holds an earlier demo; --overwrite"), std::string::npos) << again.errors;
  EXPECT_GT(fs::file_size(output + "/report.html"), 100000U);  // Chart.js is inside
}

}  // namespace
}  // namespace ingot::testing
