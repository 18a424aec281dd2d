#pragma once

#include <span>

#include "ingot/core/tensor.h"
#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/labels.h"
#include "ingot/models/policy/dual_pool_net.h"

namespace ingot {

/// How a network that reads so many channels (85, 96 with context, 121 with the outlook, too) sees a table.
/// Throws InvalidConfig for a network of another game: `origin` names where it comes from.
mahjong::EncoderOptions mahjong_encoding(const DualPoolNetConfig& config, const std::string& origin);

/// Does it read an observation and behind it what is hidden (mahjong/oracle.h)?
bool is_mahjong_oracle(const DualPoolNetConfig& config);
/// Throws InvalidConfig unless a network is an oracle that reads what `player` does, and what is hidden.
void check_mahjong_teacher(const DualPoolNetConfig& config, const DualPoolNetConfig& player,
                           const std::string& origin);

/// Positions as a network reads them.
struct MahjongInputs {
  Tensor observation;   ///< [batch, channels, 34]
  Tensor legal;         ///< 1 or 0, [batch, 46]
  Tensor rank_context;  ///< [batch, 16]
};
MahjongInputs mahjong_inputs(std::span<const mahjong::Observation* const> observations,
                             std::span<const std::uint64_t> masks, const mahjong::EncoderOptions& encoding,
                             Device device);

/// Decisions with labels for every head.
struct MahjongExamples : MahjongInputs {
  Tensor action;  ///< i64, [batch]
  Tensor order;   ///< i64, [batch]; -100 where the end of the game is not known
  Tensor tenpai;  ///< 1 or 0, [batch, 3]
  Tensor danger;  ///< 1 or 0, [batch, 3, 34]
  Tensor value;   ///< what the rest of the game brings the player, in units of 10,000 points, [batch]
};
MahjongExamples mahjong_examples(std::span<const mahjong::LabelledDecision> decisions,
                                 const mahjong::EncoderOptions& encoding, Device device);

}  // namespace ingot
