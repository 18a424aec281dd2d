#include "ingot/data/arrow/batch.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/data/parquet/bits.h"
#include "ingot/data/parquet/cell.h"
#include "ingot/data/parquet/unpack.h"

namespace ingot::data::arrow {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Field::Kind;

constexpr std::int64_t kMost = std::int64_t{1} << 34;  // of rows: products with widths stay in 64 bits

std::int64_t integer_at(std::string_view bytes, std::int64_t index) {
  std::int64_t value = 0;
  std::memcpy(&value, bytes.data() + 8 * index, 8);
  return value;
}

// Walks over the columns of a batch and takes each one's node and buffers.
class Builder {
 public:
  Builder(const Table& about, std::string_view body, const Dictionaries& dictionaries,
          const Location& location, std::list<std::string>& unpacked)
      : about_(about), body_(body), dictionaries_(dictionaries), location_(location), unpacked_(unpacked) {
    if (!about.has(3)) return;
    constexpr std::int8_t kLz4 = 0, kZstd = 1;
    const std::int8_t codec = about.table(3).number(0, kLz4);
    if (codec != kLz4 && codec != kZstd)
      location.fail(
          fmt::format("is compressed with codec {}, which is not read; save it with zstd or lz4", codec));
    codec_ = codec == kLz4 ? parquet::Codec::lz4_frame : parquet::Codec::zstd;
  }

  Column column(const Field& field, const Location& above) {
    Location location = above;
    location.column += (location.column.empty() ? "" : ".") + field.name;
    if (node_ >= about_.count(1, 16)) location.fail("is missing in a batch; the file is damaged");
    const std::string_view node = about_.bytes(1, node_++, 16);
    Column c{.field = &field, .length = checked_length(integer_at(node, 0), location)};
    if (field.kind == Kind::null && !field.dictionary) return c;
    c.validity = buffer(location);
    if (integer_at(node, 1) == 0) c.validity = {};
    need(c.validity, c.validity.empty() ? 0 : (c.length + 7) / 8, location);
    read_values(c, field, location);
    return c;
  }
  static std::int64_t checked_length(std::int64_t length, const Location& location) {
    if (length < 0 || length > kMost)
      location.fail(fmt::format("claims {} values; the file is damaged", length));
    return length;
  }

 private:
  void read_values(Column& c, const Field& field, const Location& location) {
    if (field.dictionary) {
      c.data = buffer(location);
      need(c.data, c.length * field.index_bits / 8, location);
      const auto found = dictionaries_.find(*field.dictionary);
      if (found == dictionaries_.end()) location.fail("names a dictionary that the file does not hold");
      c.dictionary = &found->second;
      return;
    }
    if (field.kind == Kind::fixed) {
      c.data = buffer(location);
      need(c.data, (c.length * field.bits + 7) / 8, location);
    } else if (field.kind == Kind::strings || field.kind == Kind::list || field.kind == Kind::map) {
      c.offsets = buffer(location);
      if (c.length > 0) need(c.offsets, (c.length + 1) * (field.wide ? 8 : 4), location);
      if (field.kind == Kind::strings) c.data = buffer(location);
    }
    c.children.reserve(field.children.size());
    for (const Field& child : field.children) c.children.push_back(column(child, location));
    if (field.kind != Kind::fixed_list && field.kind != Kind::structure) return;
    const std::int64_t each = field.kind == Kind::fixed_list ? std::max<std::int64_t>(field.size, 1) : 1;
    for (const Column& child : c.children)
      if (child.length / each < c.length && field.size + each > 1)
        location.fail("has fewer values inside than it claims; the file is damaged");
  }

