#include "ingot/data/parquet/values.h"

#include <array>
#include <bit>
#include <string>

#include <fmt/format.h>

#include "ingot/data/parquet/bits.h"

namespace ingot::data::parquet {
namespace {

std::size_t width_of(const Element& element) {
  switch (*element.physical) {
    case Physical::int32:
    case Physical::float32:
      return 4;
    case Physical::int64:
    case Physical::float64:
      return 8;
    case Physical::int96:
      return 12;
    case Physical::fixed:
      return static_cast<std::size_t>(element.length);
    default:
      return 0;
  }
}

// A value of a fixed width from its bytes.
Value value_of(std::string_view bytes, Physical physical) {
  switch (physical) {
    case Physical::int32:
      return {.integer = static_cast<std::int32_t>(bits_at(bytes, 0, 32))};
    case Physical::int64:
      return {.integer = static_cast<std::int64_t>(bits_at(bytes, 0, 64))};
    case Physical::float32:
      return {.real = static_cast<double>(
                  std::bit_cast<float>(static_cast<std::uint32_t>(bits_at(bytes, 0, 32))))};
    case Physical::float64:
      return {.real = std::bit_cast<double>(bits_at(bytes, 0, 64))};
    default:
      return {.bytes = bytes};
  }
}

class PlainReader : public ValueReader {
 public:
  PlainReader(std::string_view bytes, const Element& element)
      : bytes_(bytes), physical_(*element.physical), width_(width_of(element)) {}

  Value next(const Location& location) override {
    if (physical_ == Physical::boolean) {
      if (bit_ / 8 >= bytes_.size()) location.fail(kShortPage);
      return {.integer = static_cast<std::int64_t>(bits_at(bytes_, bit_++, 1))};
    }
    if (physical_ != Physical::bytes) return value_of(take(width_, location), physical_);
    return {.bytes = take(static_cast<std::size_t>(bits_at(take(4, location), 0, 32)), location)};
  }

 private:
  std::string_view take(std::size_t size, const Location& location) {
    if (size > bytes_.size()) location.fail(kShortPage);
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
  Physical physical_;
  std::size_t width_;
  std::uint64_t bit_ = 0;
};

class DictionaryReader : public ValueReader {
 public:
  DictionaryReader(std::string_view bytes, const std::vector<Value>& dictionary, const Location& location)
      : dictionary_(dictionary) {
    if (bytes.empty()) return;  // of nulls alone
    const auto width = static_cast<std::uint8_t>(bytes.front());
    if (width > 32) location.fail(fmt::format("has indices of {} bits; the file is damaged", width));
    indices_ = RunReader(bytes.substr(1), width);
  }

  Value next(const Location& location) override {
    const std::uint32_t index = indices_.next(location);
    if (index >= dictionary_.size())
      location.fail(fmt::format("has index {} of a dictionary of {} values; the file is damaged", index,
                                dictionary_.size()));
    return dictionary_[index];
  }

 private:
  const std::vector<Value>& dictionary_;
  RunReader indices_;
};

class BooleanRunReader : public ValueReader {
 public:
  BooleanRunReader(std::string_view bytes, const Location& location) {
    if (bytes.size() < 4) location.fail(kShortPage);
    runs_ = RunReader(bytes.substr(4, static_cast<std::size_t>(bits_at(bytes, 0, 32))), 1);
  }
  Value next(const Location& location) override { return {.integer = runs_.next(location) & 1}; }

 private:
  RunReader runs_;
};

class DeltaIntegerReader : public ValueReader {
 public:
  DeltaIntegerReader(std::string_view bytes, Physical physical, const Location& location)
      : values_(bytes, location), narrow_(physical == Physical::int32) {}
  Value next(const Location& location) override {
    const std::int64_t value = values_.next(location);
    return {.integer = narrow_ ? static_cast<std::int32_t>(value) : value};
  }

