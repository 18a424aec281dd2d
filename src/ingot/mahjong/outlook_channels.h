#pragma once

#include <span>

#include "ingot/mahjong/table.h"

namespace ingot::mahjong {

/// What DecisionOutlook says of each choice, as channels of 34 kinds: docs/mahjong.md lists them.
inline constexpr int kOutlookChannels = 25;

/// Writes kOutlookChannels * 34 floats. Throws ShapeMismatch if `out` has another size.
void encode_outlook(const Observation& observation, std::span<float> out);

}  // namespace ingot::mahjong
