#pragma once

#include <span>

#include "ingot/mahjong/action.h"

// The loops that gain from wide registers, compiled once per instruction set and chosen when the program
// runs.
namespace ingot::mahjong::simd {

/// How the 64 bits that describe a row of 34 floats are to be read: as the set of kinds that hold 1, or as a
/// float (its bits) that fills the row.
enum class RowType : std::uint8_t { Set, Fill };

/// Writes `count` rows of kKinds floats each to `out`.
void write_rows(const std::uint64_t* keys, const RowType* types, std::size_t count, float* out);
/// The same for the rows whose bit is set in `which`, 64 rows per word.
void write_some_rows(const std::uint64_t* keys, const RowType* types, std::span<const std::uint64_t> which,
                     float* out);
/// Sets bit i of `differ` where key i is not as before, and clears the others. The sizes are equal, a
/// multiple of 8, and at most 64 times that of `differ`.
void find_changes(std::span<const std::uint64_t> keys, std::span<const std::uint64_t> before,
                  std::span<std::uint64_t> differ);

/// What `write_decay_row` looks ages up in: one value per age, the last for all older ones.
inline constexpr std::size_t kDecayAges = 31;
/// Writes values[min(now - turn[kind], last)] for each kind of the set, 0 for the others. `values` holds 32.
void write_decay_row(KindSet kinds, const std::array<std::uint8_t, kKinds>& turn, unsigned now,
                     const float* values, float* out);

/// A table for `push_tiles` is so long, so that whole registers may be read, and as much is written past its
/// end.
inline constexpr std::size_t kPaddedTiles = 48;
/// Copies table[tile] for each tile of the set, lowest first, to `out`; returns the end. Up to 16 actions
/// more are overwritten.
Action* push_tiles(std::uint64_t tiles, const Action* table, Action* out);

}  // namespace ingot::mahjong::simd
