#pragma once

#include <cstdint>
#include <string>

#include "ingot/models/policy/dual_pool_net.h"

namespace ingot {

/// Writes the network as an ONNX graph (opset 18, f32), all or nothing. Inputs: observation [batch, channels,
/// width] and rank_context [batch, 16]; outputs: policy, value, rank, tenpai and danger, as DualPoolOutput
/// has them. Returns the bytes. IoError where it cannot be written.
std::uint64_t write_dual_pool_onnx(const std::string& path, const DualPoolNet& net);

}  // namespace ingot
