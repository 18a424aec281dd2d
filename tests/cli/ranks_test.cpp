#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"

namespace ingot::testing {
namespace {

// `ingot train` as several processes under mpirun.
class RanksCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
    std::ofstream text(directory_ + "/text.txt");
    for (int i = 0; i < 300; ++i) text << "Line " << i << " comes before line " << i + 1 << ".\n";
    std::ofstream(directory_ + "/train.yaml")
        << "from_scratch: true\n"
           "architecture: {hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 2}\n"
           "vocab_size: 280\n"
           "datasets: [{path: "
        << directory_
        << "/text.txt}]\n"
           "sequence_len: 16\nper_device_train_batch_size: 2\nordered_gradients: true\nthreads: 1\n"
           "max_steps: 4\neval_steps: 2\nsave_steps: 2\nlearning_rate: 0.01\nreport_to: [jsonl]\ndevice: "
           "cpu\n";
  }

  int train(int ranks, int accumulate, const std::string& output, const std::string& more = "") const {
    std::string command =
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 INGOT_CACHE_DIR=" + directory_ +
        "/cache mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n " +
        std::to_string(ranks) + " " INGOT_BINARY " train " + directory_ +
        "/train.yaml --json --set output_dir=" + directory_ + "/" + output +
        " --set gradient_accumulation_steps=" + std::to_string(accumulate) + " " + more + " >" + directory_ +
        "/out 2>" + directory_ + "/errors";
    return std::system(command.c_str());
  }
  std::string model(const std::string& output) const {
    return read_file(directory_ + "/" + output + "/model/model.safetensors");
  }
  std::string errors() const { return read_file(directory_ + "/errors"); }

  const test::TemporaryDirectory folder_;
  const std::string directory_ = folder_.path();
};

TEST_F(RanksCommand, AnyDivisionOfAStepAmongRanksGivesTheSameBits) {
  ASSERT_EQ(train(1, 6, "one"), 0) << errors();
  for (const auto& [ranks, accumulate] : {std::pair{2, 3}, {3, 2}}) {
    const std::string output = "of" + std::to_string(ranks);
    ASSERT_EQ(train(ranks, accumulate, output), 0) << errors();
    EXPECT_TRUE(model(output) == model("one")) << ranks << " ranks";
    EXPECT_EQ(read_file(directory_ + "/" + output + "/metrics.jsonl").find("nan"), std::string::npos);
  }
}

TEST_F(RanksCommand, ARunGoesOnWithAnotherNumberOfRanks) {
  ASSERT_EQ(train(3, 2, "parts", "--set max_steps=2 --set lr_scheduler_type=constant"), 0) << errors();
  ASSERT_EQ(train(1, 6, "whole", "--set lr_scheduler_type=constant"), 0) << errors();
  ASSERT_EQ(train(2, 3, "parts", "--set lr_scheduler_type=constant --resume"), 0) << errors();
  EXPECT_TRUE(model("parts") == model("whole"));
}

TEST_F(RanksCommand, RanksThatDisagreeAreRefusedByKeyBeforeTheFirstStep) {
  const std::string rank =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none --mca "
      "mpi_yield_when_idle 1 -n 1 " INGOT_BINARY " train " +
      directory_ + "/train.yaml --json --set output_dir=" + directory_ + "/x";
  const std::string command = rank + " : -n 1 " INGOT_BINARY " train " + directory_ +
                              "/train.yaml --json --set output_dir=" + directory_ +
                              "/x --set learning_rate=0.5 2>" + directory_ + "/errors >/dev/null";
  EXPECT_NE(std::system(command.c_str()), 0);
  EXPECT_NE(errors().find("learning_rate"), std::string::npos) << errors();
  EXPECT_NE(errors().find("rank 1"), std::string::npos) << errors();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/x/metrics.jsonl"));
}

TEST_F(RanksCommand, ARankThatDiesEndsTheRunAndTheNextGoesOnWithTheSameBits) {
  ASSERT_EQ(train(2, 3, "whole"), 0) << errors();
  setenv("INGOT_FAULT", "crash:train.step:3", 1);  // NOLINT(concurrency-mt-unsafe)
  const int crashed = train(2, 3, "killed");
  unsetenv("INGOT_FAULT");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_NE(crashed, 0);
  ASSERT_EQ(train(2, 3, "killed", "--resume"), 0) << errors();
  EXPECT_TRUE(model("killed") == model("whole"));
}

TEST_F(RanksCommand, AnErrorIsToldOnceByTheFirstRank) {
  EXPECT_NE(train(3, 1, "x", "--set sequence_len=many"), 0);
  const std::string text = errors();
  const std::size_t first = text.find("sequence_len");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("sequence_len", text.find('\n', first)), std::string::npos) << text;
}

}  // namespace
}  // namespace ingot::testing
