#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"

// MLPs through which some tokens go at a time.
namespace ingot {
namespace {

class MlpChunk : public test::TrainingRun {
 protected:
  std::vector<double> losses_with(TrainConfig c, std::int64_t chunk) {
    c.mlp_chunk = chunk;
    c.max_steps = 2;
    c.validation_split_ratio = 0;
    c.output_dir += std::to_string(chunk);
    return losses_of(c);
  }
};

// 32 tokens go through in parts of 12. The first loss is of the weights that both begin with.
TEST_F(MlpChunk, LearnsWhatAllTokensAtOnceLearn) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    TrainConfig c = config("cpu", "whole" + std::string(name(recompute)));
    c.recompute = recompute;
    const std::vector<double> expected = losses_with(c, 0), actual = losses_with(c, 12);
    EXPECT_EQ(actual.front(), expected.front()) << name(recompute);
    expect_near(actual, expected, 1e-4);
  }
}

TEST_F(MlpChunk, TrainsAdaptersOnAQuantizedBase) {
  TrainConfig c = tuning("cpu", "adapters", DType::f32, "nf4");
  c.recompute = Recompute::full;
  const std::vector<double> expected = losses_with(c, 0), actual = losses_with(c, 10);
  EXPECT_EQ(actual.front(), expected.front());
  expect_near(actual, expected, 1e-4);
}

TEST_F(MlpChunk, AChunkThatHoldsAllTokensChangesNoBit) {
  TrainConfig c = config("cpu", "all");
  EXPECT_EQ(losses_with(c, 0), losses_with(c, 32));
}

TEST(MlpChunkKeys, ReadWhatAxolotlWrites) {
  const auto read = [](const std::string& text) {
    Config config = Config::parse(
        "model: x\nadapter: lora\ndatasets: [{path: a.txt}]\nmicro_batch_size: 2\nsequence_len: 3000\n" +
        text);
    return read_train_config(config).mlp_chunk;
  };
  EXPECT_EQ(read(""), 0);
  EXPECT_EQ(read("mlp_chunk: 512\n"), 512);
  EXPECT_EQ(read("tiled_mlp: true\n"), 4096);
  EXPECT_EQ(read("tiled_mlp: true\ntiled_mlp_num_shards: 4\n"), 1500);
  EXPECT_EQ(read("tiled_mlp: false\ntiled_mlp_num_shards: 4\n"), 0);
  EXPECT_EQ(read("tiled_mlp: true\nmlp_chunk: 100\n"), 100);
  EXPECT_THROW(read("mlp_chunk: -1\n"), InvalidConfig);
  EXPECT_THROW(read("tiled_mlp: true\ntiled_mlp_num_shards: few\n"), InvalidConfig);
}

}  // namespace
}  // namespace ingot
