#pragma once

#include <map>
#include <string>
#include <vector>

#include "ingot/autograd/engine.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/train/language/step_matmuls.h"

namespace ingot::test {

/// How often each implementation of a matmul with a weight was launched.
using MatmulLaunches = std::map<std::string, std::int64_t>;

inline MatmulLaunches matmul_launches(const kernels::LaunchProfile& profile) {
  MatmulLaunches launches;
  for (const auto& entry : profile.entries()) {
    const std::string kernel = entry.kernel;
    if (kernel.starts_with("gemm") || kernel == "linear_parameters_backward")
      launches[kernel + " by " + entry.implementation] += entry.launches;
  }
  return launches;
}

inline constexpr std::int64_t kMatmulBatch = 2, kMatmulSequence = 24;

inline LanguageConfig matmul_config(const std::string& family, DType dtype) {
  LanguageConfig c;
  c.model_type = family;
  c.vocab_size = 70;
  c.hidden_size = 32;
  c.intermediate_size = 48;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = family == "gpt2" ? 4 : 2;
  c.max_position_embeddings = 64;
  c.dtype = dtype;
  apply_family(c);
  c.validate();
  return c;
}

/// Of a step on one batch behind another.
inline MatmulLaunches launches_of_a_step(const LanguageConfig& config, Device device) {
  std::vector<std::int32_t> ids, positions;
  for (std::int64_t i = 0; i < kMatmulBatch * kMatmulSequence; ++i) {
    ids.push_back(static_cast<std::int32_t>(i * 7 % config.vocab_size));
    positions.push_back(static_cast<std::int32_t>(i % kMatmulSequence));
  }
  const Shape shape{kMatmulBatch, kMatmulSequence};
  const DecoderInput input{.tokens = to(Tensor::from(ids, shape), device),
                           .positions = to(Tensor::from(positions, shape), device),
                           .length = kMatmulSequence};
  InitSource source(1, config.dtype, device);
  const LanguageModel model(config, source);
  backward(model.loss(input, input.tokens));
  const kernels::LaunchProfile profile;
  backward(model.loss(input, input.tokens));
  return matmul_launches(profile);
}

inline MatmulLaunches launches_of_matmuls(const LanguageConfig& config, Device device) {
  const StepMatmuls products(config, kMatmulBatch * kMatmulSequence, device);
  const kernels::LaunchProfile profile;
  products.run();
  return matmul_launches(profile);
}

}  // namespace ingot::test
