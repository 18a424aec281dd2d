#include <cstdint>
#include <cstring>

#include "ingot/data/parquet/unpack.h"

// Snappy and LZ4 are both runs of literals and of copies from what is already written.
namespace ingot::data::parquet {
namespace {

// Input and output with every length checked; what fails once stays failed.
class Block {
 public:
  Block(std::string_view in, std::string& out) : in_(in), out_(out) {}

  bool more() const { return good_ && !in_.empty(); }
  bool complete() const { return good_ && in_.empty() && written_ == out_.size(); }

  std::size_t byte() { return little_endian(1); }
  std::size_t little_endian(unsigned size) {
    if (size > in_.size()) return good_ = false, 0;
    std::size_t value = 0;
    for (unsigned i = 0; i < size; ++i)
      value |= static_cast<std::size_t>(static_cast<std::uint8_t>(in_[i])) << (8 * i);
    in_.remove_prefix(size);
    return value;
  }

  void skip(std::size_t size) {
    if (size > in_.size()) good_ = false;
    in_.remove_prefix(good_ ? size : 0);
  }
  // Has f() read so many bytes of the input, and passes over them.
  void within(std::size_t size, void (*f)(Block&)) {
    if (!good_ || size > in_.size()) {
      good_ = false;
      return;
    }
    const std::string_view rest = in_.substr(size);
    in_ = in_.substr(0, size);
    f(*this);
    in_ = rest;
  }

  void literal(std::size_t size) {
    if (!good_ || size > in_.size() || size > out_.size() - written_) {
      good_ = false;
      return;
    }
    std::memcpy(out_.data() + written_, in_.data(), size);
    in_.remove_prefix(size);
    written_ += size;
  }

  // What is copied may reach into itself: it repeats.
  void copy(std::size_t distance, std::size_t size) {
    if (!good_ || distance == 0 || distance > written_ || size > out_.size() - written_) {
      good_ = false;
      return;
    }
    for (const std::size_t end = written_ + size; written_ < end; ++written_)
      out_[written_] = out_[written_ - distance];
  }

 private:
  std::string_view in_;
  std::string& out_;
  std::size_t written_ = 0;
  bool good_ = true;
};

// LZ4 continues a length of 15 with bytes until one is not 255.
std::size_t lz4_length(Block& block, std::size_t length) {
  if (length < 15) return length;
  std::size_t part = 255;
  while (part == 255 && block.more()) length += part = block.byte();
  return length;
}

void lz4_block(Block& block) {
  while (block.more()) {
    const std::size_t token = block.byte();
    block.literal(lz4_length(block, token >> 4U));
    if (!block.more()) break;  // the last run is of literals
    const std::size_t distance = block.little_endian(2);
    block.copy(distance, lz4_length(block, token & 15U) + 4);
  }
}

}  // namespace

bool unpack_snappy(std::string_view packed, std::string& out) {
  Block block(packed, out);
  std::size_t size = 0, part = 0x80;
  for (unsigned shift = 0; (part & 0x80U) != 0 && shift < 35 && block.more(); shift += 7) {
    part = block.byte();
    size |= (part & 0x7FU) << shift;
  }
  if (size != out.size()) return false;
  while (block.more()) {
    const std::size_t tag = block.byte(), length = tag >> 2U;
    switch (tag & 3U) {
      case 0: {
        const bool is_long = length >= 60;
        block.literal((is_long ? block.little_endian(static_cast<unsigned>(length - 59)) : length) + 1);
        break;
      }
      case 1:
        block.copy((tag >> 5U) << 8U | block.byte(), (length & 7U) + 4);
        break;
      case 2:
        block.copy(block.little_endian(2), length + 1);
        break;
      default:
        block.copy(block.little_endian(4), length + 1);
    }
  }
  return block.complete();
}

bool unpack_lz4(std::string_view packed, std::string& out) {
  Block block(packed, out);
  lz4_block(block);
  return block.complete();
}

// github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md: a block may copy from those before it.
bool unpack_lz4_frame(std::string_view packed, std::string& out) {
  constexpr std::size_t kMagic = 0x184D2204, kVersion = 1, kAsItIs = 0x80000000;
  Block frame(packed, out);
  if (frame.little_endian(4) != kMagic) return false;
  const std::size_t flags = frame.byte();
  const bool sums_of_blocks = (flags & 0x10U) != 0, has_size = (flags & 0x08U) != 0,
             has_sum = (flags & 0x04U) != 0, has_dictionary = (flags & 0x01U) != 0;
  if (flags >> 6U != kVersion || has_dictionary) return false;
  frame.skip(1 + (has_size ? 8 : 0) + 1);  // largest block, size, checksum of the header
  while (const std::size_t header = frame.little_endian(4)) {
    const std::size_t size = header & (kAsItIs - 1);
    if ((header & kAsItIs) != 0)
      frame.literal(size);
    else
      frame.within(size, lz4_block);
    if (sums_of_blocks) frame.skip(4);
  }
  if (has_sum) frame.skip(4);
  return frame.complete();
}

}  // namespace ingot::data::parquet
