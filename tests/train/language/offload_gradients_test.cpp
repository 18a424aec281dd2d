#include <cstddef>
#include <map>
#include <string>

#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/train/language/language_task.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/train/language/planning/memory_limit.h"

// Gradients that are in files until the optimizer steps.
namespace ingot {
namespace {

class OffloadGradients : public test::TrainingRun {
 protected:
  std::map<std::string, std::string> files_of(TrainConfig c, Offload to) {
    c.optimizer.gradients = to;
    c.output_dir += std::string(name(to));
    LanguageTrainer(c).run();
    return tensor_files(CheckpointDirectory(c.output_dir).path(c.max_steps));
  }
};

TEST_F(OffloadGradients, OnDiskACpuTrainsAWholeModelWithTheSameBits) {
  TrainConfig c = config("cpu", "whole");
  c.gradient_accumulation_steps = 2;
  c.max_steps = 2;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    c.dtype = dtype;
    c.output_dir = directory_.at(std::string(name(dtype)));
    EXPECT_TRUE(files_of(c, Offload::disk) == files_of(c, Offload::none)) << name(dtype);
  }
}

TEST_F(OffloadGradients, OnDiskACpuTrainsAdaptersWithTheSameBits) {
  TrainConfig c = tuning("cpu", "out", DType::bf16, "nf4");
  c.max_steps = 1;
  EXPECT_TRUE(files_of(c, Offload::disk) == files_of(c, Offload::none));
}

TEST_F(OffloadGradients, ThePlanCountsWhatIsOnItsWayAndWhatIsElsewhere) {
  TrainConfig c = config("cpu", "plan");
  c.architecture.num_hidden_layers = 12;
  c.architecture.hidden_size = c.architecture.intermediate_size = 64;
  c.architecture.vocab_size = 64;
  c.recompute = Recompute::full;
  constexpr std::size_t kGpu = std::size_t{80} << 30;
  const MemoryPlan whole = plan_memory_of_gpu(c, c.architecture, kGpu);
  c.optimizer.gradients = Offload::cpu;
  const MemoryPlan plan = plan_memory_of_gpu(c, c.architecture, kGpu);
  const std::size_t layer = whole.all_gradients / 12;
  EXPECT_EQ(plan.offloaded_gradients, whole.all_gradients);
  EXPECT_EQ(plan.gradients, 0U);
  EXPECT_LT(plan.total(), whole.total() - 8 * layer);
  EXPECT_GT(plan.total(), whole.total() - 12 * layer)
      << "the gradients of a layer are there while they are made";
  EXPECT_EQ(plan_memory(c, c.architecture).all_gradients, whole.all_gradients)
      << "on a CPU they are in its memory anyway";
  c.optimizer.gradients = Offload::disk;
  EXPECT_EQ(plan_memory(c, c.architecture).offloaded_gradients, whole.all_gradients);
}

TEST_F(OffloadGradients, AMemoryLimitTakesTheSettingWhereNothingFasterFits) {
  TrainConfig c = config("cpu", "limit");
  c.architecture.num_hidden_layers = 12;
  c.architecture.hidden_size = c.architecture.intermediate_size = 64;
  c.architecture.vocab_size = 64;
  c.memory_limit.limit = "auto";
  const PlannedPlace gpu{.gpu_bytes = std::size_t{80} << 30};
  const auto least = [&](bool keeps) {
    c.memory_limit.keeps_gradients = keeps;
    return memory_choices(c, c.architecture, gpu.gpu_bytes, gpu).back();
  };
  const MemoryChoice without = least(true), with = least(false);
  EXPECT_LT(with.plan.needed(), without.plan.needed());
  EXPECT_NE(with.gradients, Offload::none);
  EXPECT_NE(with.text().find("offload_gradients: "), std::string::npos);
}

TEST(OffloadGradientsKeys, AreReadAndWhatDoesNotGoTogetherIsRefused) {
  const auto read = [](const std::string& text) {
    Config config = Config::parse("model: x\ndatasets: [{path: a.txt}]\n" + text);
    return read_train_config(config).optimizer.gradients;
  };
  EXPECT_EQ(read(""), Offload::none);
  EXPECT_EQ(read("offload_gradients: cpu\n"), Offload::cpu);
  EXPECT_EQ(read("offload_gradients: nvme\n"), Offload::disk);
  EXPECT_EQ(read("offload_gradients: {device: cpu}\n"), Offload::cpu);
  EXPECT_THROW(read("offload_gradients: gpu\n"), InvalidConfig);
  EXPECT_THROW(read("offload_gradients: cpu\nordered_gradients: true\n"), InvalidConfig);
  EXPECT_THROW(read("offload_gradients: cpu\nzero_stage: 1\n"), InvalidConfig);
}

}  // namespace
}  // namespace ingot
