#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "ingot/base/files.h"

namespace ingot::testing {
namespace {

namespace fs = std::filesystem;

class TuneCommand : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }
  const test::TemporaryDirectory folder_;
  const std::string directory_ = folder_.path();
};

constexpr const char* kCommandStudy =
    "command: 'echo not json; echo \"{{\\\"step\\\": 1, \\\"value\\\": \"{x}\"}}\"; echo \"{{\\\"value\\\": "
    "\"{x}\"}}\"'\n"
    "space: {x: {low: 1, high: 2}, kind: {choices: [a, b]}}\n"
    "trials: 6\nworkers: 2\n";

TEST_F(TuneCommand, RunsAProgramPerTrialAndGoesOnWhereItStopped) {
  const std::string study = write("s.yaml", kCommandStudy);
  const Outcome first = run_ingot({"tune", study, "--json"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_NE(first.output.find("\"complete\": 6"), std::string::npos) << first.output;
  EXPECT_NE(read_file(directory_ + "/s-trials/report.html").find("instruction set"), std::string::npos);
  const Outcome more = run_ingot({"tune", study, "--set", "trials=8"});
  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_NE(more.output.find("going on after 6 trials"), std::string::npos) << more.output;
  EXPECT_NE(more.output.find("Best of 8 trials"), std::string::npos) << more.output;
}

TEST_F(TuneCommand, TheReportTellsWhenTheStudyBeganAndNoDeviceForAllItsTrials) {
  const std::string study =
      write("began.yaml",
            "command: 'date -u +%Y-%m-%dT%H:%M:%SZ > trial; sleep 1.1; echo \"{{\\\"value\\\": 1}}\"'\n"
            "space: {x: {low: 1, high: 2}}\ntrials: 1\n");
  ASSERT_EQ(run_ingot({"tune", study}).exit_code, 0);
  const std::string page = read_file(directory_ + "/began-trials/report.html"), key = "[\"started\",\"";
  const std::size_t at = page.find(key);
  ASSERT_NE(at, std::string::npos);
  const std::string trial = read_file(directory_ + "/trial");
  ASSERT_EQ(trial.size(), 21U) << trial;
  EXPECT_LE(page.substr(at + key.size(), 20), trial.substr(0, 20));
  EXPECT_EQ(page.find("[\"device\","), std::string::npos);
}

TEST_F(TuneCommand, TakesAStudyFromStandardInputForAllItsWorkers) {
  const std::string study = std::string(kCommandStudy) + "study: " + directory_ + "/piped.db\n";
  const Outcome outcome = run_ingot_with_input({"tune", "-"}, study);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("Best of 6 trials"), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::exists(directory_ + "/piped-trials/report.html"));
  EXPECT_NE(
      run_ingot_with_input({"tune", "-"}, "command: echo {x}\nspace: {x: {low: 1, high: 2}}\ntrials: y\n")
          .errors.find("standard input, line 3"),
      std::string::npos);
}

TEST_F(TuneCommand, SeveralObjectivesGiveAParetoFrontAndAReportOfEveryTrial) {
  const std::string study =
      write("pareto.yaml",
            "command: 'x={x}; test $x -ne 5 && echo \"{{\\\"loss\\\": $x, \\\"size\\\": "
            "$((3 - x % 4))}}\"'\n"
            "objectives: {loss: minimize, size: minimize}\n"
            "space: {x: {type: int, low: 0, high: 7}}\nsampler: {type: grid}\n");
  const Outcome outcome = run_ingot({"tune", study, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(json["pareto_front"].size(), 4U) << outcome.output;  // 0 to 3; 4 to 7 are behind them
  EXPECT_EQ(json["pareto_front"][1]["values"]["size"], 2);
  EXPECT_EQ(json["pareto_front"][1]["parameters"]["x"], 1);
  EXPECT_FALSE(json.contains("best"));
  EXPECT_TRUE(fs::exists(directory_ + "/pareto-trials/trial-0003"));
  EXPECT_FALSE(fs::exists(directory_ + "/pareto-trials/trial-0004"));
  const std::string page = read_file(directory_ + "/pareto-trials/report.html");
  EXPECT_NE(page.find("4 of 8 trials on the Pareto front"), std::string::npos);
  EXPECT_NE(page.find("[\"5\",\"failed\""), std::string::npos);
  EXPECT_NE(run_ingot({"tune", study}).output.find("\n\nPareto front: 4 trials\n"), std::string::npos);
  EXPECT_NE(run_ingot({"tune", study, "--set", "pruner.type=median"}).errors.find("pruner.type"),
            std::string::npos);
}

TEST_F(TuneCommand, ATrialWithOneObjectiveThatIsNoNumberIsNotOnTheFront) {
  const std::string study = write(
      "nan.yaml",
      "command: 'x={x}; s=$x; test $x -ne 0 || s=NaN; echo \"{{\\\"loss\\\": $x, \\\"size\\\": $s}}\"'\n"
      "objectives: {loss: minimize, size: minimize}\n"
      "space: {x: {type: int, low: 0, high: 3}}\nsampler: {type: grid}\n");
  const Outcome outcome = run_ingot({"tune", study, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(json["pareto_front"].size(), 1U) << outcome.output;
  EXPECT_EQ(json["pareto_front"][0]["parameters"]["x"], 1);
  ASSERT_EQ(json["failures"].size(), 1U) << outcome.output;
  EXPECT_NE(json["failures"][0]["reason"].get<std::string>().find("diverged"), std::string::npos);
}

TEST_F(TuneCommand, WhatIsTriedRunsInTheStudysDirectoryAndGetsChoicesWithTheirTypes) {
  // How this program's threads wait is not for what it starts.
  write("trial.sh",
        "echo \"$INGOT_PARAMS\" >> params; echo \"${GOMP_SPINCOUNT-own}\" > spins; echo '{\"value\": 1}'\n");
  const std::string study = write("typed.yaml",
                                  "command: sh trial.sh\nspace: {c: {choices: [16, null, yes, \"true\"]}}\n"
                                  "sampler: {type: grid}\n");
  const Outcome outcome =
      run_ingot({"tune", study, "--json"}, {"-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors << outcome.output;
  EXPECT_EQ(read_file(directory_ + "/spins"), "own\n");
  std::vector<std::string> lines;
  std::istringstream params(read_file(directory_ + "/params"));
  for (std::string line; std::getline(params, line);) lines.push_back(line);
  std::ranges::sort(lines);
  EXPECT_EQ(lines,
            (std::vector<std::string>{R"({"c":"true"})", R"({"c":"yes"})", R"({"c":16})", R"({"c":null})"}));
  const auto best = nlohmann::json::parse(outcome.output)["best"];
  const auto command = best["command"].get<std::string>();
  EXPECT_TRUE(command.starts_with("cd " + directory_ + " && env INGOT_PARAMS='{\"c\":")) << command;
  ASSERT_EQ(std::system((command + " > /dev/null").c_str()), 0);
  std::istringstream again(read_file(directory_ + "/params"));
  std::string last;
  for (std::string line; std::getline(again, line);) last = line;
  EXPECT_NE(command.find(last), std::string::npos) << "the program gets the best trial's values";
}

TEST_F(TuneCommand, TellsTheResultThoughTheReportCannotBeWritten) {
  const std::string study = write("s.yaml", kCommandStudy);
  fs::create_directories(directory_ + "/s-trials/report.html");
  const Outcome outcome = run_ingot({"tune", study});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("Best of 6 trials"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.errors.find("report.html"), std::string::npos) << outcome.errors;
}

// As mpirun and srun start it: every rank is a worker of the same study, and only rank 0 tells.
TEST_F(TuneCommand, RanksOfALauncherShareAStudy) {
  const std::string study = write("m.yaml", kCommandStudy);
  Outcome second;
  std::thread other([&] { second = run_ingot({"tune", study}, {"PMI_RANK=1", "PMI_SIZE=2"}); });
  const Outcome first = run_ingot({"tune", study}, {"PMI_RANK=0", "PMI_SIZE=2"});
  other.join();
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_NE(first.output.find("Best of 6 trials"), std::string::npos) << first.output;
  EXPECT_EQ(second.output, "");
}

// Else its MPI would take the place of the rank that tries it, and wait for the other ranks.
TEST_F(TuneCommand, ATrialOfARankIsNoRankItself) {
  const std::string study = write("e.yaml",
                                  "command: 'env > $INGOT_TRIAL_DIR/env; echo \"{{\\\"value\\\": 1}}\"'\n"
                                  "space: {x: {low: 1, high: 2}}\ntrials: 1\n");
  const std::vector<std::string> launcher{"OMPI_COMM_WORLD_RANK=0",
                                          "OMPI_COMM_WORLD_SIZE=2",
                                          "OMPI_MCA_orte_hnp_uri=1.0;tcp://127.0.0.1:1",
                                          "OMPI_MCA_ess=^singleton",
                                          "PMIX_RANK=0",
                                          "PMIX_NAMESPACE=1",
                                          "PMI_RANK=0",
                                          "SLURM_PROCID=0",
                                          "SLURM_STEP_ID=0",
                                          "MPI_LOCALRANKID=0"};
  const std::vector<std::string> others{"OMPI_MCA_btl=self,tcp", "OMPI_ALLOW_RUN_AS_ROOT=1",
                                        "SLURM_JOB_ID=7"};
  std::vector<std::string> all = launcher;
  all.insert(all.end(), others.begin(), others.end());
  const Outcome outcome = run_ingot({"tune", study}, all);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  const std::string seen = "\n" + read_file(directory_ + "/e-trials/trial-0000/env");
  for (const std::string& entry : launcher)
    EXPECT_EQ(seen.find("\n" + entry.substr(0, entry.find('=') + 1)), std::string::npos) << entry;
  for (const std::string& entry : others)
    EXPECT_NE(seen.find("\n" + entry + "\n"), std::string::npos) << entry;
}

TEST_F(TuneCommand, ARankHasOneWorkerAndItsShareOfTheThreads) {
  const std::string study = write("r.yaml",
                                  "command: 'echo $OMP_NUM_THREADS > $INGOT_TRIAL_DIR/threads; "
                                  "echo \"{{\\\"value\\\": 1}}\"'\n"
                                  "space: {x: {low: 1, high: 2}}\ntrials: 1\nworkers: 3\n");
  const Outcome outcome =
      run_ingot({"tune", study}, {"-uOMP_NUM_THREADS", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE=999999"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_TRUE(fs::exists(directory_ + "/r-trials/worker-0-0.log"));
  EXPECT_FALSE(fs::exists(directory_ + "/r-trials/worker-0-1.log"));
  EXPECT_EQ(read_file(directory_ + "/r-trials/trial-0000/threads"), "1\n");
}

TEST_F(TuneCommand, EachWorkerOfAMachineHasOneOfItsGpusUnlessOneIsChosen) {
  const std::string study = write("c.yaml",
                                  "command: 'echo $CUDA_VISIBLE_DEVICES > $INGOT_TRIAL_DIR/gpu; "
                                  "echo \"{{\\\"value\\\": 1}}\"'\n"
                                  "space: {x: {low: 1, high: 2}}\ntrials: 1\n");
  const auto gpu = [&](std::vector<std::string> environment) {
    fs::remove_all(directory_ + "/c-trials");
    fs::remove(directory_ + "/c.db");
    environment.insert(environment.end(), {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=3"});
    const Outcome outcome = run_ingot({"tune", study}, environment);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return read_file(directory_ + "/c-trials/trial-0000/gpu");
  };
  EXPECT_EQ(gpu({"CUDA_VISIBLE_DEVICES=3,GPU-5"}), "3\n");
  EXPECT_EQ(gpu({"CUDA_VISIBLE_DEVICES=3,GPU-5", "OMPI_COMM_WORLD_LOCAL_RANK=1"}), "GPU-5\n");
  EXPECT_EQ(gpu({"CUDA_VISIBLE_DEVICES=3,GPU-5", "OMPI_COMM_WORLD_LOCAL_RANK=2"}), "3\n");
  EXPECT_EQ(gpu({"CUDA_VISIBLE_DEVICES=3,GPU-5", "INGOT_CUDA_DEVICE=1"}), "3,GPU-5\n");
  EXPECT_EQ(gpu({"CUDA_VISIBLE_DEVICES=3"}), "3\n");
}

// The script of a batch job has a rank and the job's number of tasks, and is one process all the same.
TEST_F(TuneCommand, ABatchScriptOfSlurmHasTheWorkersOfTheStudyAndATaskOfSrunOne) {
  const std::string study = write("b.yaml", kCommandStudy);
  const auto run = [&](const std::string& name, std::vector<std::string> environment) {
    environment.insert(environment.end(), {"SLURM_PROCID=0", "SLURM_NTASKS=4"});
    const Outcome outcome = run_ingot({"tune", study, "--set", "study=" + name + ".db"}, environment);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return directory_ + "/" + name + "-trials/worker-";
  };
  EXPECT_TRUE(fs::exists(run("script", {}) + "1.log"));
  EXPECT_TRUE(fs::exists(run("reserved", {"SLURM_STEP_ID=4294967291"}) + "1.log"));
  const std::string task = run("task", {"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"});
  EXPECT_TRUE(fs::exists(task + "0-0.log"));
  EXPECT_FALSE(fs::exists(task + "0-1.log"));
}

TEST_F(TuneCommand, ATableRowIsOneLineWhateverAChoiceHolds) {
  const std::string study =
      write("n.yaml",
            "command: 'echo \"{{\\\"value\\\": 1}}\"'\n"
            "space: {x: {choices: [\"one\\ntwo\"]}, 東京: {low: 1, high: 2}}\ntrials: 1\n");
  const Outcome outcome = run_ingot({"tune", study});
  EXPECT_NE(outcome.output.find("  one two  "), std::string::npos) << outcome.output;
}

// A program that kills the worker that runs it: the trial is tried again, and the study still ends.
TEST_F(TuneCommand, AWorkerThatIsKilledIsReplacedAndItsTrialTriedAgain) {
  const std::string study = write(
      "k.yaml",
      "command: 'mkdir \"$INGOT_TRIAL_DIR/../once\" && kill -9 $PPID; echo \"{{\\\"value\\\": \"{x}\"}}\"'\n"
      "space: {x: {low: 1, high: 2}}\ntrials: 3\nkeep: all\n");
  const Outcome outcome = run_ingot({"tune", study, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("\"complete\": 3"), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::exists(directory_ + "/k-trials/once"));
}

// The fields of /proc/<pid>/stat behind the name: the state, the parent.
std::pair<char, pid_t> state_and_parent(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  char state = 'X';
  pid_t parent = 0;
  if (const std::size_t name = text.rfind(')'); name != std::string::npos)
    std::istringstream(text.substr(name + 1)) >> state >> parent;
  return {state, parent};
}

bool lives(pid_t pid) {
  const char state = state_and_parent(pid).first;
  return state != 'X' && state != 'Z';
}

bool becomes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// A study whose second trial never ends: `pids` gets the worker, the shell and a program that the shell
// started.
struct EndlessStudy {
  std::string pids;
  std::string yaml() const {
    return "command: 'if [ $INGOT_TRIAL = 0 ]; then echo \"{{\\\"value\\\": 1}}\"; exit; fi; sleep 600 & "
           "echo $PPID $$ $! > " +
           pids + ".new; mv " + pids + ".new " + pids +
           "; wait'\nspace: {x: {low: 1, high: 2}}\ntrials: 2\nmax_attempts: 1\n";
  }
  pid_t main = 0, worker = 0, shell = 0, program = 0;
  bool wait_for_begin() {
    if (!becomes_true([&] { return fs::exists(pids); })) return false;
    std::ifstream(pids) >> worker >> shell >> program;
    fs::remove(pids);
    main = state_and_parent(worker).second;
    return lives(main) && lives(worker) && lives(shell) && lives(program);
  }
  bool all_gone() const {
    return becomes_true([&] { return !lives(main) && !lives(worker) && !lives(shell) && !lives(program); });
  }
};

TEST_F(TuneCommand, CtrlCOrAClosedTerminalLeavesNoProcessAndTheTrialDoesNotCountAsADeath) {
  EndlessStudy endless{directory_ + "/pids"};
  const std::string study = write("e.yaml", endless.yaml());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Outcome outcome;
    std::thread running([&] { outcome = run_ingot({"tune", study, "--set", "sampler={seed: 1}"}); });
    const bool begun = endless.wait_for_begin();
    if (begun) ::kill(endless.main, signal);
    running.join();
    ASSERT_TRUE(begun) << outcome.errors;
    EXPECT_EQ(outcome.exit_code, 128 + signal);
    EXPECT_TRUE(endless.all_gone());
    EXPECT_NE(outcome.output.find("Best of 1 trial:"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("Go on with:\n  ingot tune " + study + " --set 'sampler={seed: 1}'\n"),
              std::string::npos)
        << outcome.output;
  }
}

TEST_F(TuneCommand, AKillOfTheWorkerOrOfTheMainProcessLeavesNoCommand) {
  for (const bool main : {false, true}) {
    EndlessStudy endless{directory_ + "/pids"};
    const std::string study = write(main ? "main.yaml" : "worker.yaml", endless.yaml());
    Outcome outcome;
    std::thread running([&] { outcome = run_ingot({"tune", study}); });
    const bool begun = endless.wait_for_begin();
    if (begun) ::kill(main ? endless.main : endless.worker, SIGKILL);
    running.join();  // one attempt is all that max_attempts allows
    ASSERT_TRUE(begun) << outcome.errors;
    EXPECT_TRUE(endless.all_gone());
  }
}

TEST_F(TuneCommand, ATuneInsideATrialIsAStudyOfItsOwn) {
  const std::string inner = write("inner.yaml", kCommandStudy);
  const std::string study = write("outer.yaml", "command: '" INGOT_BINARY " tune " + inner +
                                                    " --json > $INGOT_TRIAL_DIR/out && grep -q best "
                                                    "$INGOT_TRIAL_DIR/out && echo \"{{\\\"value\\\": 1}}\"'\n"
                                                    "space: {x: {low: 1, high: 2}}\ntrials: 1\n");
  const Outcome outcome = run_ingot({"tune", study});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
}

TEST_F(TuneCommand, BadStudiesAreRefusedBeforeAnythingRuns) {
  const auto errors = [&](const std::string& yaml) {
    const Outcome outcome = run_ingot({"tune", write("bad.yaml", yaml)});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_FALSE(fs::exists(directory_ + "/bad.db"));
    return outcome.errors;
  };
  EXPECT_NE(errors("command: x {y}\nspace: {x: {low: 1, high: 2}}\n").find("'{y}' names no parameter"),
            std::string::npos);
  EXPECT_NE(errors("command: x\nspace: {x: {low: 2, high: 1}}\n").find("space.x.low"), std::string::npos);
  EXPECT_NE(errors("command: x\nspcae: {x: {low: 1, high: 2}}\n").find("space"), std::string::npos);
  EXPECT_NE(errors("command: x\ntrails: 4\nspace: {x: {low: 1, high: 2}}\n").find("did you mean 'trials'"),
            std::string::npos);
  EXPECT_NE(errors("space: {x: {low: 1, high: 2}}\n").find("say what to try"), std::string::npos);
  EXPECT_NE(errors("command: x\nset: [a=1]\nspace: {x: {low: 1, high: 2}}\n").find("a command has none"),
            std::string::npos);
  write("base.yaml", "datasets: [{path: x}]\nmodel: some/dir\n");
  EXPECT_NE(errors("train: base.yaml\nspace: {output_dir: {choices: [a, b]}}\n").find("space.output_dir"),
            std::string::npos);
  EXPECT_EQ(run_ingot({"tune", write("w.yaml", kCommandStudy), "--workers", "-3"}).exit_code, 2);
}

TEST_F(TuneCommand, MistakesInAStudyAreToldWithTheirPlaceInIt) {
  write("text.txt", "Some text.\n");
  write("base.yaml",
        "from_scratch: true\narchitecture: {hidden_size: 24, num_hidden_layers: 1, num_attention_heads: 2}\n"
        "datasets: [{path: " +
            directory_ + "/text.txt}]\n");
  const auto expect = [&](const std::string& yaml, const std::string& key, const std::string& problem,
                          const std::string& place) {
    const std::string study = write("bad.yaml", yaml);
    const Outcome outcome = run_ingot({"tune", study});
    EXPECT_EQ(outcome.exit_code, 2) << yaml;
    EXPECT_NE(outcome.errors.find(" " + key + ": "), std::string::npos) << outcome.errors;
    EXPECT_NE(outcome.errors.find(problem), std::string::npos) << outcome.errors;
    EXPECT_NE(outcome.errors.find(place + study + ", line 3)"), std::string::npos) << outcome.errors;
    EXPECT_EQ(outcome.errors.find("--set"), std::string::npos) << outcome.errors;
  };
  const std::string train = "train: base.yaml\nspace:\n",
                    command = "command: x\nspace: {x: {low: 0, high: 1}}\n";
  expect(train + "  lerning_rate: {low: 1e-4, high: 1}\n", "lerning_rate", "did you mean 'learning_rate'?",
         "(space.lerning_rate of ");
  expect(train + "  learning_rate: {low: -2, high: -1}\n", "learning_rate", "must be at least 0",
         "(space.learning_rate of ");
  expect(train + "  architecture.hiden_size: {type: int, low: 1, high: 2}\n", "architecture.hiden_size",
         "did you mean 'hidden_size'?", "(space.architecture.hiden_size of ");
  expect(train + "  learning_rate: {low: 1, hihg: 2}\n", "space.learning_rate.hihg", "did you mean 'high'?",
         "(");
  expect(train + "  learning_rate: {low: 1}\n", "space.learning_rate.high", "is required", "(");
  expect(train + "  learning_rate: {low: 2, high: 1}\n", "space.learning_rate.low", "swap them", "(");
  expect(train + "  optimizer: {choises: [sgd]}\n", "space.optimizer.choises", "did you mean 'choices'?",
         "(");
  expect("train: base.yaml\nspace: {learning_rate: {low: 1, high: 2}}\nset: [sede=1]\n", "sede",
         "unknown key", "(set of ");
  expect("train: base.yaml\nspace: {learning_rate: {low: 1, high: 2}}\nmetric: validation_los\n", "metric",
         "did you mean 'validation_loss'?", "(");
  expect("train: base.yaml\n\nparameters: {learning_rate: {low: 1, high: 2}}\n", "parameters", "unknown key",
         "(");
  expect(command + "direction: maximise\n", "direction", "did you mean 'maximize'?", "(");
  expect(command + "sampler: {type: gird}\n", "sampler.type", "did you mean 'grid'?", "(");
  expect(command + "pruner: {type: assha}\n", "pruner.type", "did you mean 'asha'?", "(");
  expect(command + "sampler: {seed: -1}\n", "sampler.seed", "expected a whole number of at least 0, got '-1'",
         "(");
}

TEST_F(TuneCommand, AStudyThatIsRefusedLeavesNothingBehind) {
  const std::string study = write("r.yaml", kCommandStudy);
  fs::create_directory(directory_ + "/r.db");
  const Outcome outcome = run_ingot({"tune", study});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("r.db: is a directory; "), std::string::npos) << outcome.errors;
  EXPECT_FALSE(fs::exists(directory_ + "/r-trials"));
  const Outcome elsewhere = run_ingot({"tune", study, "--set", "study=new/folder/r.db", "--json"});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.errors;
  EXPECT_TRUE(fs::exists(directory_ + "/new/folder/r-trials/report.html"));
}

TEST_F(TuneCommand, ALogThatCannotBeWrittenIsTheErrorThatIsTold) {
  const std::string study = write("l.yaml", kCommandStudy);
  fs::create_directories(directory_ + "/l-trials/worker-0.log");
  const Outcome outcome = run_ingot({"tune", study});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("l-trials/worker-0.log: cannot be written: Is a directory"),
            std::string::npos)
      << outcome.errors;
}

TEST_F(TuneCommand, ATrainingRunWithoutItsDataOrModelIsRefusedBeforeTheFirstTrial) {
  write("text.txt", "Some text.\n");
  const std::string text = directory_ + "/text.txt", gone = directory_ + "/gone";
  const std::string scratch =
      "from_scratch: true\narchitecture: {hidden_size: 24, num_hidden_layers: 1, num_attention_heads: 2}\n";
  for (const std::string& base :
       {scratch + "datasets: [{path: " + gone + "}]\n",
        scratch + "datasets: [{path: " + text + "}]\nvalidation_datasets: [{path: " + gone + "}]\n",
        "model: " + gone + "\ndatasets: [{path: " + text + "}]\n",
        scratch + "tokenizer: " + gone + "\ndatasets: [{path: " + text + "}]\n"}) {
    write("base.yaml", base);
    const Outcome outcome = run_ingot(
        {"tune", write("t.yaml", "train: base.yaml\nspace: {learning_rate: {low: 1e-4, high: 1e-1}}\n")});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.errors.find(gone + ": "), std::string::npos) << outcome.errors;
    EXPECT_NE(outcome.errors.find("does not exist"), std::string::npos) << outcome.errors;
    EXPECT_FALSE(fs::exists(directory_ + "/t.db")) << base;
    EXPECT_FALSE(fs::exists(directory_ + "/t-trials")) << base;
  }
}

TEST_F(TuneCommand, EveryTrialFailingIsAnErrorThatSaysWhyBesideTheReport) {
  const std::string study = write("f.yaml", "command: exit 7\nspace: {x: {low: 1, high: 2}}\ntrials: 20\n");
  const Outcome outcome = run_ingot({"tune", study});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("exit code 7"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.output.find("failed: the command ended with exit code 7 (trial 0)"), std::string::npos)
      << outcome.output;
  EXPECT_NE(read_file(directory_ + "/f-trials/report.html").find("exit code 7"), std::string::npos);
}

TEST_F(TuneCommand, AStudyTooShortToGiveUpStillFailsWhenEveryTrialDid) {
  const Outcome outcome =
      run_ingot({"tune", write("f.yaml", "command: exit 7\nspace: {x: {low: 1, high: 2}}\ntrials: 2\n")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("No trial is complete\n"), std::string::npos) << outcome.output;
  EXPECT_NE(
      outcome.output.find("2 of 2 trials failed\n  2 failed: the command ended with exit code 7 (trial 0)"),
      std::string::npos)
      << outcome.output;
}

// Two trials of a grid work, two break for one reason, one for another, and one diverges.
constexpr const char* kStudyWithFailures =
    "command: 'case {x} in 0|1) echo \"{{\\\"value\\\": 1}}\" | tr -d \"\\047\";; 2|3) echo begun >&2; "
    "echo no "
    "such file >&2; exit 2;; 4) exit 3;; *) echo \"{{\\\"value\\\": null}}\";; esac'\n"
    "space: {x: {type: int, low: 0, high: 5}}\nsampler: {type: grid}\n";

TEST_F(TuneCommand, ARunEndsWithWhyTrialsFailedOrDiverged) {
  const std::string study = write("why.yaml", kStudyWithFailures);
  const Outcome outcome = run_ingot({"tune", study});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const std::size_t at = outcome.output.find("3 of 6 trials failed, 1 diverged\n");
  ASSERT_NE(at, std::string::npos) << outcome.output;
  const std::string summary = outcome.output.substr(at);
  EXPECT_NE(summary.find("\n  2 failed: the command ended with exit code 2: no such file (trial "),
            std::string::npos)
      << summary;
  EXPECT_NE(summary.find("\n  1 failed: the command ended with exit code 3 (trial "), std::string::npos)
      << summary;
  EXPECT_NE(summary.find("\n  1 diverged: "), std::string::npos) << summary;
  const std::size_t log = summary.find(directory_ + "/why-trials/trial-");
  ASSERT_NE(log, std::string::npos) << summary;
  EXPECT_EQ(read_file(summary.substr(log, summary.find(')', log) - log)), "begun\nno such file\n");
  const std::string report = read_file(directory_ + "/why-trials/report.html");
  EXPECT_NE(report.find("the command ended with exit code 2: no such file"), std::string::npos);
  EXPECT_NE(report.find("diverged: value"), std::string::npos);
}

TEST_F(TuneCommand, JsonTellsWhyTrialsFailedAndHowToFitTheBest) {
  const Outcome outcome = run_ingot({"tune", write("why.yaml", kStudyWithFailures), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto json = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(json["failures"].size(), 3U) << outcome.output;
  const auto& commonest = json["failures"][0];
  EXPECT_EQ(commonest["state"], "failed");
  EXPECT_EQ(commonest["reason"], "the command ended with exit code 2: no such file");
  EXPECT_EQ(commonest["trials"].size(), 2U);
  EXPECT_EQ(read_file(commonest["log"].get<std::string>()), "begun\nno such file\n");
  EXPECT_FALSE(json["best"].contains("longer_command"));  // only a training run can go on for longer
}

TEST_F(TuneCommand, TunesAForecastAndSaysHowToFitTheBest) {
  std::string csv = "ds,sales\n";
  for (int i = 0; i < 200; ++i) csv += std::to_string(i) + "," + std::to_string(i * 37 % 11) + "\n";
  const std::string data = write("days.csv", csv);
  write("base.yaml", "data: days.csv\nmodel: nlinear\nhorizon: 7\nlookback: 14\nepochs: 2\n");
  const std::string study =
      write("n.yaml", "forecast: base.yaml\nspace: {batch_size: {type: int, low: 8, high: 32}}\ntrials: 2\n");
  const Outcome outcome = run_ingot({"tune", study, "--set", "set=[epochs=1]"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("Fit it:\n  ingot forecast fit " + data + " --config " + directory_ +
                                "/base.yaml --set epochs=1 --set batch_size="),
            std::string::npos)
      << outcome.output;
  const Outcome json = run_ingot({"tune", study, "--set", "set=[epochs=1]", "--json"});
  const auto command = nlohmann::json::parse(json.output)["best"]["command"].get<std::string>();
  EXPECT_NE(outcome.output.find("Fit it:\n  " + command + "\n"), std::string::npos) << command;
  write("days.csv", "ds,sales\n1,2\n2,much\n");
  const Outcome refused = run_ingot({"tune", study, "--set", "study=other.db"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("line 3, column 'sales': 'much' is not a number"), std::string::npos)
      << refused.errors;
  EXPECT_FALSE(fs::exists(directory_ + "/other.db"));
}

TEST_F(TuneCommand, TunesATrainingRunWithPruning) {
  std::ofstream text(directory_ + "/text.txt");
  for (int i = 0; i < 300; ++i) text << "Line " << i << " comes before line " << i + 1 << ".\n";
  text.close();
  write("base.yaml",
        "from_scratch: true\narchitecture: {hidden_size: 24, num_hidden_layers: 1, num_attention_heads: 2}\n"
        "vocab_size: 280\ndatasets: [{path: text.txt}]\n"
        "sequence_len: 16\nper_device_train_batch_size: 2\nmax_steps: 6\neval_steps: 2\neval_batches: 2\n");
  const std::string study =
      write("t.yaml",
            "train: base.yaml\nspace:\n  learning_rate: {low: 1e-4, high: 1e-1, log: true}\n"
            "  architecture.num_hidden_layers: {type: int, low: 1, high: 2}\ntrials: 4\npruner: {type: asha, "
            "reduction_factor: 2}\n");
  const Outcome outcome = run_ingot({"tune", study, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("\"failed\": 0"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("\"architecture.num_hidden_layers\""), std::string::npos) << outcome.output;
  const Outcome again = run_ingot({"tune", study});
  const std::string train = "cd " + directory_ + " && ingot train ";
  const std::size_t exact = again.output.find("Train it again:\n  " + train);
  const std::size_t longer = again.output.find("Or three times as long:\n  " + train);
  ASSERT_NE(exact, std::string::npos) << again.output;
  ASSERT_NE(longer, std::string::npos) << again.output;
  EXPECT_TRUE(again.output.ends_with("--set output_dir=output --set max_steps=18\n")) << again.output;
  const std::string first = again.output.substr(exact, longer - exact);
  EXPECT_TRUE(first.ends_with("config.yaml --set output_dir=output\n")) << first;
  std::string command = first.substr(first.find("ingot train ") + 6);
  command.pop_back();  // the line's end
  EXPECT_EQ(
      std::system(
          ("cd " + directory_ + " && " + INGOT_BINARY + " " + command + " --json > result.json").c_str()),
      0);
  const auto result = nlohmann::json::parse(read_file(directory_ + "/result.json"));
  EXPECT_EQ(result["best_validation_loss"], nlohmann::json::parse(outcome.output)["best"]["value"])
      << "the best trial again";
  EXPECT_TRUE(fs::exists(directory_ + "/output/model/model.safetensors"));
  const Outcome typo = run_ingot({"tune", study, "--set", "set=[lerning_rate_x=1]"});
  EXPECT_EQ(typo.exit_code, 2);
}

}  // namespace
}  // namespace ingot::testing