  std::string_view buffer(const Location& location) {
    if (buffer_ >= about_.count(2, 16)) location.fail("lacks a buffer in a batch; the file is damaged");
    const std::string_view place = about_.bytes(2, buffer_++, 16);
    const std::int64_t offset = integer_at(place, 0), size = integer_at(place, 1);
    const auto whole = static_cast<std::int64_t>(body_.size());
    if (offset < 0 || size < 0 || offset > whole || size > whole - offset)
      location.fail(fmt::format("has a buffer of {} bytes at {} of a batch of {} bytes; the file is damaged",
                                size, offset, whole));
    const auto bytes = body_.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
    return codec_ != parquet::Codec::none && !bytes.empty() ? unpacked(bytes, location) : bytes;
  }
  std::string_view unpacked(std::string_view bytes, const Location& location) {
    constexpr std::int64_t kAsItIs = -1, kSmall = std::int64_t{64} << 20, kMostRatio = 1000;
    if (bytes.size() < 8) location.fail("has a compressed buffer without its size; the file is damaged");
    const std::int64_t size = integer_at(bytes, 0);
    bytes.remove_prefix(8);
    if (size == kAsItIs) return bytes;
    if (size < 0 || size > std::max(kSmall, static_cast<std::int64_t>(bytes.size()) * kMostRatio))
      location.fail(fmt::format("claims {} bytes out of {}; the file is damaged", size, bytes.size()));
    // Buffers may share their bytes.
    unpacked_bytes_ += size;
    if (unpacked_bytes_ > std::max(kSmall, static_cast<std::int64_t>(body_.size()) * kMostRatio))
      location.fail(fmt::format("claims {} bytes out of a batch of {}; the file is damaged", unpacked_bytes_,
                                body_.size()));
    unpacked_.push_back(parquet::unpack(bytes, static_cast<std::size_t>(size), codec_, location));
    return unpacked_.back();
  }

  static void need(std::string_view bytes, std::int64_t size, const Location& location) {
    if (static_cast<std::int64_t>(bytes.size()) < size)
      location.fail(
          fmt::format("has {} bytes where its values take {}; the file is damaged", bytes.size(), size));
  }

  const Table& about_;
  std::string_view body_;
  const Dictionaries& dictionaries_;
  const Location& location_;
  std::list<std::string>& unpacked_;
  parquet::Codec codec_ = parquet::Codec::none;
  std::int64_t unpacked_bytes_ = 0;
  std::size_t node_ = 0, buffer_ = 0;
};

bool is_null(const Column& c, std::int64_t row) {
  if (c.field->kind == Kind::null && c.dictionary == nullptr) return true;
  return !c.validity.empty() && parquet::bits_at(c.validity, static_cast<std::uint64_t>(row), 1) == 0;
}

struct Range {
  std::int64_t begin = 0, end = 0;
};

// The items of a string or a list; `size`: what is behind the offsets.
Range range_of(const Column& c, std::int64_t row, std::int64_t size, const Location& location) {
  const unsigned width = c.field->wide ? 64 : 32;
  const auto offset = [&](std::int64_t at) {
    return static_cast<std::int64_t>(
        parquet::bits_at(c.offsets, static_cast<std::uint64_t>(at) * width, width));
  };
  const Range range{offset(row), offset(row + 1)};
  if (range.begin < 0 || range.end < range.begin || range.end > size)
    location.fail(
        fmt::format("has an item from {} to {} of {}; the file is damaged", range.begin, range.end, size));
  return range;
}

std::int64_t extended(std::uint64_t bits, unsigned width) {
  const unsigned shift = 64 - width;
  return static_cast<std::int64_t>(bits << shift) >> shift;
}

parquet::Value fixed_value(const Column& c, std::int64_t row, std::string& reversed) {
  using parquet::Physical;
  const Field& field = *c.field;
  const auto physical = *field.element.physical;
  if (physical == Physical::fixed) {
    const std::size_t size = field.bits / 8;
    std::string_view bytes = c.data.substr(static_cast<std::size_t>(row) * size, size);
    if (field.element.meaning != parquet::Meaning::decimal) return {.bytes = bytes};
    reversed.assign(bytes.rbegin(), bytes.rend());  // Parquet's decimals are big-endian
    return {.bytes = reversed};
  }
  const std::uint64_t bits =
      parquet::bits_at(c.data, static_cast<std::uint64_t>(row) * field.bits, field.bits);
  if (physical == Physical::float32) {
    const auto half = static_cast<std::uint32_t>(bits);
    float value = 0;
    std::memcpy(&value, &half, sizeof value);
    return {.real = value};
  }
  if (physical == Physical::float64) {
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return {.real = value};
  }
  const bool natural = field.element.meaning == parquet::Meaning::natural || physical == Physical::boolean;
  return {.integer = natural ? static_cast<std::int64_t>(bits) : extended(bits, field.bits)};
}

Json list_of(const Column& items, Range range, Values& values, const Location& location) {
  values.take(range.end - range.begin, location);
  Json list = Json::array();
  for (std::int64_t i = range.begin; i < range.end; ++i)
    list.push_back(read_value(items, i, values, location));
  return list;
}

Json map_of(const Column& pairs, Range range, Values& values, const Location& location) {
  values.take(range.end - range.begin, location);
  Json object = Json::object();
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const Json key = read_value(pairs.children[0], i, values, location);
    object[key.is_string() ? key.get<std::string>() : key.dump()] =
        read_value(pairs.children[1], i, values, location);
  }
  return object;
}

