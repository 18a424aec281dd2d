#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/core/backend.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/nn/param_source.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/train/offloaded_activations.h"

// What a pass takes on a device, beside what its plan says.
namespace ingot {
namespace {

using test::kDevice;

constexpr std::int64_t kTokens = 6;

LanguageConfig tiny() {
  LanguageConfig c;
  c.model_type = "llama";
  c.vocab_size = 64;
  c.hidden_size = 32;
  c.intermediate_size = 128;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  apply_family(c);
  c.validate();
  return c;
}

TEST(PlannedActivations, OfRecomputationOffloadAndChunksAreNearWhatADeviceAllocates) {
  const LanguageConfig config = tiny();
  InitSource source(1, DType::f32, kDevice);
  LanguageModel model(config, source);
  model.recompute = Recompute::full;
  std::vector<std::int32_t> ids, positions;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    ids.push_back(static_cast<std::int32_t>(i * 7 % 64));
    positions.push_back(static_cast<std::int32_t>(i));
  }
  const DecoderInput input{.tokens = Tensor::from(ids, {1, kTokens}, kDevice),
                           .positions = Tensor::from(positions, {1, kTokens}, kDevice)};
  MemoryTracker& memory = backend(kDevice).memory();
  OffloadedActivations offloaded(kDevice, {.to = Offload::cpu});
  backward(model.loss(input, input.tokens));  // from now on the parameters' gradients are there
  model.layer_inputs = &offloaded;
  for (const std::int64_t chunk : {std::int64_t{0}, std::int64_t{2}}) {
    model.set_mlp_chunk(chunk);
    const std::size_t before = memory.allocated();
    memory.reset_peak();
    backward(model.loss(input, input.tokens));
    const auto used = static_cast<double>(memory.peak() - before);
    TrainConfig c;
    c.device = to_string(kDevice);
    c.recompute = Recompute::full;
    c.per_device_train_batch_size = 1;
    c.gradient_accumulation_steps = 2;  // the gradients are there before a pass
    c.sequence_len = kTokens;
    c.mlp_chunk = chunk;
    c.offload_activations = Offload::cpu;
    const MemoryPlan plan = plan_memory(c, config);
    const double ratio = static_cast<double>(plan.activations + plan.transients) / used;
    EXPECT_GE(ratio, 1) << "chunk " << chunk;
    EXPECT_LE(ratio, 1.15) << "chunk " << chunk;
  }
}

}  // namespace
}  // namespace ingot
