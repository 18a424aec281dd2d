#pragma once

#include <cstdint>
#include <vector>

#include "ingot/models/rope_scaling.h"
#include "ingot/ops/rope.h"

namespace ingot {

/// What rotates the heads of a model: rope_table's arguments.
struct RopeFrequencies {
  std::vector<float> inverse;     ///< one per pair
  float attention_factor = 1.0F;  ///< of cos and sin
};

/// The frequencies of a sequence of `length` tokens under the model's scaling, as transformers computes them
/// (modeling_rope_utils); only "dynamic" and "longrope" depend on the length. dynamic: NTK-aware, by bloc97
/// and emozilla; yarn: Peng et al. 2023; longrope: Ding et al. 2024; llama3: Llama 3.1's; proportional: Gemma
/// 4's.
RopeFrequencies scaled_rope_frequencies(const RotaryConfig& config, std::int64_t length);

/// The tables of a model, made when they are needed and kept.
class RopeTables {
 public:
  /// Makes both tables hold positions up to `length` of a sequence that long, on `device`.
  void prepare(const RotaryConfig& config, std::int64_t length, Device device);
  const RopeTable& full() const { return full_; }
  /// Of sliding layers, which may have a base of their own.
  const RopeTable& sliding() const { return sliding_.cos.defined() ? sliding_ : full_; }

 private:
  RopeTable full_, sliding_;
  std::int64_t variant_ = -1;  // the length class that full_ was made for
};

}  // namespace ingot
