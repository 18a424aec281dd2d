#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/cli/numbered_days.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot::testing {
namespace {

// `ingot forecast fit` as several processes under mpirun.
class ForecastRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
    write_days(directory_.at("days.csv"), 300);
  }

  // The command of a rank.
  std::string fit(const std::string& output, const std::string& more = "") const {
    return INGOT_BINARY " forecast fit " + directory_.at("days.csv") +
           " --model patchtst --horizon 7 --lookback 14 --epochs 2 --device cpu --save-every 0 --set "
           "d_model=8 "
           "--set d_ff=8 --set heads=2 --set layers=1 --set patch_length=4 --set patch_stride=2 "
           "--set min_epoch_steps=1 -o " +
           directory_.at(output) + " " + more;
  }
  int launch(const std::string& ranks) const {
    const std::string command =
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 90 mpirun --oversubscribe "
        "--bind-to none --mca mpi_yield_when_idle 1 " +
        ranks + " >" + directory_.at("out") + " 2>" + directory_.at("errors");
    return std::system(command.c_str());
  }
  std::string errors() const { return read_file(directory_.at("errors")); }
  std::string model(const std::string& output) const {
    return read_file(directory_.at(output) + "/model.safetensors");
  }

  const test::TemporaryDirectory directory_;
};

TEST_F(ForecastRanks, TheFirstPrintsAndWritesAndEveryRunHasTheSameBits) {
  ASSERT_EQ(launch("-n 3 " + fit("one", "--json")), 0) << errors();
  const auto told = parse_json<nlohmann::json>(read_file(directory_.at("out")), "output");  // of one rank
  EXPECT_EQ(told.at("epochs").size(), 2);
  ASSERT_EQ(launch("-n 3 " + fit("again", "--json")), 0) << errors();
  EXPECT_TRUE(model("again") == model("one"));
  EXPECT_TRUE(std::filesystem::exists(directory_.at("one") + "/calibration.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(directory_.at("one") + "-unfinished"));
}

TEST_F(ForecastRanks, AFitThatLosesARankGoesOnWithTheSameBitsAndWithAnotherNumber) {
  ASSERT_EQ(launch("-n 2 " + fit("whole", "--refit")), 0) << errors();
  for (const std::string name : {"killed", "fewer"}) {
    EXPECT_NE(launch("-n 1 " + fit(name, "--refit") + " : -n 1 env INGOT_FAULT=crash:train.step:8 " +
                     fit(name, "--refit")),
              0);
    EXPECT_TRUE(std::filesystem::exists(directory_.at(name) + "-unfinished/checkpoint")) << errors();
  }
  ASSERT_EQ(launch("-n 2 " + fit("killed", "--refit --resume")), 0) << errors();
  EXPECT_TRUE(model("killed") == model("whole"));
  ASSERT_EQ(launch("-n 3 " + fit("fewer", "--refit --resume")), 0) << errors();
  EXPECT_TRUE(std::filesystem::exists(directory_.at("fewer") + "/model.safetensors"));
}

// With averages of weights, clipping and an epoch's best; a fit goes on at another stage.
TEST_F(ForecastRanks, StateAndGradientsAreSharedOutWithTheSameBits) {
  const std::string more = "--refit --set ema_decay=0.9 --set clip_grad_norm=0.5 --set zero_stage=";
  ASSERT_EQ(launch("-n 3 " + fit("whole", more + "0")), 0) << errors();
  for (const std::string stage : {"1", "2"}) {
    ASSERT_EQ(launch("-n 3 " + fit("stage" + stage, more + stage)), 0) << errors();
    EXPECT_TRUE(model("stage" + stage) == model("whole")) << stage;
  }
  EXPECT_NE(launch("-n 2 " + fit("lost", more + "2") + " : -n 1 env INGOT_FAULT=crash:train.step:8 " +
                   fit("lost", more + "2")),
            0);
  const std::string checkpoint = directory_.at("lost") + "-unfinished/checkpoint/";
  EXPECT_TRUE(std::filesystem::exists(checkpoint + "optimizer-00003-of-00003.safetensors")) << errors();
  ASSERT_EQ(launch("-n 3 " + fit("lost", more + "1 --resume")), 0) << errors();
  EXPECT_TRUE(model("lost") == model("whole"));
}

TEST_F(ForecastRanks, RanksOfTwoStagesAreRefused) {
  EXPECT_NE(launch("-n 1 " + fit("two", "--set zero_stage=1") + " : -n 1 " + fit("two")), 0);
  EXPECT_NE(errors().find("zero_stage"), std::string::npos) << errors();
}

TEST_F(ForecastRanks, ModelsWithoutTrainingAreRefusedOnce) {
  EXPECT_NE(launch("-n 2 " INGOT_BINARY " forecast fit " + directory_.at("days.csv") + " --model ets -o " +
                   directory_.at("x")),
            0);
  const std::string text = errors(), refusal = "`ingot forecast fit --model ets` works as one process";
  const std::size_t first = text.find(refusal);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find(refusal, first + 1), std::string::npos) << text;
}

}  // namespace
}  // namespace ingot::testing
