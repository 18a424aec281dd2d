// Ranks that learn from logs together: threads stand for them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/rl/log_directory.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_ranks.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/files.h"
#include "ingot/base/parallel.h"
#include "ingot/rl/mahjong_training.h"
#include "ingot/train/checkpoint_directory.h"
#include "ingot/weights/safetensors.h"

namespace ingot {
namespace {

// Of networks this small threads only wait for each other.
const bool kOneThreadEach = (set_num_threads(1), true);

// `ingot mahjong train` of both phases that learn from logs; the sizes of batches leave a rank fewer rows.
class LogRanks : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { games_ = std::make_unique<test::LogDirectory>(); }
  static void TearDownTestSuite() { games_.reset(); }

  MahjongTrainConfig config(const std::string& output, const std::vector<std::string>& changes) const {
    const std::string network =
        "network: {channels: 8, blocks: 1, norm_groups: 4, se_reduction: 4}\n"
        "pool_games: 3\nvalidation_decisions: 60\n";
    Config file = Config::parse(
        (std::string(GetParam()) == "bc" ? network : std::string("hidden: 8\n")) +
            "length: round\nbatch_size: 23\nmax_steps: 6\neval_steps: 2\nlearning_rate: 0.002\n"
            "lr_scheduler_type: constant\nvalidation_split_ratio: 0.4\nsave_steps: 2\nreport_to: [jsonl]\n"
            "device: cpu\nthreads: 1\n",
        "logs.yaml");
    file.set(std::string("phase=") + GetParam());
    file.set("games=" + games_->path());
    file.set("output_dir=" + outputs_.at(output));
    for (const std::string& change : changes) file.set(change);
    return read_mahjong_train_config(file);
  }
  // The last evaluation. `steps`: the ranks are killed behind them.
  EvalRecord train(int count, const std::string& output, const std::vector<std::string>& changes = {},
                   int steps = -1) const {
    std::vector<std::optional<EvalRecord>> evaluations(static_cast<std::size_t>(count));
    test::ThreadRanks threads(count);
    threads.run([&](dist::Communicator& ranks) {
      MahjongTraining training(config(output, changes), {}, ranks);
      for (int i = 0; i < steps; ++i) training.trainer().step();
      if (steps < 0) evaluations[static_cast<std::size_t>(ranks.rank())] = training.run().evaluation;
    });
    if (steps >= 0) return {};
    for (const auto& evaluation : evaluations) {
      EXPECT_TRUE(evaluation.has_value());
      EXPECT_EQ(evaluation->loss, evaluations[0]->loss);
      EXPECT_EQ(evaluation->values, evaluations[0]->values);
    }
    return evaluations[0].value_or(EvalRecord{});
  }
  std::string model(const std::string& output) const {
    return read_file(outputs_.at(output) + "/model/model.safetensors");
  }
  // Of the newest checkpoint.
  int optimizer_files(const std::string& output) const {
    int files = 0;
    const auto newest = CheckpointDirectory(outputs_.at(output)).newest();
    for (const auto& file : std::filesystem::directory_iterator(newest.value().path()))
      files += file.path().filename().string().starts_with("optimizer") ? 1 : 0;
    return files;
  }
  double furthest(const std::string& one, const std::string& other) const {
    const auto weights = [&](const std::string& output) {
      return read_safetensors(outputs_.at(output) + "/model/model.safetensors");
    };
    const auto a = weights(one), b = weights(other);
    double most = 0;
    for (const auto& [name, tensor] : a) {
      const std::vector<float> x = tensor.to_vector<float>(), y = b.at(name).to_vector<float>();
      for (std::size_t i = 0; i < x.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
    }
    return most;
  }

  static inline std::unique_ptr<test::LogDirectory> games_;
  test::TemporaryDirectory outputs_;
};

TEST_P(LogRanks, LearnWhatOneProcessLearnsToRounding) {
  const EvalRecord alone = train(1, "alone");
  for (const int count : {2, 3, 4}) {
    const std::string output = "of" + std::to_string(count);
    const EvalRecord together = train(count, output);
    EXPECT_LT(furthest(output, "alone"), 1e-3) << count;
    EXPECT_NEAR(together.loss / alone.loss, 1, 1e-3) << count;
  }
}

// No step that moves a weight: so only the evaluation is shared out.
TEST_P(LogRanks, MeasureTheBitsOfOneProcess) {
  const std::vector<std::string> still{"learning_rate=0", "max_steps=1"};
  const EvalRecord alone = train(1, "alone", still);
  for (const int count : {2, 3}) {
    const EvalRecord together = train(count, "of" + std::to_string(count), still);
    EXPECT_EQ(together.loss, alone.loss) << count;
    EXPECT_EQ(together.values, alone.values) << count;
  }
}

TEST_P(LogRanks, GoOnWithTheSameBitsAndInAnotherNumber) {
  train(2, "whole");
  train(2, "parts", {}, 3);  // a checkpoint of step 2 stays
  train(2, "parts", {"resume_from_checkpoint=true"});
  EXPECT_TRUE(model("parts") == model("whole"));
  train(2, "other", {}, 3);
  train(3, "other", {"resume_from_checkpoint=true"});
  EXPECT_LT(furthest("other", "whole"), 1e-3);
}

// Each has its part of the optimizer's state, also in checkpoints, which go on at another stage.
TEST_P(LogRanks, ShareStateAndGradientsOutWithTheSameBits) {
  const std::vector<std::string> of_phase = std::string(GetParam()) == "bc"
                                                ? std::vector<std::string>{"ema_decay=0.9"}
                                                : std::vector<std::string>{};
  const auto with = [&](std::vector<std::string> changes) {
    changes.insert(changes.end(), of_phase.begin(), of_phase.end());
    return changes;
  };
  const EvalRecord whole = train(3, "whole", of_phase);
  for (const int stage : {1, 2}) {
    const std::string output = "stage" + std::to_string(stage), zero = "zero_stage=" + std::to_string(stage),
                      other = stage == 1 ? "zero_stage=2" : "zero_stage=0";
    const EvalRecord shared = train(3, output, with({zero}));
    EXPECT_TRUE(model(output) == model("whole")) << stage;
    EXPECT_EQ(shared.loss, whole.loss) << stage;
    EXPECT_EQ(optimizer_files(output), 3) << stage;
    train(3, output + "parts", with({zero}), 3);
    train(3, output + "parts", with({other, "resume_from_checkpoint=true"}));
    EXPECT_TRUE(model(output + "parts") == model("whole")) << stage;
  }
  EXPECT_EQ(optimizer_files("whole"), 1);
}

INSTANTIATE_TEST_SUITE_P(Phases, LogRanks, ::testing::Values("bc", "grp"));

}  // namespace
}  // namespace ingot
