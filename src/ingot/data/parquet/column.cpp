#include "ingot/data/parquet/column.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "ingot/data/parquet/unpack.h"

namespace ingot::data::parquet {
namespace {

// Pages are of about a megabyte; what unpacks to far more than its file is an attack or a mistake.
constexpr std::size_t kSmall = std::size_t{256} << 20, kMostRatio = 250;
constexpr std::int64_t kMostValues = std::int64_t{1} << 26;

unsigned bits_of(std::uint32_t level) { return static_cast<unsigned>(std::bit_width(level)); }

}  // namespace

Budget::Budget(std::size_t file_size) : left_(std::max(kSmall, file_size * kMostRatio)) {}

void Budget::take(std::size_t bytes, std::size_t freed, const Location& location) {
  left_ += freed;
  if (bytes > left_)
    location.fail(
        fmt::format("unpacks to {} bytes, far more than its file holds; the file is damaged", bytes));
  left_ -= bytes;
}

ColumnReader::ColumnReader(std::string_view file, const std::string& path, const Leaf& leaf,
                           const Chunk& chunk, Budget& budget)
    : file_(file),
      leaf_(leaf),
      chunk_(chunk),
      budget_(budget),
      location_{.path = path, .column = leaf.path, .offset = chunk.offset},
      at_(chunk.offset),
      end_(chunk.offset + chunk.size),
      left_(chunk.values) {
  if (chunk.physical != *leaf.element.physical)
    location_.fail("has another type in its row group than in the schema; the file is damaged");
  advance();
}

void ColumnReader::fail_early() const {
  location_.fail("has fewer values than there are rows; the file is damaged");
}

void ColumnReader::advance() {
  while (in_page_ == 0) {
    if (left_ <= 0) {
      more_ = false;
      return;
    }
    next_page();
  }
  --in_page_;
  more_ = true;
  load_levels();
}

void ColumnReader::load_levels() {
  repetition_ = leaf_.repetitions == 0 ? 0 : repetitions_.next(location_);
  definition_ = leaf_.definitions == 0 ? 0 : definitions_.next(location_);
  if (repetition_ > leaf_.repetitions || definition_ > leaf_.definitions)
    location_.fail("nests deeper than the schema has it; the file is damaged");
}

void ColumnReader::next_page() {
  location_.offset = at_;
  ++location_.page;
  if (at_ >= end_)
    location_.fail(
        "is missing: the column's part of the file ends before its values do; the file is damaged");
  const std::string_view bytes =
      file_.substr(static_cast<std::size_t>(at_), static_cast<std::size_t>(end_ - at_));
  const PageHeader header = read_page_header(bytes, location_);
  if (header.values > kMostValues)
    location_.fail(fmt::format("has {} values; the file is damaged", header.values));
  const std::string_view packed = bytes.substr(header.size, static_cast<std::size_t>(header.packed_size));
  at_ += static_cast<std::int64_t>(header.size) + header.packed_size;
  if (header.type == PageType::index) return;
  if (header.type == PageType::dictionary) return open_dictionary(header, packed);
  in_page_ = header.values;
  left_ -= header.values;
  if (header.type == PageType::data) return open_v1(header, packed);
  open_v2(header, packed);
}

std::string_view ColumnReader::unpacked(std::string_view packed, std::size_t size, bool is_packed,
                                        std::string& into) {
  if (!is_packed || chunk_.codec == Codec::none) return packed;
  budget_.take(size, into.size(), location_);
  into.clear();
  if (size > 0) into = unpack(packed, size, chunk_.codec, location_);
  return into;
}

void ColumnReader::open_dictionary(const PageHeader& header, std::string_view packed) {
  const std::string_view bytes =
      unpacked(packed, static_cast<std::size_t>(header.unpacked_size), true, dictionary_page_);
  const bool plain = header.encoding == Encoding::plain || header.encoding == Encoding::plain_dictionary;
  if (!plain) location_.fail("has a dictionary that is not PLAIN; the file is damaged");
  // A value takes a bit at least.
  if (static_cast<std::size_t>(header.values) > bytes.size() * 8)
    location_.fail(fmt::format("has a dictionary of {} values in {} bytes; the file is damaged",
                               header.values, bytes.size()));
  const auto reader = read_values(bytes, Encoding::plain, leaf_.element, nullptr, location_);
  constexpr std::size_t kCell = sizeof(decltype(dictionary_)::value_type);
  budget_.take(static_cast<std::size_t>(header.values) * kCell, dictionary_.capacity() * kCell, location_);
  dictionary_ = {};
  dictionary_.reserve(static_cast<std::size_t>(header.values));
  for (std::int64_t i = 0; i < header.values; ++i) dictionary_.push_back(reader->next(location_));
  has_dictionary_ = true;
  // Pages are counted by those of values, as other programs do.
  --location_.page;
}

// Levels, each behind its length, and values, all packed together.
void ColumnReader::open_v1(const PageHeader& header, std::string_view packed) {
  std::string_view bytes = unpacked(packed, static_cast<std::size_t>(header.unpacked_size), true, page_);
  const auto take_levels = [&](std::uint32_t most, Encoding encoding, RunReader& levels) {
    if (most == 0) return;
    if (encoding != Encoding::rle)
      location_.fail(
          "has levels that are BIT_PACKED, which no writer has done for years; write the file anew");
    const std::size_t length =
        bytes.size() < 4 ? bytes.size() : static_cast<std::size_t>(bits_at(bytes, 0, 32));
    if (bytes.size() < 4 || length > bytes.size() - 4)
      location_.fail("ends before its levels do; the file is damaged");
    levels = RunReader(bytes.substr(4, length), bits_of(most));
    bytes.remove_prefix(4 + length);
  };
  take_levels(leaf_.repetitions, header.repetition_levels, repetitions_);
  take_levels(leaf_.definitions, header.definition_levels, definitions_);
  values_ =
      read_values(bytes, header.encoding, leaf_.element, has_dictionary_ ? &dictionary_ : nullptr, location_);
}

// Levels as they are, and then values, which may be packed.
void ColumnReader::open_v2(const PageHeader& header, std::string_view packed) {
  const auto repetitions = static_cast<std::size_t>(header.repetition_size),
             definitions = static_cast<std::size_t>(header.definition_size),
             size = static_cast<std::size_t>(header.unpacked_size);
  if (repetitions + definitions > packed.size() || repetitions + definitions > size)
    location_.fail("ends before its levels do; the file is damaged");
  repetitions_ = RunReader(packed.substr(0, repetitions), bits_of(leaf_.repetitions));
  definitions_ = RunReader(packed.substr(repetitions, definitions), bits_of(leaf_.definitions));
  const std::string_view bytes = unpacked(packed.substr(repetitions + definitions),
                                          size - repetitions - definitions, header.packed, page_);
  values_ =
      read_values(bytes, header.encoding, leaf_.element, has_dictionary_ ? &dictionary_ : nullptr, location_);
}

}  // namespace ingot::data::parquet
