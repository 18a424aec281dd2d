#pragma once

#include <cstdint>
#include <string_view>

#include "ingot/data/parquet/location.h"

// The ways in which Parquet packs integers. All read one by one, so that a count that a file claims takes no
// memory.
namespace ingot::data::parquet {

/// `width` bits (0 to 64) at bit `at` of `bytes`, which has them: the lowest first.
std::uint64_t bits_at(std::string_view bytes, std::uint64_t at, unsigned width);

/// Runs of one value, and groups of eight values of equally many bits (levels, indices, booleans).
class RunReader {
 public:
  RunReader() = default;
  RunReader(std::string_view bytes, unsigned width) : bytes_(bytes), width_(width) {}
  std::uint32_t next(const Location& location);

 private:
  void begin_run(const Location& location);

  std::string_view bytes_;
  unsigned width_ = 0;
  std::uint64_t left_ = 0;  // of the run
  bool packed_ = false;
  std::uint64_t value_ = 0;      // of a run of one value
  std::string_view group_ = {};  // else
  std::uint64_t bit_ = 0;
};

/// DELTA_BINARY_PACKED: blocks of differences.
class DeltaReader {
 public:
  DeltaReader() = default;
  DeltaReader(std::string_view bytes, const Location& location);
  std::int64_t next(const Location& location);
  /// How many are left.
  std::uint64_t left() const { return left_; }
  /// What follows the last one, once all are read.
  std::string_view rest() const { return bytes_; }

 private:
  std::uint64_t varint(const Location& location);
  std::int64_t zigzag(const Location& location);
  std::string_view take(std::size_t size, const Location& location);
  void begin_block(const Location& location);
  void begin_mini_block(const Location& location);

  std::string_view bytes_;
  std::uint64_t per_mini_block_ = 0, mini_blocks_ = 0, left_ = 0;
  std::uint64_t value_ = 0;  // wraps, as the format wants it
  std::uint64_t min_delta_ = 0;
  bool first_ = true;
  std::string_view widths_;  // of the mini-blocks of this block
  std::uint64_t mini_block_ = 0, in_mini_block_ = 0;
  unsigned width_ = 0;
  std::string_view packed_;
  bool open_ = false;
};

}  // namespace ingot::data::parquet
