#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/core/backend.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/optim/clip.h"
#include "ingot/train/offloaded_gradients.h"

// Gradients that lie in the host's memory or in a file from the backward pass to the optimizer's step.
namespace ingot {
namespace {

using test::kDevice;

class DeviceOffloadGradients : public test::TrainingRun {};

TEST_F(DeviceOffloadGradients, ARunWritesTheCheckpointsOfWithoutAndGoesOnFromThem) {
  const auto run = [&](const std::string& output, Offload to, std::int64_t steps, bool resume) {
    TrainConfig c = config("cuda", output);
    c.dtype = DType::bf16;
    c.optimizer.gradients = to;
    c.optimizer.offload = to;
    c.gradient_accumulation_steps = 2;
    c.max_steps = steps;
    c.validation_split_ratio = 0;
    c.per_device_train_batch_size = 1;
    c.sequence_len = 8;
    c.schedule.type = "constant";
    c.resume_from_checkpoint = resume;
    LanguageTrainer(c).run();
    return tensor_files(CheckpointDirectory(c.output_dir).path(steps));
  };
  const auto expected = run("none", Offload::none, 2, false);
  EXPECT_TRUE(run("disk", Offload::disk, 2, false) == expected);
  run("some", Offload::cpu, 1, false);
  EXPECT_TRUE(run("some", Offload::none, 2, true) == expected);
}

LanguageConfig tiny() {
  LanguageConfig c;
  c.model_type = "llama";
  c.vocab_size = 64;
  c.hidden_size = 32;
  c.intermediate_size = 64;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  apply_family(c);
  c.validate();
  return c;
}

struct Passes {
  LanguageConfig config = tiny();
  InitSource source{1, DType::bf16, kDevice};
  LanguageModel model{config, source};
  std::vector<Parameter*> parameters = ingot::parameters(ModuleRef(model));
  DecoderInput input{.tokens = Tensor::from(std::vector<std::int32_t>{1, 2, 3, 4}, {1, 4}, kDevice),
                     .positions = Tensor::from(std::vector<std::int32_t>{0, 1, 2, 3}, {1, 4}, kDevice)};

  void run() { backward(model.loss(input, input.tokens)); }
  std::vector<float> bits() const {
    std::vector<float> all;
    for (const Parameter* parameter : parameters) {
      if (!parameter->grad().defined()) continue;
      const std::vector<float> some = to(to(parameter->grad(), kCpu), DType::f32).to_vector<float>();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
};

// Of each pass, of which the second and third add to those before.
TEST_F(DeviceOffloadGradients, HaveTheBitsAndNormsOfWithoutAndAreOnTheHost) {
  Passes with, without;
  OffloadedGradients offloaded(with.parameters, {.to = Offload::cpu});
  const std::vector<Parameter*> some(without.parameters.begin() + 2, without.parameters.begin() + 5),
      same(with.parameters.begin() + 2, with.parameters.begin() + 5);
  for (int step = 0; step < 2; ++step) {
    for (int pass = 0; pass < 3; ++pass) {
      with.run();
      without.run();
    }
    const ClippedNorm expected = clip_by_global_norm(without.parameters, 0.5);
    const ClippedNorm clipped = offloaded.norm(with.parameters, 0.5);
    EXPECT_EQ(clipped.norm.item(), expected.norm.item());
    EXPECT_EQ(clipped.factor.item(), expected.factor.item());
    EXPECT_EQ(offloaded.norm(same, 1e9).norm.item(), global_norm(some).item());
    for (const Parameter* parameter : with.parameters) EXPECT_EQ(parameter->grad().device(), kCpu);
    backend(kDevice).synchronize(current_stream(kDevice));
    EXPECT_TRUE(with.bits() == without.bits());
    for (Parameter* parameter : with.parameters) parameter->zero_grad();
    for (Parameter* parameter : without.parameters) parameter->zero_grad();
  }
}

}  // namespace
}  // namespace ingot
