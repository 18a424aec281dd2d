#include "ingot/optim/offload.h"

#include "tests/kernels/cuda/device.h"
#include "tests/optim/every_optimizer.h"
#include "tests/support/thorough.h"
#include "tests/train/cuda/training_run.h"

#include "ingot/core/backend.h"

// State that lies in the host's memory or in a file and comes to the device in parts.
namespace ingot {
namespace {

using test::every_optimizer;
using test::kDevice;
using test::Trial;

constexpr std::size_t kSmallWindow = std::size_t{16} << 10;  // several of the largest parameter

class DeviceOffload : public test::TrainingRun {};

TEST_F(DeviceOffload, HasTheBitsOfWithoutForEveryOptimizer) {
  for (const auto& [label, make] : every_optimizer()) {
    for (const Offload to : test::first_or_all<Offload>({Offload::cpu, Offload::disk}, 1)) {
      Trial without(make, DType::bf16, kDevice), with(make, DType::bf16, kDevice);
      with.optimizer->offload({.to = to, .directory = directory_.at("state"), .window_bytes = kSmallWindow});
      without.steps(0, 2);
      with.steps(0, 2);
      EXPECT_TRUE(with.bits() == without.bits()) << label << " " << name(to);
    }
  }
}

TEST_F(DeviceOffload, StateIsOnTheHostBetweenSteps) {
  const MemoryTracker& memory = backend(kDevice).memory();
  Trial trial(every_optimizer().front().second, DType::f32, kDevice);
  trial.optimizer->offload({.to = Offload::cpu});
  const std::size_t before = memory.allocated();
  trial.steps(0, 2);
  for (const auto& [name, tensor] : trial.optimizer->state()) EXPECT_EQ(tensor.device(), kCpu) << name;
  EXPECT_LE(memory.allocated(), before);
}

TEST_F(DeviceOffload, ARunWritesTheCheckpointsOfWithoutAndGoesOnFromThem) {
  const auto run = [&](const std::string& output, Offload to, std::int64_t steps, bool resume) {
    TrainConfig c = config("cuda", output);
    c.dtype = DType::bf16;
    c.optimizer.offload = to;
    c.max_steps = steps;
    c.validation_split_ratio = 0;
    c.per_device_train_batch_size = 1;
    c.sequence_len = 8;
    c.schedule.type = "constant";
    c.resume_from_checkpoint = resume;
    LanguageTrainer(c).run();
    return tensor_files(CheckpointDirectory(c.output_dir).path(steps));
  };
  const auto expected = run("none", Offload::none, 3, false);
  EXPECT_TRUE(run("disk", Offload::disk, 3, false) == expected);
  run("some", Offload::cpu, 1, false);
  run("some", Offload::none, 2, true);
  EXPECT_TRUE(run("some", Offload::cpu, 3, true) == expected);
}

}  // namespace
}  // namespace ingot
