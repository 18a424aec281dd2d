#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot {

/// How a model stretches its rotary positions over a longer context than it was trained on (`rope_scaling`,
/// transformers' modeling_rope_utils). Zeros mean "derive it", which validate_rope does.
struct RopeScaling {
  std::string type =
      "default";      ///< "default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"
  double factor = 0;  ///< 0: the ratio of the context lengths for yarn and longrope, 1 otherwise
  std::int64_t original_max_position_embeddings = 0;  ///< 0: max_position_embeddings
  double low_freq_factor = 1.0;                       ///< llama3
  double high_freq_factor = 4.0;                      ///< llama3
  double attention_factor = 0;                        ///< yarn, longrope: factor of cos and sin; 0: derived
  double beta_fast = 32, beta_slow = 1;               ///< yarn
  double mscale = 0, mscale_all_dim = 0;              ///< yarn
  bool truncate = true;                               ///< yarn: whole dimensions as limits
  std::vector<double> short_factor, long_factor;      ///< longrope: one per pair of a head
  /// longrope: of cos and sin, in texts up to the original length and beyond it, instead of attention_factor;
  /// 0: none (Phi 3.5 MoE).
  double short_mscale = 0, long_mscale = 0;
  /// Whether sequences of different lengths have different tables.
  bool depends_on_length() const { return type == "dynamic" || type == "longrope"; }
};

/// What the angles of a model's heads follow from.
struct RotaryConfig {
  std::int64_t size;  ///< elements of a head that rotate
  std::int64_t max_position_embeddings;
  double theta;
  double local_theta;  ///< of sliding layers where they have their own; 0: theta
  const RopeScaling& scaling;
  std::int64_t local_size = 0;  ///< elements that rotate in sliding layers where those differ; 0: size
  double turning = 0;           ///< proportional: the part of the pairs that turns, the first ones
};

}  // namespace ingot
