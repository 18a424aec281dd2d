#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "tests/support/temporary_directory.h"
#include "tests/support/web_server.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/protobuf_reader.h"
#include "ingot/train/reporter.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

RunInfo example(const std::string& output_dir) {
  RunInfo info{.name = "a run", .output_dir = output_dir};
  info.config = {{"learning_rate", "0.1", true}, {"optimizer", "adamw", false}};
  return info;
}

void report(const RunInfo& info, const char* reporter, std::int64_t steps) {
  const auto reporters = make_reporters({reporter});
  reporters[0]->begin(info);
  for (std::int64_t step = info.first_step + 1; step <= steps; ++step) {
    StepRecord record{
        .step = step, .epoch = 0.5, .loss = 1.0 / static_cast<double>(step), .learning_rate = 0.1};
    record.values = {{"kl", 0.25}};
    reporters[0]->step(record);
  }
  reporters[0]->evaluation({.step = steps, .loss = 2});
  reporters[0]->finish({});
}

// The records of a log of LevelDB's form, as the wandb package reads it.
std::vector<std::string> records_of(const std::string& file) {
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(file[at + i]);
    return value;
  };
  EXPECT_EQ(file.substr(0, 7), std::string(":W&B\xE1\xBE\0", 7));
  std::vector<std::string> records;
  std::string record;
  for (std::size_t at = 7; at < file.size();) {
    const std::size_t left = 32768 - at % 32768;
    if (left < 7) {
      at += left;
      continue;
    }
    const std::uint32_t crc = number(at, 4), size = number(at + 4, 2), type = number(at + 6, 1);
    const auto* typed = reinterpret_cast<const Bytef*>(file.data() + at + 6);
    EXPECT_EQ(crc, ::crc32(0, typed, size + 1));
    record += file.substr(at + 7, size);
    if (type == 1 || type == 4) records.push_back(std::exchange(record, ""));
    at += 7 + size;
  }
  return records;
}

// Values of the last history record, by name, and how many such records there are.
std::pair<std::map<std::string, Json>, int> history_of(const std::vector<std::string>& records) {
  static const std::string kSource = "run.wandb";
  std::map<std::string, Json> values;
  int count = 0;
  for (const std::string& bytes : records) {
    ProtobufReader record(bytes, kSource);
    while (record.next()) {
      if (record.field() != 2) {
        record.skip();
        continue;
      }
      ++count;
      ProtobufReader history = record.message();
      while (history.next()) {
        if (history.field() != 1) {
          history.skip();
          continue;
        }
        ProtobufReader item = history.message();
        std::string name;
        while (item.next()) {
          if (item.field() == 2)
            name = item.bytes();
          else
            values[name] = parse_json<Json>(item.bytes(), kSource);
        }
      }
    }
  }
  return {values, count};
}

std::string wandb_file(const std::string& output_dir) {
  std::string newest;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(output_dir + "/wandb"))
    if (entry.path().extension() == ".wandb") newest = std::max(newest, entry.path().string());
  return newest;
}

TEST(Wandb, WritesARunThatItsPackageReads) {
  const test::TemporaryDirectory directory;
  report(example(directory.path()), "wandb", 700);  // more than a block of the log
  const std::string path = wandb_file(directory.path());
  const std::string file = read_file(path);
  ASSERT_GT(file.size(), 3 * 32768U);
  const auto [values, count] = history_of(records_of(file));
  EXPECT_EQ(count, 701);
  EXPECT_EQ(values.at("_step"), 700);
  EXPECT_EQ(values.at("train/loss"), 1.0 / 700);
  EXPECT_EQ(values.at("train/kl"), 0.25);
  EXPECT_EQ(values.at("eval/loss"), 2);
  EXPECT_NE(file.find("learning_rate"), std::string::npos);
}

