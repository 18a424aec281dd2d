#include <cstddef>
#include <filesystem>
#include <string>

#include "tests/emulated_gpu/queue.h"
#include "tests/kernels/cuda/device.h"
#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/train/language/language_task.h"
#include "ingot/train/language/memory_plan.h"

namespace ingot {
namespace {

namespace emulation = kernels::cuda::emulation;

using test::kDevice;

class OffloadGradientsLimit : public test::TrainingRun {
 protected:
  TrainConfig small(const std::string& output) const {
    TrainConfig c = config("cuda", output);
    c.max_steps = 1;
    c.sequence_len = 4;
    c.per_device_train_batch_size = 1;
    c.validation_split_ratio = 0;
    return c;
  }
};

// Copies that run ahead of the layers, or behind them, would change bits.
TEST_F(OffloadGradientsLimit, ADeviceThatWorksLateTrainsTheSame) {
  const auto files_of = [&](Offload to) {
    TrainConfig c = small("out");
    c.gradient_accumulation_steps = 2;
    c.optimizer.gradients = to;
    LanguageTrainer(c).run();
    return tensor_files(CheckpointDirectory(c.output_dir).path(1));
  };
  const auto expected = files_of(Offload::none);
  for (const emulation::OtherStreams others :
       {emulation::OtherStreams::behind, emulation::OtherStreams::ahead}) {
    std::filesystem::remove_all(directory_.at("out"));
    const emulation::Deferred deferred(others);
    EXPECT_TRUE(files_of(Offload::cpu) == expected);
  }
}

// Without state of the optimizer, gradients are most of what a step adds to the weights. A device rounds what
// it allocates, for which a twentieth is left.
TEST_F(OffloadGradientsLimit, ARunFitsIntoWhatItsPlanSaysWhereOneWithoutDoesNot) {
  MemoryTracker& memory = backend(kDevice).memory();
  const struct Limit {
    MemoryTracker& memory;
    std::size_t before;
    ~Limit() { memory.set_limit(before); }
  } restore{memory, memory.limit()};
  const auto run_of = [&](Offload to) {
    TrainConfig c = small(std::string(name(to)));
    c.architecture.hidden_size = c.architecture.intermediate_size = 64;
    c.architecture.num_hidden_layers = 6;
    c.recompute = Recompute::full;
    c.optimizer.name = "sgd";
    c.optimizer.momentum = 0;
    c.optimizer.gradients = to;
    return c;
  };
  const auto planned = [&](Offload to) {
    TrainConfig c = run_of(to);
    c.architecture.vocab_size = c.vocab_size;
    return plan_memory(c, c.architecture);
  };
  const MemoryPlan without = planned(Offload::none), with = planned(Offload::cpu);
  EXPECT_EQ(with.offloaded_gradients, without.all_gradients);
  EXPECT_GT(without.total() - with.total(), without.all_gradients / 2);
  memory.set_limit(memory.allocated() + with.total() + with.total() / 20);
  EXPECT_THROW(LanguageTrainer(run_of(Offload::none)).run(), OutOfMemory);
  EXPECT_NO_THROW(LanguageTrainer(run_of(Offload::cpu)).run());
}

}  // namespace
}  // namespace ingot
