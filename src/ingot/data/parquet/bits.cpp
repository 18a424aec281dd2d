#include "ingot/data/parquet/bits.h"

#include <algorithm>

namespace ingot::data::parquet {
namespace {

bool take_varint(std::string_view& bytes, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto part = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(part & 0x7FU) << shift;
    if ((part & 0x80U) == 0) return true;
  }
  return false;
}

}  // namespace

std::uint64_t bits_at(std::string_view bytes, std::uint64_t at, unsigned width) {
  std::uint64_t value = 0;
  for (unsigned have = 0; have < width;) {
    const unsigned shift = static_cast<unsigned>(at % 8), taken = std::min(8 - shift, width - have);
    const auto byte = static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(at / 8)]);
    value |= static_cast<std::uint64_t>((byte >> shift) & ((1U << taken) - 1)) << have;
    have += taken;
    at += taken;
  }
  return value;
}

void RunReader::begin_run(const Location& location) {
  std::uint64_t header = 0;
  if (!take_varint(bytes_, header) || header < 2) location.fail(kShortPage);
  packed_ = (header & 1) != 0;
  if (packed_) {
    // The last group may end with the last value that is needed.
    const std::uint64_t groups = header >> 1;
    const std::uint64_t wanted = groups > bytes_.size() ? bytes_.size() : groups * width_;
    group_ = bytes_.substr(0, static_cast<std::size_t>(wanted));
    bytes_.remove_prefix(group_.size());
    left_ = width_ == 0 ? groups * 8 : std::min<std::uint64_t>(group_.size() * 8 / width_, groups * 8);
    if (left_ == 0) location.fail(kShortPage);
    bit_ = 0;
    return;
  }
  left_ = header >> 1;
  const std::size_t size = (width_ + 7) / 8;
  if (size > bytes_.size()) location.fail(kShortPage);
  value_ = bits_at(bytes_, 0, static_cast<unsigned>(size) * 8);
  bytes_.remove_prefix(size);
}

std::uint32_t RunReader::next(const Location& location) {
  if (left_ == 0) begin_run(location);
  --left_;
  if (!packed_) return static_cast<std::uint32_t>(value_);
  const std::uint64_t value = bits_at(group_, bit_, width_);
  bit_ += width_;
  return static_cast<std::uint32_t>(value);
}

DeltaReader::DeltaReader(std::string_view bytes, const Location& location) : bytes_(bytes) {
  const std::uint64_t block = varint(location);
  mini_blocks_ = varint(location);
  left_ = varint(location);
  value_ = static_cast<std::uint64_t>(zigzag(location));
  const bool sane = block > 0 && block <= 1U << 20 && mini_blocks_ > 0 && mini_blocks_ <= block &&
                    block % mini_blocks_ == 0 && block / mini_blocks_ % 8 == 0;
  if (!sane) location.fail("has blocks of differences of an impossible size; the file is damaged");
  per_mini_block_ = block / mini_blocks_;
}

std::uint64_t DeltaReader::varint(const Location& location) {
  std::uint64_t value = 0;
  if (!take_varint(bytes_, value)) location.fail(kShortPage);
  return value;
}

std::int64_t DeltaReader::zigzag(const Location& location) {
  const std::uint64_t value = varint(location);
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

std::string_view DeltaReader::take(std::size_t size, const Location& location) {
  if (size > bytes_.size()) location.fail(kShortPage);
  const std::string_view taken = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return taken;
}

void DeltaReader::begin_block(const Location& location) {
  min_delta_ = static_cast<std::uint64_t>(zigzag(location));
  widths_ = take(static_cast<std::size_t>(mini_blocks_), location);
  mini_block_ = 0;
  open_ = true;
}

void DeltaReader::begin_mini_block(const Location& location) {
  if (!open_ || mini_block_ == mini_blocks_) begin_block(location);
  width_ = static_cast<std::uint8_t>(widths_[static_cast<std::size_t>(mini_block_++)]);
  if (width_ > 64) location.fail("has differences of more than 64 bits; the file is damaged");
  packed_ = take(static_cast<std::size_t>(per_mini_block_ / 8 * width_), location);
  in_mini_block_ = 0;
}

std::int64_t DeltaReader::next(const Location& location) {
  if (left_ == 0) location.fail(kShortPage);
  --left_;
  if (first_) {
    first_ = false;
    return static_cast<std::int64_t>(value_);
  }
  if (!open_ || in_mini_block_ == per_mini_block_) begin_mini_block(location);
  value_ += min_delta_ + bits_at(packed_, in_mini_block_++ * width_, width_);
  return static_cast<std::int64_t>(value_);
}

}  // namespace ingot::data::parquet
