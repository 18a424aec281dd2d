// A study on a PostgreSQL server: a real one, which the tests start where it is installed.
#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/postgres_server.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/tune/study_config.h"
#include "ingot/tune/tuner.h"

namespace ingot::tune {
namespace {

using test::message_of;
using test::PostgresServer;

class PostgresStudy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<PostgresServer>(); }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (!server_->is_installed()) GTEST_SKIP() << "PostgreSQL is not installed (Debian: postgresql)";
    ASSERT_TRUE(server_->is_there()) << "the server did not start";
  }

  static TunerOptions options(const std::string& study, std::int64_t trials) {
    return {.space = {{{.name = "x", .low = 0, .high = 1},
                       {.name = "n", .kind = ParameterKind::integer, .low = 1, .high = 4}}},
            .trials = trials,
            .study = server_->url(study)};
  }
  static void finish_one(Tuner& tuner) {
    auto trial = tuner.suggest();
    ASSERT_TRUE(trial.has_value());
    for (int step = 1; step <= 2; ++step) tuner.report(*trial, step, trial->values[0] + step);
    tuner.complete(*trial, trial->values[0]);
  }

  static inline std::unique_ptr<PostgresServer> server_;
};

TEST_F(PostgresStudy, GoesOnWhereItStoppedWithEveryValueAndReport) {
  std::vector<Trial> before;
  {
    Tuner tuner(options("goes on", 6));
    for (int i = 0; i < 3; ++i) finish_one(tuner);
    auto failed = tuner.suggest();
    tuner.fail(*failed, "it's \"broken\" \\ here?");
    before = tuner.trials();
  }
  Tuner tuner(options("goes on", 6));
  const std::vector<Trial> after = tuner.trials();
  ASSERT_EQ(after.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(after[i].values, before[i].values);
    EXPECT_EQ(after[i].note, before[i].note);
    EXPECT_EQ(after[i].state, before[i].state);
    EXPECT_EQ(after[i].reports.size(), i < 3 ? 2U : 0U);
    if (i < 3) EXPECT_EQ(after[i].value, before[i].value);
  }
  finish_one(tuner);
  finish_one(tuner);
  EXPECT_FALSE(tuner.suggest().has_value());
  EXPECT_TRUE(tuner.is_complete());
}

TEST_F(PostgresStudy, StudiesOfOneDatabaseKeepApartAndAnotherSpaceIsRefused) {
  Tuner first(options("apart-1", 2)), second(options("apart-2", 2));
  finish_one(first);
  EXPECT_EQ(first.trials().size(), 1U);
  EXPECT_EQ(second.trials().size(), 0U);
  TunerOptions other = options("apart-1", 2);
  other.space.parameters[0].high = 2;
  EXPECT_NE(message_of<InvalidConfig>([&] { Tuner refused(other); }).find("another search space"),
            std::string::npos);
}

TEST_F(PostgresStudy, WorkersAtOnceNeverGetOneTrialTwice) {
  constexpr int kWorkers = 6, kTrials = 60;
  std::vector<std::thread> workers;
  for (int w = 0; w < kWorkers; ++w) {
    workers.emplace_back([] {
      Tuner tuner(options("at once", kTrials));
      while (auto trial = tuner.suggest()) tuner.complete(*trial, static_cast<double>(trial->number));
    });
  }
  for (std::thread& worker : workers) worker.join();
  Tuner tuner(options("at once", kTrials));
  const std::vector<Trial> trials = tuner.trials();
  ASSERT_EQ(trials.size(), static_cast<std::size_t>(kTrials));
  for (const Trial& trial : trials) {
    EXPECT_EQ(trial.state, TrialState::complete);
    EXPECT_EQ(trial.attempts, 1);
    EXPECT_EQ(trial.value, static_cast<double>(trial.number));
  }
}

TEST_F(PostgresStudy, ATrialWhoseProcessDiedIsGivenOutAgain) {
  const pid_t child = ::fork();
  if (child == 0) {
    Tuner tuner(options("died", 2));
    static_cast<void>(tuner.suggest());
    ::_exit(0);  // without putting it back
  }
  ::waitpid(child, nullptr, 0);
  Tuner tuner(options("died", 2));
  const auto trial = tuner.suggest();
  ASSERT_TRUE(trial.has_value());
  EXPECT_EQ(trial->number, 0);
  EXPECT_EQ(trial->attempts, 2);
}

// A server whose clock is an hour ahead of this machine's, for as long as the object lives.
class HourAhead {
 public:
  explicit HourAhead(PostgresServer& server) : server_(server) {
    is_set_ = server_.execute(
        "SET allow_system_table_mods = on;"
        "ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO true_timestamp;"
        "CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS "
        "$$ SELECT pg_catalog.true_timestamp() + interval '1 hour' $$;");
  }
  ~HourAhead() {
    server_.execute(
        "SET allow_system_table_mods = on; DROP FUNCTION pg_catalog.clock_timestamp();"
        "ALTER FUNCTION pg_catalog.true_timestamp() RENAME TO clock_timestamp;");
  }
  HourAhead(const HourAhead&) = delete;
  HourAhead& operator=(const HourAhead&) = delete;
  bool is_set() const { return is_set_; }

 private:
  PostgresServer& server_;
  bool is_set_ = false;
};

TEST_F(PostgresStudy, ALeaseIsCountedByTheClockOfTheServer) {
  const HourAhead clock(*server_);
  ASSERT_TRUE(clock.is_set());
  TunerOptions two = options("lease", 2);
  two.lease_seconds = 100;
  Tuner elsewhere(two), here(two);
  ASSERT_EQ(elsewhere.suggest()->number, 0);
  // As a worker of another host has it, of whom only the heartbeat tells.
  const auto was_heard_of = [](int seconds_ago) {
    return server_->execute(
        "UPDATE ingot_lease.trials SET machine = 'elsewhere', heartbeat = extract(epoch FROM "
        "clock_timestamp()) - " +
        std::to_string(seconds_ago) + " WHERE number = 0");
  };
  ASSERT_TRUE(was_heard_of(90));
  EXPECT_EQ(here.suggest()->number, 1);
  ASSERT_TRUE(was_heard_of(110));
  const auto again = here.suggest();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->number, 0);
  EXPECT_EQ(again->attempts, 2);
}

TEST_F(PostgresStudy, OutlivesARestartOfTheServer) {
  Tuner tuner(options("restart", 3));
  finish_one(tuner);
  ASSERT_TRUE(server_->restart());
  EXPECT_EQ(tuner.trials().size(), 1U);
  finish_one(tuner);
}

TEST(PostgresUrl, OfNoServerIsRefusedWithoutThePassword) {
  TunerOptions options{.space = {{{.name = "x", .low = 0, .high = 1}}}, .trials = 1};
  options.study = "postgresql://ann:secret@localhost:1/db?connect_timeout=2#study";
  const std::string message = message_of<IoError>([&] { Tuner tuner(options); });
  EXPECT_NE(message.find("ann:***@localhost"), std::string::npos) << message;
  EXPECT_EQ(message.find("secret"), std::string::npos) << message;
}

TEST(PostgresUrl, TakesTheNameOfTheStudyFromItsFile) {
  Config config = Config::parse(
      "{command: 'true', space: {x: {low: 0, high: 1}}, study: 'postgresql://db/lab', output_dir: out}");
  EXPECT_EQ(read_study_config(config, "/tmp/rates.yaml").tuner.study, "postgresql://db/lab#rates");
}

}  // namespace
}  // namespace ingot::tune
