#pragma once

#include <memory>

#include "ingot/weights/weight_source.h"

namespace ingot {

/// A checkpoint with MXFP4 experts (gpt-oss): where it keeps `x_blocks` u8 [experts, out, in / 32, 16] and
/// `x_scales` u8 [experts, out, in / 32], there is one `x` [experts, in, out] instead, as unquantized
/// checkpoints have it. It loads as f32 values, and expert by expert in tiles with load_packed() of the
/// transpose. Everything else stays as it is. InvalidConfig names blocks without scales, or that do not fit.
std::shared_ptr<const WeightSource> open_mxfp4(std::shared_ptr<const WeightSource> base);

}  // namespace ingot
