#include <cstdlib>
#include <map>
#include <string>

#include "tests/support/rank_launcher.h"
#include "tests/support/temporary_directory.h"
#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/core/device.h"
#include "ingot/dist/communicator.h"
#include "ingot/train/language/language_trainer.h"

// Ranks with an emulated GPU each train one model; NCCL is the stand-in of the tests.
namespace ingot {
namespace {

constexpr int kMicroBatches = 4;  // of a step, among all ranks

std::string shared_folder() { return std::getenv("INGOT_TEST_FOLDER"); }

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

class RankOfTraining : public test::TrainingRun {
 protected:
  void SetUp() override {
    if (!test::is_rank()) GTEST_SKIP() << "run by the launching tests";
    TrainingRun::SetUp();
  }
};

// As the launching test says; the model is what that looks at.
TEST_F(RankOfTraining, Trains) {
  TrainConfig c = config("cuda:0", "unused");
  c.output_dir = shared_folder() + "/" + variable("TEST_OUTPUT");
  c.cache_dir = c.output_dir + "-cache";
  c.gradient_accumulation_steps = kMicroBatches / dist::world().size();
  c.ordered_gradients = variable("TEST_ORDERED") != "0";
  c.zero_stage = std::stoi(variable("TEST_ZERO"));
  c.fast_gradient_sums = variable("TEST_FAST") == "1";
  c.max_steps = 2;
  c.sequence_len = 8;
  c.per_device_train_batch_size = 1;
  c.eval_batches = 1;
  c.report_to = {};
  c.ddp_timeout = 60;
  LanguageTrainer(c).run();
  if (dist::world().size() > 1) EXPECT_NE(dist::world().of({DeviceType::cuda, 0}), nullptr);
}

class RankTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::is_rank()) GTEST_SKIP() << "is what starts the others";
    if (!test::can_launch()) GTEST_SKIP() << "mpirun is not installed";
  }
  std::string train(int ranks, int zero, const std::string& output, const std::string& more = "") const {
    const int status =
        test::launch({.ranks = ranks,
                      .tests = "RankOfTraining.Trains",
                      .folder = folder_.path(),
                      .variables = "TEST_OUTPUT=" + output + " TEST_ZERO=" + std::to_string(zero) + more});
    EXPECT_EQ(status, 0) << read_file(folder_.at("out")) << read_file(folder_.at("said"));
    return status == 0 ? read_file(folder_.at(output) + "/model/model.safetensors") : output;
  }
  const test::TemporaryDirectory folder_;
};

TEST_F(RankTraining, HasTheBitsOfOneRankAtEveryZeroStage) {
  const std::string one = train(1, 0, "one");
  EXPECT_TRUE(train(2, 1, "two-1") == one);
  EXPECT_TRUE(train(4, 2, "four-2") == one);
  EXPECT_TRUE(train(2, 3, "two-3") == one);
}

TEST_F(RankTraining, WithNcclsOwnSumsHasOtherBits) {
  const std::string ordered = train(4, 0, "ordered", " TEST_ORDERED=0");
  const std::string fast = train(4, 0, "fast", " TEST_ORDERED=0 TEST_FAST=1");
  EXPECT_EQ(fast.size(), ordered.size());
  EXPECT_FALSE(fast == ordered);
}

}  // namespace
}  // namespace ingot
