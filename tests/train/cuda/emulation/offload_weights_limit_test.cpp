#include <filesystem>
#include <string>

#include "tests/emulated_gpu/queue.h"
#include "tests/kernels/cuda/device.h"
#include "tests/train/cuda/training_run.h"

#include "ingot/base/error.h"
#include "ingot/core/backend.h"

namespace ingot {
namespace {

namespace emulation = kernels::cuda::emulation;

using test::kDevice;

class OffloadWeightsLimit : public test::TrainingRun {
 protected:
  TrainConfig small() const {
    TrainConfig c = tuning("cuda", "out", DType::f32, "");
    c.max_steps = 1;
    c.sequence_len = 4;
    c.per_device_train_batch_size = 1;
    c.validation_split_ratio = 0;
    return c;
  }
};

// Copies that run ahead of the layers, or behind them, would change bits.
TEST_F(OffloadWeightsLimit, ADeviceThatWorksLateTrainsTheSame) {
  const auto files_of = [&](Offload to) {
    TrainConfig c = small();
    c.offload_weights = to;
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

// Four layers, of which two have to fit, and little else.
TEST_F(OffloadWeightsLimit, TrainsWhereTheWeightsDoNotFit) {
  MemoryTracker& memory = backend(kDevice).memory();
  const struct Limit {
    MemoryTracker& memory;
    std::size_t before;
    ~Limit() { memory.set_limit(before); }
  } restore{memory, memory.limit()};
  const auto peak_of = [&](Offload to, const std::string& output) {
    TrainConfig c = small();
    c.output_dir = directory_.at(output);
    c.offload_weights = to;
    const std::size_t before = memory.allocated();
    memory.reset_peak();
    LanguageTrainer(c).run();
    return memory.peak() - before;
  };
  const std::size_t whole = peak_of(Offload::none, "whole"), layer = (6 * 64 * 64) * sizeof(float);
  memory.set_limit(memory.allocated() + whole - layer);
  EXPECT_THROW(peak_of(Offload::none, "refused"), OutOfMemory);
  EXPECT_LE(peak_of(Offload::cpu, "offloaded"), whole - layer);
}

}  // namespace
}  // namespace ingot
