#pragma once

#include <span>

#include "ingot/mahjong/outlook_channels.h"
#include "ingot/mahjong/table.h"

namespace ingot::mahjong {

/// The observation for networks: 85 channels of 34 kinds, row-major, after Hydra. docs/mahjong.md lists them.
inline constexpr int kChannels = 85;
/// Appended on request: tiles left, winds, furiten, waits, legal actions, which the 85 lack.
inline constexpr int kContextChannels = 11;

/// Each switch brings back a behaviour of the encoder this follows, for comparison with networks trained on
/// it.
struct EncoderOptions {
  /// Channels 62-76 as one triple per opponent (genbutsu, tedashi, after riichi), not opponents per kind.
  bool old_safety_order = false;
  /// Safe tiles are an opponent's own discards only, though after its riichi everybody's discards are.
  bool old_genbutsu = false;
  /// Walls and one-chances count others' discards and calls only: not the own hand, indicators and kans.
  bool old_visible = false;
  /// Score gaps as theirs minus mine, as one of the two documents has it.
  bool old_gap_sign = false;
  /// Without the context channels an observation does not say winds, tiles left, furiten or legal actions.
  bool context = false;
  /// The outlook channels behind them: what each choice is worth, as RuleBasedPlayer judges. They take as
  /// long as that player's decision, over 100 times the rest. Networks that read them have `context`, too.
  bool outlook = false;

  int channels() const {
    return kChannels + (context ? kContextChannels : 0) + (outlook ? kOutlookChannels : 0);
  }
};

/// Writes channels() * 34 floats. Throws ShapeMismatch if `out` has another size.
void encode(const Observation& observation, std::span<float> out, const EncoderOptions& options = {});

/// Keeps the last encoding and rewrites only the rows whose content changed, and the outlook's; always equal
/// to a full one, also when it is shown another table.
class IncrementalEncoder {
 public:
  explicit IncrementalEncoder(const EncoderOptions& options = {}) : options_(options) {}
  /// Valid until the next call.
  std::span<const float> encode(const Observation& observation);
  /// Rows that the last call wrote, without the outlook's.
  int rows_written() const;

 private:
  static constexpr std::size_t kRows = kChannels + kContextChannels;
  unsigned follow_river(const Observation& observation);
  bool follow_melds(const Observation& observation);
  /// What the shanten rows depend on.
  struct HandKey {
    std::uint64_t man_pin = 0, sou_honors = 0, context = 0;
    friend bool operator==(const HandKey&, const HandKey&) = default;
  };

  EncoderOptions options_;
  bool started_ = false;
  std::uint8_t seat_ = 0;
  unsigned decays_written_ = 0;
  std::array<std::uint64_t, 2> changed_{};
  std::array<std::array<std::uint64_t, kRows>, 2>
      keys_{};  ///< what describes the rows: now, and in the making
  std::size_t latest_keys_ = 0;
  std::array<RiverTile, kMaxRiver> river_{};
  std::size_t river_size_ = 0;
  /// Per player and kind the number of its latest discard of the kind, if there is one.
  std::array<std::array<std::uint8_t, kKinds>, 4> latest_{};
  /// Whole words, to be compared as such.
  struct SeatMelds {
    std::array<Meld, 4> melds{};
    std::array<std::uint8_t, 8> count{};
  };
  std::array<SeatMelds, 4> melds_{};
  HandKey hand_;
  std::array<std::int32_t, 4> scores_{};
  std::array<float, (kRows + kOutlookChannels) * kKinds> rows_{};
};

}  // namespace ingot::mahjong
