#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "ingot/models/config_file.h"
#include "ingot/models/rope_scaling.h"

namespace ingot {

/// RoPE as config.json says it: `rope_parameters` {rope_type, rope_theta, ...} of transformers 5, which may
/// be one for each kind of layer, or before that `rope_theta` and `rope_scaling`.
struct RopeKeys {
  RopeScaling scaling;
  double theta = 10000, local_theta = 0;
  double partial_rotary_factor = 1;  ///< the part of each head that rotates

  /// Over what is there. NotImplemented where sliding layers have a scaling.
  void read(const ConfigFile& file);
};

/// Fills the zeros that mean "derive it", then throws InvalidConfig naming the key of anything impossible.
void validate_rope(RopeScaling& scaling, const RotaryConfig& rotary, std::int64_t head_dim);

/// rope_parameters of one kind of layer, without partial_rotary_factor.
nlohmann::ordered_json rope_to_json(const RopeScaling& scaling, double theta);

}  // namespace ingot