TEST(Wandb, AResumedRunKeepsItsId) {
  const test::TemporaryDirectory directory;
  RunInfo info = example(directory.path());
  info.tracking.wandb_run_id = "abcd1234";
  report(info, "wandb", 3);
  EXPECT_TRUE(wandb_file(directory.path()).ends_with("run-abcd1234.wandb"));
  info.tracking.wandb_run_id.clear();
  info.first_step = 3;
  std::filesystem::rename(directory.path() + "/wandb", directory.path() + "/was");
  std::filesystem::create_directories(directory.path() + "/wandb/offline-run-20260101_000000-abcd1234");
  report(info, "wandb", 5);
  EXPECT_TRUE(wandb_file(directory.path()).ends_with("run-abcd1234.wandb"));
}

class Mlflow : public ::testing::Test {
 protected:
  void SetUp() override {
    answer("experiments/create", R"({"experiment_id": "7"})");
    answer("runs/create", R"({"run": {"info": {"run_id": "r1"}}})");
    answer("runs/log-batch", "{}");
    answer("runs/update", "{}");
    info_.tracking = {.mlflow_tracking_uri = server_.address() + "/post/",
                      .mlflow_experiment_name = "an experiment"};
  }
  void answer(const std::string& call, const std::string& body) {
    const std::string path = server_.directory() + "/post/api/2.0/mlflow/" + call;
    make_directories(std::filesystem::path(path).parent_path().string());
    write_file_atomically(path, body);
  }
  // What was posted to a call, in order.
  std::vector<Json> posted(const std::string& call) {
    std::vector<Json> all;
    for (const Json& entry : parse_json<Json>(server_.log(), "log"))
      if (entry.contains("body") && entry["path"].get<std::string>().ends_with(call))
        all.push_back(parse_json<Json>(entry["body"].get<std::string>(), call));
    return all;
  }

  test::TemporaryDirectory directory_;
  test::WebServer server_;
  RunInfo info_ = example(directory_.path());
};

TEST_F(Mlflow, ARunGoesToTheServerWithSettingsAndMetrics) {
  report(info_, "mlflow", 600);
  EXPECT_EQ(posted("experiments/create").at(0)["name"], "an experiment");
  EXPECT_EQ(posted("runs/create").at(0)["experiment_id"], "7");
  EXPECT_EQ(posted("runs/update").back()["status"], "FINISHED");
  std::size_t metrics = 0;
  Json params = Json::array();
  for (const Json& batch : posted("runs/log-batch")) {
    EXPECT_EQ(batch["run_id"], "r1");
    if (batch.contains("metrics")) {
      EXPECT_LE(batch["metrics"].size(), 1000U);
      metrics += batch["metrics"].size();
    }
    if (batch.contains("params") && !batch["params"].empty()) params = batch["params"];
  }
  EXPECT_EQ(metrics, 600 * 4 + 1U);
  EXPECT_EQ(
      params,
      Json::parse(R"([{"key": "learning_rate", "value": "0.1"}, {"key": "optimizer", "value": "adamw"}])"));
}

TEST_F(Mlflow, AResumedRunGoesOnInItsRun) {
  report(info_, "mlflow", 2);
  info_.first_step = 2;
  report(info_, "mlflow", 3);
  EXPECT_EQ(posted("runs/create").size(), 1U);
  EXPECT_EQ(posted("runs/log-batch").back()["run_id"], "r1");
}

TEST_F(Mlflow, MetricsWaitForAServerThatIsBusy) {
  const auto reporters = make_reporters({"mlflow"});
  reporters[0]->begin(info_);
  server_.fault("runs/log-batch", "status", 2, "503");  // both attempts
  reporters[0]->step({.step = 1, .loss = 3});
  for (int waited = 0; server_.count_in_log("log-batch") < 3 && waited < 1000; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  reporters[0]->finish({});
  EXPECT_EQ(posted("runs/log-batch").back()["metrics"].at(0)["value"], 3);
}

TEST_F(Mlflow, AServerThatCannotBeReachedStopsTheRunBeforeItBegins) {
  info_.tracking.mlflow_tracking_uri = "sqlite:///runs.db";
  EXPECT_THROW(report(info_, "mlflow", 1), InvalidConfig);
  info_.tracking.mlflow_tracking_uri = server_.address() + "/nothing";
  EXPECT_THROW(report(info_, "mlflow", 1), IoError);
}

}  // namespace
}  // namespace ingot