 private:
  DeltaReader values_;
  bool narrow_;
};

// Lengths, all of them, and then the strings.
class DeltaLengthReader : public ValueReader {
 public:
  DeltaLengthReader(std::string_view bytes, const Location& location) : lengths_(bytes, location) {
    DeltaReader all = lengths_;
    while (all.left() > 0) all.next(location);
    bytes_ = all.rest();
  }

  Value next(const Location& location) override {
    const std::int64_t length = lengths_.next(location);
    if (length < 0 || static_cast<std::size_t>(length) > bytes_.size()) location.fail(kShortPage);
    const std::string_view taken = bytes_.substr(0, static_cast<std::size_t>(length));
    bytes_.remove_prefix(taken.size());
    return {.bytes = taken};
  }

 private:
  DeltaReader lengths_;
  std::string_view bytes_;
};

// How much of the string before begins each one, and then what follows.
class DeltaBytesReader : public ValueReader {
 public:
  DeltaBytesReader(std::string_view bytes, const Location& location)
      : prefixes_(bytes, location), suffixes_(after(prefixes_, location), location) {}

  Value next(const Location& location) override {
    const std::int64_t prefix = prefixes_.next(location);
    if (prefix < 0 || static_cast<std::size_t>(prefix) > last_.size())
      location.fail("has a value that begins with more of the one before than that has; the file is damaged");
    last_.resize(static_cast<std::size_t>(prefix));
    last_ += suffixes_.next(location).bytes;
    return {.bytes = last_};
  }

 private:
  static std::string_view after(DeltaReader reader, const Location& location) {
    while (reader.left() > 0) reader.next(location);
    return reader.rest();
  }

  DeltaReader prefixes_;
  DeltaLengthReader suffixes_;
  std::string last_;
};

// The first bytes of all values, then the second ones, and so on.
class SplitReader : public ValueReader {
 public:
  SplitReader(std::string_view bytes, const Element& element)
      : bytes_(bytes), physical_(*element.physical), value_(width_of(element), '\0') {}

  Value next(const Location& location) override {
    const std::size_t count = bytes_.size() / value_.size();
    if (at_ >= count) location.fail(kShortPage);
    for (std::size_t i = 0; i < value_.size(); ++i) value_[i] = bytes_[i * count + at_];
    ++at_;
    return value_of(value_, physical_);
  }

 private:
  std::string_view bytes_;
  Physical physical_;
  std::string value_;
  std::size_t at_ = 0;
};

constexpr std::array<std::string_view, 10> kEncodings{
    "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
    "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
    "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};

}  // namespace

std::unique_ptr<ValueReader> read_values(std::string_view bytes, Encoding encoding, const Element& element,
                                         const std::vector<Value>* dictionary, const Location& location) {
  const Physical physical = *element.physical;
  const bool integer = physical == Physical::int32 || physical == Physical::int64;
  const bool strings = physical == Physical::bytes || physical == Physical::fixed;
  switch (encoding) {
    case Encoding::plain:
      return std::make_unique<PlainReader>(bytes, element);
    case Encoding::plain_dictionary:
    case Encoding::dictionary:
      if (dictionary == nullptr)
        location.fail("needs a dictionary, and the column has none; the file is damaged");
      return std::make_unique<DictionaryReader>(bytes, *dictionary, location);
    case Encoding::rle:
      if (physical != Physical::boolean) break;
      return std::make_unique<BooleanRunReader>(bytes, location);
    case Encoding::delta_binary:
      if (!integer) break;
      return std::make_unique<DeltaIntegerReader>(bytes, physical, location);
    case Encoding::delta_length:
      if (physical != Physical::bytes) break;
      return std::make_unique<DeltaLengthReader>(bytes, location);
    case Encoding::delta_bytes:
      if (!strings) break;
      return std::make_unique<DeltaBytesReader>(bytes, location);
    case Encoding::byte_stream_split:
      if (width_of(element) == 0) break;
      return std::make_unique<SplitReader>(bytes, element);
    default:
      break;
  }
  location.fail(fmt::format("has values in the encoding {}, which is not one of such values",
                            kEncodings[static_cast<std::size_t>(encoding)]));
}

}  // namespace ingot::data::parquet
