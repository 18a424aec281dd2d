#include <fstream>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::testing {
namespace {

class PluginOption : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::ifstream(library("example_weight_format")).good()) GTEST_SKIP() << "INGOT_EXAMPLES is off";
    std::ofstream(weights_) << "tensors as text\na 2 2 = 1 2 3 4\n";
  }
  static std::string library(const std::string& name) {
    return std::string(INGOT_PLUGIN_DIR) + "/" + name + ".so";
  }
  const test::TemporaryDirectory folder_;
  const std::string weights_ = folder_.at("model.ttxt");
};

TEST_F(PluginOption, LoadsAPluginForTheCommand) {
  EXPECT_NE(run_ingot({"inspect", weights_}).exit_code, 0);
  const Outcome outcome = run_ingot({"inspect", weights_, "--plugin", library("example_weight_format")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("text tensors"), std::string::npos) << outcome.output;
}

TEST_F(PluginOption, HasTheSameInTheEnvironmentForSeveral) {
  const std::string setting = "INGOT_PLUGINS=" + library("example_weight_format") + ":" +
                              library("example_kernel") + ":" + library("example_weight_format");
  const Outcome outcome = run_ingot({"inspect", weights_}, {setting});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  const Outcome version = run_ingot({"--version"}, {setting});
  EXPECT_NE(version.output.find("example_kernel.so: kernel silu_mul (plugin_loop)"), std::string::npos)
      << version.output;
}

TEST_F(PluginOption, ABackendIsADeviceOfEveryCommand) {
  const Outcome outcome = run_ingot({"devices", "--json", "--plugin", library("example_backend")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto devices = parse_json<nlohmann::json>(outcome.output, "devices")["devices"];
  ASSERT_EQ(devices.back()["device"], "toy:0");
  EXPECT_EQ(devices.back()["ready"], true);
  EXPECT_EQ(devices.back()["attention"], (std::vector<std::string>{"window", "documents", "softcap"}));
  const Outcome without = run_ingot({"bench", "train", "--shape", "demo", "--device", "toy"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_NE(without.errors.find("'toy' is not a device; use cpu, cuda, cuda:N"), std::string::npos)
      << without.errors;
}

TEST_F(PluginOption, WithAnotherVersionEndsTheCommandBeforeItStarts) {
  for (const bool option : {false, true}) {
    const std::string path = library("faulty_other_version");
    const Outcome outcome =
        option ? run_ingot({"devices", "--plugin", path}) : run_ingot({"devices"}, {"INGOT_PLUGINS=" + path});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.output, "");
    EXPECT_NE(outcome.errors.find("was built for Ingot 9.7"), std::string::npos) << outcome.errors;
  }
}

}  // namespace
}  // namespace ingot::testing
