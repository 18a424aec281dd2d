#include <map>
#include <string>

#include "tests/kernels/cuda/device.h"
#include "tests/train/cuda/training_run.h"

#include "ingot/core/backend.h"
#include "ingot/train/language/language_task.h"

// Frozen matrices of layers that come to the device while their layer computes.
namespace ingot {
namespace {

using test::kDevice;

class DeviceOffloadWeights : public test::TrainingRun {
 protected:
  static TrainConfig short_run(TrainConfig c) {
    c.max_steps = 2;
    c.validation_split_ratio = 0;
    c.sequence_len = 4;
    c.per_device_train_batch_size = 1;
    return c;
  }
  std::map<std::string, std::string> files_of(TrainConfig c, Offload to) {
    c.offload_weights = to;
    c.output_dir += std::string(name(to));
    LanguageTrainer(c).run();
    return tensor_files(CheckpointDirectory(c.output_dir).path(c.max_steps));
  }
};

TEST_F(DeviceOffloadWeights, TrainsWithTheBitsOfWithout) {
  struct Case {
    const char* format;
    Recompute recompute;
    Offload to;
  };
  for (const auto& [format, recompute, to] :
       {Case{"nf4", Recompute::selective, Offload::cpu}, Case{"", Recompute::full, Offload::disk}}) {
    TrainConfig c =
        short_run(tuning("cuda", std::string("out") + format + std::string(name(to)), DType::bf16, format));
    c.recompute = recompute;
    c.max_steps = 1;
    EXPECT_TRUE(files_of(c, to) == files_of(c, Offload::none)) << format << " " << name(recompute);
  }
}

TEST_F(DeviceOffloadWeights, TrainsAWholeModelWithTheBitsOfWithout) {
  struct Case {
    const char* optimizer;
    Recompute recompute;
    Offload to, optimizer_to;
  };
  for (const auto& [optimizer, recompute, to, optimizer_to] :
       {Case{"adamw", Recompute::none, Offload::cpu, Offload::cpu},
        Case{"muon", Recompute::full, Offload::disk, Offload::none}}) {
    TrainConfig c = short_run(config("cuda", std::string("whole") + optimizer));
    c.dtype = DType::bf16;
    c.optimizer.name = optimizer;
    c.optimizer.offload = optimizer_to;
    c.architecture.num_hidden_layers = 3;
    c.recompute = recompute;
    EXPECT_TRUE(files_of(c, to) == files_of(c, Offload::none)) << optimizer;
  }
}

TEST_F(DeviceOffloadWeights, AWholeModelGoesOnFromACheckpointOfARunWithout) {
  const auto run = [&](const std::string& output, Offload to, std::int64_t steps, bool resume) {
    TrainConfig c = config("cuda", output);
    c.dtype = DType::bf16;
    c.offload_weights = to;
    c.max_steps = steps;
    c.validation_split_ratio = 0;
    c.per_device_train_batch_size = 1;
    c.sequence_len = 4;
    c.schedule.type = "constant";
    c.resume_from_checkpoint = resume;
    LanguageTrainer(c).run();
    return tensor_files(CheckpointDirectory(c.output_dir).path(steps));
  };
  const auto expected = run("none", Offload::none, 3, false);
  run("some", Offload::cpu, 1, false);
  run("some", Offload::none, 2, true);
  EXPECT_TRUE(run("some", Offload::cpu, 3, true) == expected);
}

TEST_F(DeviceOffloadWeights, BetweenStepsTheLayersAreOnTheHost) {
  const auto allocated = [&](Offload to) {
    TrainConfig c = tuning("cuda", "out", DType::f32, "");
    c.offload_weights = to;
    const std::size_t before = backend(kDevice).memory().allocated();
    const LanguageTask task(c, std::nullopt, {});
    return backend(kDevice).memory().allocated() - before;
  };
  const std::size_t matrices = 4 * (4 * 64 * 64 - 2 * 32 * 64 + 3 * 64 * 64) * sizeof(float);
  EXPECT_GE(allocated(Offload::none), matrices + allocated(Offload::cpu));
}

TEST_F(DeviceOffloadWeights, SamplesAreRefusedByKey) {
  TrainConfig c = tuning("cuda", "out", DType::f32, "");
  c.offload_weights = Offload::cpu;
  c.sample_prompts = {"The"};
  EXPECT_THROW(LanguageTask(c, std::nullopt, {}), InvalidConfig);
}

}  // namespace
}  // namespace ingot
