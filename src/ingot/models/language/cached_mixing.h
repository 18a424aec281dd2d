#pragma once

#include <cstdint>

#include "ingot/models/language/decoder_attention.h"
#include "ingot/ops/delta_rule.h"
#include "ingot/ops/selective_scan.h"

namespace ingot {

/// causal_conv of a layer's steps: x [batch, sequence, channels]; weight [channels, taps]. Documents of a row
/// do not see each other; with caches each segment continues its own past, and its steps are kept.
Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const DecoderContext& context,
                std::int64_t layer);

/// selective_scan of a layer's steps, `starts` undefined: likewise.
Tensor scan(const SelectiveScanInput& input, const DecoderContext& context, std::int64_t layer);
/// delta_rule of a layer's steps, `starts` undefined: likewise.
Tensor delta_rule(const DeltaRuleInput& input, const DecoderContext& context, std::int64_t layer);

}  // namespace ingot
