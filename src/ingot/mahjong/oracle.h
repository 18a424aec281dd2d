#pragma once

#include <span>

#include "ingot/mahjong/table.h"

namespace ingot::mahjong {

/// What a player may not see, for critics and teachers in training: 205 channels of 34 kinds, row-major,
/// after Hydra. Opponents are those of the encoder: next, across, before. docs/mahjong.md lists the channels.
inline constexpr int kOracleChannels = 205;

/// Writes kOracleChannels * 34 floats about the table as `player` sits at it. Nothing that plays may read
/// them. Throws ShapeMismatch if `out` has another size.
void encode_oracle(const Table& table, int player, std::span<float> out);

}  // namespace ingot::mahjong
