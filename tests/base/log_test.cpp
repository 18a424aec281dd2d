#include "ingot/base/log.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot {
namespace {

/// What `body` writes to stderr under a set-up.
template <class Body>
std::string logged(const LogConfig& config, Body body) {
  ::testing::internal::CaptureStderr();
  init_logging(config);
  body();
  std::string text = ::testing::internal::GetCapturedStderr();
  init_logging(LogConfig::testing());
  return text;
}

TEST(Log, AMessageIsOneLine) {
  const auto speak = [] { log(LogLevel::warn, "ingot::data", "a\n  forged", {{"file", "b\n  c"}}); };
  EXPECT_EQ(logged(LogConfig::testing(), speak), "warn  a\\n  forged file=b\\n  c\n");
}

TEST(Log, PresetsDifferInLevelAndInWhatALineShows) {
  const auto speak = [] {
    log(LogLevel::debug, "ingot::data", "packing");
    log(LogLevel::warn, "ingot::data", "slow",
        {{"seconds", 1.5}, {"file", "a b"}, {"tries", 3}, {"ok", false}});
  };
  EXPECT_EQ(logged(LogConfig::testing(), speak), "warn  slow seconds=1.5 file=a b tries=3 ok=false\n");
  const std::string development = logged(LogConfig::development(), speak);
  EXPECT_NE(development.find("debug ingot::data: packing (log_test.cpp:"), std::string::npos) << development;
  EXPECT_EQ(development.substr(0, 2), "20") << "a time comes first";
  const std::string production = logged(LogConfig::production(), speak);
  EXPECT_EQ(production.find("packing"), std::string::npos);
  EXPECT_EQ(production.find("ingot::data"), std::string::npos);
  EXPECT_NE(production.find("warn  slow seconds=1.5"), std::string::npos) << production;
}

TEST(Log, JsonLinesHoldTypedFieldsEvenForWhatJsonLacks) {
  LogConfig config = LogConfig::development();
  config.json = true;
  const std::string text = logged(config, [] {
    log_training_step(50, 1000, 3.25, 1e-3);
    log_metrics({{"loss", std::nan("")}, {"text", "\xff\"x"}});
    log_memory_usage(1'500'000, 2'000'000, "after step");
  });
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const auto step = parse_json<nlohmann::json>(line, "the test");
  EXPECT_EQ(step["message"], "Training step");
  EXPECT_EQ(step["target"], "ingot::training");
  EXPECT_EQ(step["level"], "info");
  EXPECT_EQ(step["step"], 50);
  EXPECT_EQ(step["total_steps"], 1000);
  EXPECT_EQ(step["progress_pct"], 5.0);
  EXPECT_EQ(step["loss"], 3.25);
  EXPECT_EQ(step["lr"], 1e-3);
  EXPECT_TRUE(step.contains("time"));
  EXPECT_TRUE(step["source"].get<std::string>().find("log_test.cpp:") != std::string::npos);
  std::getline(lines, line);
  EXPECT_EQ(parse_json<nlohmann::json>(line, "the test")["loss"], "nan");
  std::getline(lines, line);
  EXPECT_EQ(parse_json<nlohmann::json>(line, "the test")["allocated_mb"], 1.5);
  EXPECT_EQ(parse_json<nlohmann::json>(line, "the test")["context"], "after step");
}

TEST(Log, ATrainingStepReadsTheSameEveryTime) {
  LogConfig config = LogConfig::production();
  config.timestamps = false;
  EXPECT_EQ(logged(config, [] { log_training_step(7, 200, 2.5, 3e-4); }),
            "info  Training step step=7 total_steps=200 progress_pct=3.5 loss=2.500000 lr=3.00e-04\n");
}

TEST(Log, AFileGetsTheSameLinesAndIsAppendedTo) {
  LogConfig config = LogConfig::testing();
  config.file = ::testing::TempDir() + "ingot_log_test.log";
  std::remove(config.file.c_str());
  logged(config, [] { log(LogLevel::error, "t", "one"); });
  logged(config, [] { log(LogLevel::error, "t", "two"); });
  EXPECT_EQ(read_file(config.file), "error one\nerror two\n");
  config.file = "/proc/no/such/place.log";
  EXPECT_THROW(init_logging(config), IoError);
}

TEST(Log, TheEnvironmentWins) {
  setenv("INGOT_LOG", "ERROR", 1);
  EXPECT_EQ(logged(LogConfig::development(), [] { EXPECT_FALSE(log_enabled(LogLevel::warn)); }), "");
  setenv("INGOT_LOG", "loud", 1);
  EXPECT_THROW(init_logging(), InvalidConfig);
  setenv("INGOT_LOG", "off", 1);
  EXPECT_EQ(logged(LogConfig::development(), [] { log(LogLevel::error, "t", "x"); }), "");
  unsetenv("INGOT_LOG");
}

TEST(Log, OnceIsOncePerKey) {
  const std::string text = logged(LogConfig::testing(), [] {
    EXPECT_TRUE(log_once(LogLevel::warn, "log-test-a", "t", "first"));
    EXPECT_FALSE(log_once(LogLevel::warn, "log-test-a", "t", "again"));
    EXPECT_TRUE(log_once(LogLevel::warn, "log-test-b", "t", "other"));
  });
  EXPECT_EQ(text, "warn  first\nwarn  other\n");
}

}  // namespace
}  // namespace ingot
