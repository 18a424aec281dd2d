#include <map>
#include <string>

#include "tests/kernels/cuda/device.h"
#include "tests/train/cuda/training_run.h"

// Inputs of layers that leave the device until the layer runs again.
namespace ingot {
namespace {

class DeviceOffloadActivations : public test::TrainingRun {
 protected:
  static TrainConfig short_run(TrainConfig c) {
    c.max_steps = 1;
    c.validation_split_ratio = 0;
    c.sequence_len = 4;
    c.per_device_train_batch_size = 1;
    c.recompute = Recompute::full;
    return c;
  }
  std::map<std::string, std::string> files_of(TrainConfig c, Offload to) {
    c.offload_activations = to;
    c.output_dir += std::string(name(to));
    LanguageTrainer(c).run();
    return tensor_files(CheckpointDirectory(c.output_dir).path(c.max_steps));
  }
};

TEST_F(DeviceOffloadActivations, TrainsAdaptersWithTheBitsOfWithout) {
  TrainConfig c = short_run(tuning("cuda", "adapters", DType::bf16, "nf4"));
  const auto expected = files_of(c, Offload::none);
  EXPECT_TRUE(files_of(c, Offload::cpu) == expected);
  c.offload_weights = Offload::cpu;
  c.output_dir += "weights";
  EXPECT_TRUE(files_of(c, Offload::cpu) == expected);
}

TEST_F(DeviceOffloadActivations, TrainsAWholeModelWithTheBitsOfWithout) {
  TrainConfig c = short_run(config("cuda", "whole"));
  c.architecture.num_hidden_layers = 3;
  c.gradient_accumulation_steps = 2;
  EXPECT_TRUE(files_of(c, Offload::disk) == files_of(c, Offload::none));
}

}  // namespace
}  // namespace ingot
