#include <filesystem>
#include <string>

#include "tests/emulated_gpu/queue.h"
#include "tests/train/cuda/training_run.h"

namespace ingot {
namespace {

namespace emulation = kernels::cuda::emulation;

class OffloadActivationsLimit : public test::TrainingRun {
 protected:
  TrainConfig small() const {
    TrainConfig c = tuning("cuda", "out", DType::f32, "");
    c.max_steps = 1;
    c.sequence_len = 4;
    c.per_device_train_batch_size = 1;
    c.validation_split_ratio = 0;
    c.recompute = Recompute::full;
    return c;
  }
};

// Copies that run ahead of the layers, or behind them, would change bits.
TEST_F(OffloadActivationsLimit, ADeviceThatWorksLateTrainsTheSame) {
  const auto files_of = [&](Offload to) {
    TrainConfig c = small();
    c.offload_activations = to;
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

}  // namespace
}  // namespace ingot
