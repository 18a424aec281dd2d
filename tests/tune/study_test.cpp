#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/base/files.h"
#include "ingot/tune/database.h"
#include "ingot/tune/objective.h"
#include "ingot/tune/tuner.h"

namespace ingot::tune {
namespace {

namespace fs = std::filesystem;

class Study : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "ingot-study-" + std::to_string(::getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  TunerOptions options(std::int64_t trials) const {
    return {.space = {{{.name = "x", .low = 0, .high = 1},
                       {.name = "n", .kind = ParameterKind::integer, .low = 1, .high = 4}}},
            .trials = trials,
            .study = directory_ + "/study.db"};
  }
  static double value_of(const Trial& trial) { return std::abs(trial.values[0] - 0.3) + trial.values[1]; }

  /// Starts `body` in a process of its own.
  template <class F>
  static pid_t start_process(F&& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        body();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    return child;
  }
  static int wait_status(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  }
  /// Runs `body` in a process of its own; returns its wait status.
  template <class F>
  static int in_a_process(F&& body) {
    return wait_status(start_process(body));
  }

  std::string directory_;
};

void run_all(Tuner& tuner, int steps = 3) {
  while (!tuner.is_complete()) {
    auto trial = tuner.suggest();
    if (!trial) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    for (int step = 1; step <= steps; ++step) tuner.report(*trial, step, 1.0 / step);
    tuner.complete(*trial, trial->values[0] + trial->values[1]);
  }
}

TEST_F(Study, GoesOnWhereItStoppedAsIfItNeverHad) {
  std::vector<std::string> whole;
  {
    TunerOptions o = options(30);
    o.study = "";
    Tuner tuner(o);
    run_all(tuner);
    for (const Trial& trial : tuner.trials()) whole.push_back(tuner.space().to_json(trial.values));
  }
  for (const std::int64_t part : {7, 19, 30}) {
    Tuner tuner(options(part));
    run_all(tuner);
    ASSERT_EQ(tuner.trials().size(), static_cast<std::size_t>(part));
  }
  Tuner tuner(options(30));
  EXPECT_TRUE(tuner.is_complete());
  EXPECT_FALSE(tuner.suggest().has_value());
  for (std::size_t i = 0; i < 30; ++i)
    EXPECT_EQ(tuner.space().to_json(tuner.trials()[i].values), whole[i]) << i;
  EXPECT_EQ(tuner.trials()[4].reports.size(), 3U);
}

TEST_F(Study, AGridTriesWhatNoTrialBeforeHadWhoeverMadeIt) {
  TunerOptions o = options(4);
  o.space = {{{.name = "i", .kind = ParameterKind::integer, .low = 1, .high = 8},
              {.name = "x", .low = 0, .high = 1, .points = 3}}};
  o.sampler.type = "random";
  o.space.parameters[1].step = 0.25;  // so that random trials hit points of the grid
  const auto finish_all = [](Tuner& tuner) {
    std::set<std::string> tried;
    while (auto trial = tuner.suggest()) tuner.complete(*trial, trial->values[0]);
    for (const Trial& trial : tuner.trials()) tried.insert(tuner.space().to_json(trial.values));
    return tried;
  };
  {
    Tuner tuner(o);
    finish_all(tuner);
  }
  o.trials = 100;
  o.sampler.type = "grid";
  const auto expect_all = [&](std::initializer_list<double> xs) {
    Tuner tuner(o);
    const std::int64_t budget = tuner.budget();
    const std::set<std::string> tried = finish_all(tuner);
    for (int i = 1; i <= 8; ++i) {
      for (const double x : xs)
        EXPECT_TRUE(tried.contains(tuner.space().to_json({double(i), x}))) << i << " " << x;
    }
    EXPECT_TRUE(tuner.is_complete());
    EXPECT_EQ(std::ssize(tuner.trials()), budget);
    EXPECT_LE(budget, 4 + 8 * std::ssize(xs));
  };
  expect_all({0, 0.5, 1});
  o.space.parameters[1].points = 5;
  expect_all({0, 0.25, 0.5, 0.75, 1});
  EXPECT_EQ(Tuner(o).budget(), 40);  // everything, once
}

TEST_F(Study, NoTwoProcessesTakeOnePointOfAGrid) {
  TunerOptions o = options(100);
  o.sampler.type = "grid";
  o.space.parameters[0].points = 10;
  std::vector<pid_t> workers;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(start_process([&o] {
      Tuner tuner(o);
      run_all(tuner);
    }));
  }
  for (const pid_t worker : workers) EXPECT_EQ(wait_status(worker), 0);
  Tuner tuner(o);
  EXPECT_TRUE(tuner.is_complete());
  std::set<std::string> different;
  for (const Trial& trial : tuner.trials()) different.insert(tuner.space().to_json(trial.values));
  EXPECT_EQ(different.size(), 40U);
  EXPECT_EQ(tuner.trials().size(), 40U);
}

TEST_F(Study, OfSomethingElseIsRefusedWithTheDifference) {
  { Tuner tuner(options(3)); }
  const auto message = [](const TunerOptions& o) {
    try {
      Tuner tuner(o);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  TunerOptions space = options(3);
  space.space.parameters[0].high = 2;
  EXPECT_NE(message(space).find("now           x: {\"type\":\"float\",\"low\":0.0,\"high\":2.0}"),
            std::string::npos)
      << message(space);
  TunerOptions direction = options(3);
  direction.direction = Direction::maximize;
  EXPECT_NE(message(direction).find("direction"), std::string::npos);
  TunerOptions objective = options(3);
  objective.objective = "train: other.yaml";
  EXPECT_NE(message(objective).find("other.yaml"), std::string::npos);
  std::ofstream(directory_ + "/text.db") << "this is not a database, and longer than a header is\n"
                                         << std::string(200, 'x');
  TunerOptions text = options(3);
  text.study = directory_ + "/text.db";
  EXPECT_NE(message(text).find("expected a study"), std::string::npos) << message(text);
  TunerOptions nowhere = options(3);
  nowhere.study = directory_ + "/no/such/study.db";
  EXPECT_NE(message(nowhere).find("no/such/study.db"), std::string::npos);
}

TEST_F(Study, AFileThatCannotBeWrittenIsRefusedBeforeATrialBegins) {
  { Tuner tuner(options(3)); }
  const auto refused = [&](const std::string& path, const std::string& why) {
    return in_a_process([&] {
      if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);  // root may write everything
      TunerOptions o = options(3);
      o.study = path;
      const std::string message = test::message_of<IoError>([&] { Tuner tuner(o); });
      std::fprintf(stderr, "%s\n", message.c_str());
      ::_exit(message.find(path + ": " + why) != std::string::npos ? 42 : 1);
    });
  };
  const std::string study = directory_ + "/study.db";
  fs::permissions(study, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  EXPECT_EQ(WEXITSTATUS(refused(study, "cannot write to it: attempt to write a readonly database; ")), 42);
  fs::permissions(study, fs::perms::all);
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                                  fs::perms::others_exec);
  EXPECT_EQ(WEXITSTATUS(refused(study, "cannot ")), 42);  // the files beside it
  EXPECT_EQ(WEXITSTATUS(refused(directory_ + "/new.db", "cannot open it: unable to open database file; ")),
            42);
  fs::permissions(directory_, fs::perms::all);
  fs::create_directory(directory_ + "/folder.db");
  EXPECT_EQ(WEXITSTATUS(refused(directory_ + "/folder.db", "is a directory; ")), 42);
}

TEST_F(Study, ATrialWhoseProcessDiedIsGivenOutAgainWithTheSameValues) {
  const int status = in_a_process([&] {
    Tuner tuner(options(5));
    auto done = tuner.suggest();
    tuner.complete(*done, 1.5);
    auto lost = tuner.suggest();
    tuner.report(*lost, 1, 0.5);
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  Tuner tuner(options(5));
  ASSERT_EQ(tuner.trials().size(), 2U);
  EXPECT_EQ(tuner.trials()[0].value, 1.5);
  const Values values = tuner.trials()[1].values;
  auto again = tuner.suggest();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->number, 1);
  EXPECT_EQ(again->values, values);
  EXPECT_EQ(again->attempts, 2);
  EXPECT_TRUE(again->reports.empty());
}

TEST_F(Study, ATrialThatKillsEveryWorkerFailsInTheEnd) {
  for (int i = 0; i < 3; ++i) {
    in_a_process([&] {
      Tuner tuner(options(1));
      if (tuner.suggest()) ::kill(::getpid(), SIGKILL);
    });
  }
  Tuner tuner(options(1));
  EXPECT_TRUE(tuner.is_complete());
  EXPECT_EQ(tuner.trials()[0].state, TrialState::failed);
  EXPECT_NE(tuner.trials()[0].note.find("died 3 times"), std::string::npos);
}

TEST_F(Study, ALeaseThatRanOutIsLostAndTheLateWorkerIsTold) {
  const StudyIdentity identity{options(1).space, Direction::minimize, ""};
  StudyStore slow(options(1).study, identity, {.lease_seconds = 0.05});
  StudyStore quick(options(1).study, identity, {.lease_seconds = 0.05});
  const auto sample = [](const std::vector<Trial>& trials) {
    return trials.empty() ? std::optional(Values{0.5, 2}) : std::nullopt;
  };
  auto trial = slow.claim(sample);
  EXPECT_FALSE(quick.claim(sample).has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
  auto taken = quick.claim(sample);
  ASSERT_TRUE(taken.has_value());
  EXPECT_THROW(slow.report(*trial, 1, 0.0), TrialLost);
  EXPECT_THROW(slow.finish(*trial, TrialState::complete, {0}, ""), TrialLost);
  quick.finish(*taken, TrialState::complete, {3}, "");
  slow.sync();
  EXPECT_EQ(slow.trials()[0].value, 3.0);
}

// As after a jump of the clock, or when the machine slept.
TEST_F(Study, AProcessOfThisMachineKeepsItsTrialWhileItLivesWhateverTheClocksSay) {
  const StudyIdentity identity{options(1).space, Direction::minimize, ""};
  const auto sample = [](const std::vector<Trial>& trials) {
    return trials.empty() ? std::optional(Values{0.5, 2}) : std::nullopt;
  };
  std::array<int, 2> claimed{};
  ASSERT_EQ(::pipe(claimed.data()), 0);
  const pid_t worker = ::fork();
  if (worker == 0) {
    StudyStore store(options(1).study, identity, {.lease_seconds = 0.05});
    const bool has_it = store.claim(sample).has_value();
    if (::write(claimed[1], has_it ? "1" : "0", 1) == 1) ::pause();
    ::_exit(1);
  }
  char answer = 0;
  ASSERT_EQ(::read(claimed[0], &answer, 1), 1);
  ASSERT_EQ(answer, '1');
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
  StudyStore other(options(1).study, identity, {.lease_seconds = 0.05});
  EXPECT_FALSE(other.claim(sample).has_value());
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
  EXPECT_TRUE(other.claim(sample).has_value());
  for (const int end : claimed) ::close(end);
}

// Who follows along reads only what is new; an attempt that is given up takes its reports along.
TEST_F(Study, WhoFollowsTheReportsKnowsWhatWhoComesLaterReads) {
  TunerOptions o = options(40);
  o.max_attempts = 1000;
  Tuner follower(o);
  std::mt19937 random(11);
  const auto expect_same = [&] {
    const std::vector<Trial> followed = follower.trials(), read = Tuner(o).trials();
    ASSERT_EQ(followed.size(), read.size());
    for (std::size_t i = 0; i < read.size(); ++i) {
      ASSERT_EQ(followed[i].reports.size(), read[i].reports.size()) << i;
      for (std::size_t k = 0; k < read[i].reports.size(); ++k) {
        EXPECT_EQ(followed[i].reports[k].step, read[i].reports[k].step) << i;
        EXPECT_EQ(followed[i].reports[k].value, read[i].reports[k].value) << i;
      }
    }
  };
  while (!follower.is_complete()) {
    Tuner tuner(o);  // gives up its trial where it ends before that is complete
    auto trial = tuner.suggest();
    ASSERT_TRUE(trial.has_value());
    const auto end = static_cast<std::int64_t>(random() % 6);
    for (std::int64_t step = 0; step < end; ++step) {
      tuner.report(*trial, 2 * step, static_cast<double>(random() % 100));
      if (random() % 2 == 0) expect_same();
    }
    ASSERT_EQ(std::ssize(trial->reports), end);
    if (random() % 3 != 0) tuner.complete(*trial, 1.0);
    if (random() % 2 == 0) expect_same();
  }
  expect_same();
}

TEST_F(Study, AHeartKeepsTheLeaseOfALongTrial) {
  TunerOptions o = options(2);
  o.lease_seconds = 0.2;
  Tuner mine(o), other(o);
  auto trial = mine.suggest();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(other.is_complete());
  EXPECT_NO_THROW(mine.complete(*trial, 1.0));
}

TEST_F(Study, KilledInTheMiddleOfAnyTransactionItLosesAtMostTheRunningTrial) {
  for (const char* place : {"crash:tune.claim:4", "crash:tune.report:8", "crash:tune.finish:3"}) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    const int status = in_a_process([&] {
      const ScopedFault fault(parse_fault(place));
      Tuner tuner(options(10));
      run_all(tuner);
    });
    ASSERT_TRUE(WIFSIGNALED(status)) << place;
    Tuner tuner(options(10));
    const auto complete = [&] {
      return std::ranges::count(tuner.trials(), TrialState::complete, [](const Trial& t) { return t.state; });
    };
    EXPECT_GE(complete(), 2) << place;
    run_all(tuner);
    EXPECT_EQ(complete(), 10) << place;
  }
}

// Eight workers, one killed every few milliseconds and another started: every trial ends once, none is lost.
TEST_F(Study, HammeredByEightProcessesWithRandomKillsItComesOutWhole) {
  constexpr std::int64_t kTrials = 60;
  TunerOptions o = options(kTrials);
  o.max_attempts = 1000;
  std::vector<pid_t> workers;
  const auto start = [&o] {
    return start_process([&o] {
      Tuner tuner(o);
      run_all(tuner);
    });
  };
  for (int i = 0; i < 8; ++i) workers.push_back(start());
  std::mt19937 random(7);
  int kills = 0, bad_ends = 0;
  for (bool running = true; running;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (kills < 40) {
      const pid_t victim = workers[random() % workers.size()];
      if (victim > 0) ::kill(victim, SIGKILL);  // 0 has ended; to kill(), it is the whole process group
      ++kills;
    }
    running = false;
    for (pid_t& worker : workers) {
      if (worker == 0) continue;
      int status = 0;
      if (::waitpid(worker, &status, WNOHANG) == 0) {
        running = true;
        continue;
      }
      const bool killed = WIFSIGNALED(status);
      bad_ends += !killed && WEXITSTATUS(status) != 0 ? 1 : 0;
      worker = killed ? start() : 0;
      running = running || killed;
    }
  }
  EXPECT_EQ(bad_ends, 0);
  Tuner tuner(o);
  EXPECT_TRUE(tuner.is_complete());
  ASSERT_EQ(tuner.trials().size(), static_cast<std::size_t>(kTrials));
  std::set<std::string> different;
  for (const Trial& trial : tuner.trials()) {
    EXPECT_EQ(trial.state, TrialState::complete) << trial.number << " " << trial.note;
    EXPECT_EQ(trial.value, trial.values[0] + trial.values[1]);
    EXPECT_EQ(trial.reports.size(), 3U);
    different.insert(tuner.space().to_json(trial.values));
  }
  EXPECT_GT(different.size(), 55U) << "workers should not draw alike";
}

// The largest file that the process may write stands for the disk: writes beyond it fail in the same calls.
TEST_F(Study, TwoProcessesOnAFullDiskAreToldAndLoseNothing) {
  std::int64_t before = 0;
  {
    Tuner tuner(options(5));
    run_all(tuner);
    before = static_cast<std::int64_t>(tuner.trials().size());
  }
  const auto fill = [&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 60'000, .rlim_max = 60'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      Tuner tuner(options(5000));
      run_all(tuner);
    } catch (const IoError& error) {
      const std::string what = error.what();
      ::_exit(what.find("study.db") != std::string::npos && what.find("make room") != std::string::npos ? 42
                                                                                                        : 1);
    }
  };
  const pid_t one = start_process(fill), other = start_process(fill);
  EXPECT_EQ(WEXITSTATUS(wait_status(one)), 42);
  EXPECT_EQ(WEXITSTATUS(wait_status(other)), 42);
  Tuner tuner(options(5));
  EXPECT_GE(static_cast<std::int64_t>(tuner.trials().size()), before);
  for (std::int64_t i = 0; i < before; ++i) {
    EXPECT_EQ(tuner.trials()[static_cast<std::size_t>(i)].state, TrialState::complete);
  }
  Tuner more(options(static_cast<std::int64_t>(tuner.trials().size()) + 3));
  run_all(more);
  EXPECT_TRUE(more.is_complete());
}

TEST_F(Study, OfAnotherProgramsDatabaseNothingIsChanged) {
  const std::string path = options(1).study;
  for (const char* content :
       {"CREATE TABLE notes (text TEXT)", "PRAGMA application_id=1196444487", "PRAGMA user_version=7"}) {
    fs::remove(path);
    {
      Database theirs(path);
      theirs.run("PRAGMA journal_mode=DELETE");
      theirs.run(content);
    }
    const std::string before = read_file(path);
    const std::string message = test::message_of<FormatError>([&] { Tuner tuner(options(1)); });
    EXPECT_NE(message.find("is a database of another program"), std::string::npos) << message;
    EXPECT_TRUE(read_file(path) == before) << content;
    EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1) << content;
  }
}

TEST_F(Study, ViewsAndTriggersOfTheFileAreRefusedAndNotRun) {
  for (const char* change :
       {"ALTER TABLE trials RENAME TO kept; CREATE VIEW trials AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL "
        "SELECT x + 1 FROM n) SELECT x AS number, 1 AS revision FROM n",
        "CREATE TRIGGER t AFTER UPDATE ON trials BEGIN DELETE FROM study; END"}) {
    fs::remove(options(1).study);
    { Tuner tuner(options(1)); }
    Database(options(1).study).run(change);
    const std::string message = test::message_of<FormatError>([&] { Tuner tuner(options(1)); });
    for (const char* part : {"study.db", "holds a view or a trigger"})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST_F(Study, ATrialThatIsMissingIsNamed) {
  {
    Tuner tuner(options(5));
    run_all(tuner);
  }
  Database(options(5).study).run("DELETE FROM trials WHERE number = 3");
  const std::string message = test::message_of<FormatError>([&] { Tuner tuner(options(5)); });
  EXPECT_NE(message.find("trial 3: is missing, trial 4 is there"), std::string::npos) << message;
}

TEST_F(Study, AWrongStepFailsItsTrialOnly) {
  class Steps : public Objective {
   public:
    void check(const SearchSpace&, const Values&) override {}
    std::optional<std::vector<double>> run(TrialRun& run) override {
      run.report(run.trial().number == 1 ? -1 : 1, 0.5);
      if (run.trial().number == 2) run.report(1, 0.5);
      return std::vector<double>{1};
    }
  };
  const StudyConfig config{.tuner = options(4), .output_dir = directory_ + "/trials"};
  Tuner tuner(config.tuner);
  Steps objective;
  work(tuner, objective, config);
  const std::vector<Trial> trials = tuner.trials();
  EXPECT_NE(trials[1].note.find("trial 1 reported step -1; steps count from 0"), std::string::npos);
  EXPECT_NE(trials[2].note.find("steps must grow"), std::string::npos);
  EXPECT_EQ(std::ranges::count(trials, TrialState::complete, &Trial::state), 2);
}

TEST_F(Study, PathsThatAreEmptyAreRefused) {
  for (const char* key : {"study", "output_dir"}) {
    Config config =
        Config::parse("command: 'true'\nspace: {x: {low: 0, high: 1}}\n" + std::string(key) + ": ''\n");
    const std::string message =
        test::message_of<InvalidConfig>([&] { read_study_config(config, "lr.yaml"); });
    EXPECT_NE(message.find(key + std::string(": is empty")), std::string::npos) << message;
  }
}

TEST_F(Study, TrialsOnceReadStayAsTheyAre) {
  Tuner tuner(options(200));
  auto first = tuner.suggest();
  tuner.complete(*first, 1.0);
  const auto& before = tuner.trials();
  run_all(tuner);
  ASSERT_EQ(before.size(), 1U);
  EXPECT_EQ(before[0].value, 1.0);
  EXPECT_EQ(tuner.trials().size(), 200U);
}

// Each trial is better than those before; another worker sweeps all the while.
TEST_F(Study, SweepingLeavesTheDirectoryOfTheBestTrialAlone) {
  StudyConfig config{.tuner = options(300), .output_dir = directory_ + "/trials", .keep = "best"};
  config.tuner.sampler.type = "random";
  std::atomic<bool> done = false;
  std::thread other([&] {
    Tuner tuner(config.tuner);
    TrialSweeper sweeper(tuner, config);
    while (!done) sweeper.sweep();
  });
  Tuner tuner(config.tuner);
  int missing = 0;
  while (auto trial = tuner.suggest()) {
    const std::string own = config.trial_directory(trial->number);
    fs::create_directories(own);
    tuner.complete(*trial, -static_cast<double>(trial->number));
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    missing += fs::exists(own) ? 0 : 1;
  }
  done = true;
  other.join();
  EXPECT_EQ(missing, 0);
  TrialSweeper(tuner, config).sweep();
  EXPECT_EQ(std::distance(fs::directory_iterator(config.output_dir), fs::directory_iterator()), 1);
}

TEST_F(Study, ValuesThatAreNoNumbersFailAndStepsMustGrow) {
  Tuner tuner(options(3));
  auto trial = tuner.suggest();
  tuner.report(*trial, 5, 1.0);
  EXPECT_THROW(tuner.report(*trial, 5, 1.0), InvalidConfig);
  tuner.complete(*trial, NAN);
  EXPECT_EQ(tuner.trials()[0].state, TrialState::failed);
  EXPECT_FALSE(tuner.best_trial().has_value());
  auto second = tuner.suggest();
  tuner.complete(*second, -INFINITY);
  EXPECT_EQ(tuner.best_trial()->number, 1);
}

}  // namespace
}  // namespace ingot::tune
