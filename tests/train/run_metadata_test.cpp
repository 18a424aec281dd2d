#include "ingot/train/run_metadata.h"

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/version.h"
#include "ingot/train/diff_runs.h"

namespace ingot {
namespace {

RunMetadata example() {
  RunMetadata metadata;
  metadata.describe_process(kCpu);
  metadata.seeds = {{"train_seed", 7}};
  metadata.data = {{"datasets", "abc"}};
  metadata.set_configuration({{"learning_rate", "0.1", true},
                              {"hub.token", "hf_1234567890abcdef", true},
                              {"data", "https://u:pw@host/x", true},
                              {"epochs", "1", false}});
  return metadata;
}

std::string value_of(const RunMetadata& metadata, const std::string& name) {
  for (const auto& [key, value] : metadata.rows())
    if (key == name) return value;
  return "";
}

TEST(RunMetadataRecord, TellsBuildAndMachineAndReadsBackWhatItWrote) {
  const RunMetadata metadata = example();
  EXPECT_EQ(value_of(metadata, "ingot"), version());
  EXPECT_NE(value_of(metadata, "threads"), "");
  EXPECT_NE(value_of(metadata, "processor"), "");
  EXPECT_NE(value_of(metadata, "instruction set"), "");
  EXPECT_EQ(value_of(metadata, "train_seed"), "7");
  const RunMetadata again = RunMetadata::from_json(metadata.to_json(), "run.json");
  EXPECT_EQ(again.to_json(), metadata.to_json());
  EXPECT_EQ(again.rows(), metadata.rows());
  EXPECT_THROW(RunMetadata::from_json("[1]", "run.json"), FormatError);
  EXPECT_THROW(RunMetadata::from_json("{\"machine\": {\"threads\": \"two\"}}", "run.json"), FormatError);
}

TEST(RunMetadataRecord, HoldsNoSecretsAndItsHashTellsSettingsApart) {
  const RunMetadata metadata = example();
  EXPECT_EQ(metadata.to_json().find("hf_1234"), std::string::npos);
  EXPECT_EQ(metadata.to_json().find("pw@"), std::string::npos);
  RunMetadata elsewhere = metadata, other = metadata;
  std::vector<Setting> settings = metadata.configuration;
  settings.push_back({"output_dir", "out/b", true});
  elsewhere.set_configuration(settings);
  EXPECT_EQ(elsewhere.configuration_hash, metadata.configuration_hash);
  settings[0].value = "0.2";
  other.set_configuration(settings);
  EXPECT_NE(other.configuration_hash, metadata.configuration_hash);
}

TEST(RunMetadataRecord, ADiffShowsWhatTwoRunsHaveNotInCommon) {
  FinishedRun left{.directory = "a", .name = "a", .history = {}, .config = {}}, right = left;
  left.metadata = right.metadata = example();
  left.metadata->set_configuration({{"lr", "0.1", true}, {"depth", "2", false}});
  right.metadata->threads = left.metadata->threads + 1;
  right.metadata->data = {{"datasets", "abd"}};
  right.metadata->set_configuration({{"lr", "0.2", true}, {"depth", "2", false}, {"width", "8", true}});
  left.history.add(StepRecord{.step = 3, .loss = 2});
  right.history.add(StepRecord{.step = 3, .loss = 1});
  const RunDiff diff = diff_runs(left, right);
  ASSERT_EQ(diff.configuration.size(), 2U);
  EXPECT_EQ(diff.configuration[0].what + diff.configuration[0].left + diff.configuration[0].right,
            "lr0.10.2");
  EXPECT_EQ(diff.configuration[1].left, "–");
  ASSERT_EQ(diff.data.size(), 1U);
  ASSERT_EQ(diff.machine.size(), 1U);
  EXPECT_EQ(diff.machine[0].what, "threads");
  EXPECT_EQ(diff.metrics[0].left, "3");
  EXPECT_EQ(diff.metrics[1].right, "1");
  EXPECT_FALSE(diff.same_experiment());
  EXPECT_TRUE(diff_runs(left, left).same_experiment());
}

}  // namespace
}  // namespace ingot