Json struct_of(const Column& c, std::int64_t row, Values& values, const Location& above) {
  values.take(static_cast<std::int64_t>(c.children.size()), above);
  Json object = Json::object();
  for (const Column& child : c.children) {
    Location location = above;
    location.column += (location.column.empty() ? "" : ".") + child.field->name;
    object[child.field->name] = read_value(child, row, values, location);
  }
  return object;
}

Json of_dictionary(const Column& c, std::int64_t row, Values& values, const Location& location) {
  const unsigned width = c.field->index_bits;
  const std::uint64_t bits = parquet::bits_at(c.data, static_cast<std::uint64_t>(row) * width, width);
  const std::int64_t index = c.field->index_signed ? extended(bits, width) : static_cast<std::int64_t>(bits);
  if (index < 0 || index >= c.dictionary->length)
    location.fail(fmt::format("has the index {} into a dictionary of {}; the file is damaged", index,
                              c.dictionary->length));
  return read_value(*c.dictionary, index, values, location);
}

}  // namespace

Batch::Batch(const Field& root, const Table& about, std::string_view body, const Dictionaries& dictionaries,
             const Location& location) {
  Builder builder(about, body, dictionaries, location, unpacked_);
  root_ = {.field = &root, .length = Builder::checked_length(about.number(0, std::int64_t{0}), location)};
  root_.children.reserve(root.children.size());
  for (const Field& field : root.children) {
    root_.children.push_back(builder.column(field, location));
    if (root_.children.back().length < root_.length)
      location.fail(fmt::format("has {} rows of '{}' in a batch of {}; the file is damaged",
                                root_.children.back().length, field.name, root_.length));
  }
}

std::size_t Batch::unpacked_bytes() const {
  std::size_t bytes = 0;
  for (const std::string& buffer : unpacked_) bytes += buffer.size();
  return bytes;
}

Json read_value(const Column& c, std::int64_t row, Values& values, const Location& location) {
  if (row >= c.length) location.fail("has fewer values than are asked for; the file is damaged");
  if (is_null(c, row)) return {};
  if (c.dictionary != nullptr) return of_dictionary(c, row, values, location);
  const auto size_of = [&](const Column& child) { return child.length; };
  switch (c.field->kind) {
    case Kind::fixed: {
      std::string reversed;
      return parquet::json_of(fixed_value(c, row, reversed), c.field->element, location);
    }
    case Kind::strings: {
      const Range r = range_of(c, row, static_cast<std::int64_t>(c.data.size()), location);
      const auto bytes =
          c.data.substr(static_cast<std::size_t>(r.begin), static_cast<std::size_t>(r.end - r.begin));
      return parquet::json_of({.bytes = bytes}, c.field->element, location);
    }
    case Kind::list:
      return list_of(c.children[0], range_of(c, row, size_of(c.children[0]), location), values, location);
    case Kind::fixed_list:
      return list_of(c.children[0], {row * c.field->size, (row + 1) * c.field->size}, values, location);
    case Kind::map:
      return map_of(c.children[0], range_of(c, row, size_of(c.children[0]), location), values, location);
    case Kind::structure:
      return struct_of(c, row, values, location);
    case Kind::null:
      break;
  }
  return {};
}

}  // namespace ingot::data::arrow
