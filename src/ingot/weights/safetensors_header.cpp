#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/weights/safetensors.h"

namespace ingot {
namespace {

using Json = nlohmann::json;

struct StoredType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;
};

// Every type of the format (safetensors 0.8). Those without a dtype of ours are listed but not loaded.
constexpr std::array<StoredType, 22> kStoredTypes{{{"F64", 64, DType::f64},
                                                   {"F32", 32, DType::f32},
                                                   {"F16", 16, DType::f16},
                                                   {"BF16", 16, DType::bf16},
                                                   {"F8_E4M3", 8, DType::f8e4m3},
                                                   {"F8_E5M2", 8, DType::f8e5m2},
                                                   {"I64", 64, DType::i64},
                                                   {"I32", 32, DType::i32},
                                                   {"I16", 16, DType::i16},
                                                   {"I8", 8, DType::i8},
                                                   {"U8", 8, DType::u8},
                                                   {"BOOL", 8, DType::boolean},
                                                   {"U16", 16, std::nullopt},
                                                   {"U32", 32, std::nullopt},
                                                   {"U64", 64, std::nullopt},
                                                   {"C64", 64, std::nullopt},
                                                   {"F8_E8M0", 8, std::nullopt},
                                                   {"F8_E4M3FNUZ", 8, std::nullopt},
                                                   {"F8_E5M2FNUZ", 8, std::nullopt},
                                                   {"F6_E2M3", 6, std::nullopt},
                                                   {"F6_E3M2", 6, std::nullopt},
                                                   {"F4", 4, std::nullopt}}};

const StoredType* stored_type(std::string_view name) {
  const auto found = std::ranges::find(kStoredTypes, name, &StoredType::name);
  return found == kStoredTypes.end() ? nullptr : &*found;
}

/// Walks over the header for the JSON reader and tells it apart from the others where it stands.
class Cursor {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor() = default;
  Cursor(const char* at, const char** shared) : at_(at), shared_(shared) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    ++at_;
    if (shared_ != nullptr) *shared_ = at_;
    return *this;
  }
  Cursor operator++(int) {
    Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_ = nullptr;
  const char** shared_ = nullptr;
};

/// Takes the header's JSON event by event. A DOM would drop what it must refuse (a name given twice) and take
/// several times the header's size.
class SafetensorsHeaderReader final : public nlohmann::json_sax<Json> {
 public:
  SafetensorsHeaderReader(const std::string& file, std::string_view text)
      : file_(file), text_(text), at_(text.data()) {}

  SafetensorsHeader read() {
    Json::sax_parse(Cursor(text_.data(), &at_), Cursor(text_.data() + text_.size(), nullptr), this);
    return std::move(header_);
  }

  bool key(string_t& name) override {
    switch (place_) {
      case Place::root:
        check_new(names_, name, name);
        current_ = name;
        break;
      case Place::entry:
        check_new(fields_, name, current_ + "." + name);
        if (name != "dtype" && name != "shape" && name != "data_offsets") {
          fail(current_ + "." + name, "is not a field of a tensor; expected dtype, shape and data_offsets");
        }
        field_ = name;
        break;
      default:
        if (header_.metadata.contains(name)) fail("__metadata__." + name, "is given twice");
        field_ = name;
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::before) {
      place_ = Place::root;
    } else if (place_ == Place::root && current_ == "__metadata__") {
      place_ = Place::metadata;
    } else if (place_ == Place::root) {
      place_ = Place::entry;
      entry_ = {};
      entry_.name = current_;
      entry_.file = file_;
      offsets_.clear();
      fields_.clear();
    } else {
      refuse("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) finish_entry();
    place_ = place_ == Place::root ? Place::after : Place::root;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::entry || field_ == "dtype") refuse("a list");
    place_ = field_ == "shape" ? Place::shape : Place::offsets;
    return true;
  }
  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail(current_ + ".shape", fmt::format("has the size {}, which overflows", value));
      }
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::offsets) {
      offsets_.push_back(value);
    } else {
      refuse("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      header_.metadata.emplace(field_, value);
    } else if (place_ == Place::entry && field_ == "dtype") {
      const StoredType* type = stored_type(value);
      if (type == nullptr) fail(current_ + ".dtype", fmt::format("'{}' is not a dtype of the format", value));
      entry_.stored_as = value;
      entry_.dtype = type->dtype;
    } else {
      refuse("a string");
    }
    return true;
  }

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool number_integer(number_integer_t value) override { refuse(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { refuse(text); }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    // The part after "[json.exception.parse_error.101] " speaks to people.
    const std::string_view what = error.what();
    const std::size_t prose = what.find("] ");
    fail("header", fmt::format("is not valid JSON: {}", prose == what.npos ? what : what.substr(prose + 2)));
  }

 private:
  enum class Place { before, root, metadata, entry, shape, offsets, after };

  [[noreturn]] void fail(std::string field, std::string_view problem) const {
    throw FormatError(file_, 8 + (at_ - text_.data()), std::move(field), problem);
  }

  [[noreturn]] void refuse(std::string_view found) const {
    switch (place_) {
      case Place::before:
        fail("header", fmt::format("is {}; expected an object", found));
      case Place::root:
        fail(current_, fmt::format("is {}; expected an object", found));
      case Place::metadata:
        fail("__metadata__." + field_, fmt::format("is {}; expected a string", found));
      case Place::entry:
        fail(current_ + "." + field_,
             fmt::format("is {}; expected {}", found, field_ == "dtype" ? "a string" : "a list"));
      default:
        fail(current_ + "." + field_, fmt::format("holds {}; expected unsigned integers", found));
    }
  }

  void check_new(std::unordered_set<std::string>& seen, const std::string& name, const std::string& field) {
    if (!seen.insert(name).second) fail(field, "is given twice");
  }

  void finish_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) fail(current_, fmt::format("has no {}", field));
    }
    if (offsets_.size() != 2) {
      fail(current_ + ".data_offsets", fmt::format("has {} numbers; expected 2", offsets_.size()));
    }
    if (offsets_[0] > offsets_[1]) {
      fail(current_ + ".data_offsets",
           fmt::format("ends at {}, before it begins at {}", offsets_[1], offsets_[0]));
    }
    entry_.offset = offsets_[0];
    entry_.bytes = offsets_[1] - offsets_[0];
    check_size();
    header_.tensors.push_back(std::move(entry_));
  }

  void check_size() const {
    // Zero sizes do not excuse an overflow among the others: whoever multiplies in another order meets it.
    std::uint64_t bits = stored_type(entry_.stored_as)->bits;
    bool empty = false;
    for (const std::int64_t size : entry_.shape) {
      if (size == 0) {
        empty = true;
      } else if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits)) {
        fail(current_ + ".shape", fmt::format("{} overflows", to_string(entry_.shape)));
      }
    }
    if (empty) bits = 0;
    if (bits % 8 != 0) {
      fail(current_ + ".shape",
           fmt::format("{} of {} does not fill whole bytes", to_string(entry_.shape), entry_.stored_as));
    }
    if (bits / 8 != entry_.bytes) {
      fail(current_ + ".data_offsets",
           fmt::format("spans {} bytes, but shape {} of {} takes {}", entry_.bytes, to_string(entry_.shape),
                       entry_.stored_as, bits / 8));
    }
  }

  const std::string& file_;
  std::string_view text_;
  const char* at_;
  Place place_ = Place::before;
  std::string current_, field_;
  TensorInfo entry_;
  std::vector<std::uint64_t> offsets_;
  std::unordered_set<std::string> names_, fields_;
  SafetensorsHeader header_;
};

/// Puts the tensors in the order of their data and checks that they cover it: no gap, no overlap, no rest.
void check_coverage(SafetensorsHeader& header, std::uint64_t file_size, const std::string& file) {
  std::ranges::sort(header.tensors, [](const TensorInfo& a, const TensorInfo& b) {
    return std::tuple(a.offset, a.bytes, std::string_view(a.name)) <
           std::tuple(b.offset, b.bytes, std::string_view(b.name));
  });
  const std::uint64_t size = file_size - header.data_begin;
  std::uint64_t end = 0;
  const TensorInfo* previous = nullptr;
  for (TensorInfo& tensor : header.tensors) {
    const auto at = static_cast<std::int64_t>(header.data_begin + std::min(tensor.offset, size));
    const auto fail = [&](const std::string& problem) {
      throw FormatError(file, at, tensor.name + ".data_offsets", problem);
    };
    if (tensor.offset < end) {
      fail(fmt::format("begins at {}, but '{}' reaches to {}: they overlap", tensor.offset, previous->name,
                       end));
    }
    if (tensor.offset > end) {
      fail(fmt::format("begins at {}, and the {} bytes before belong to no tensor", tensor.offset,
                       tensor.offset - end));
    }
    if (tensor.bytes > size - tensor.offset) {
      fail(fmt::format("ends at {}, but the file holds {} bytes of data; it was cut short",
                       tensor.offset + tensor.bytes, size));
    }
    end = tensor.offset + tensor.bytes;
    previous = &tensor;
  }
  INGOT_CHECK(end == size,
              FormatError(file, static_cast<std::int64_t>(header.data_begin + end), "data",
                          fmt::format("{} bytes after the last tensor belong to none", size - end)));
  for (TensorInfo& tensor : header.tensors) tensor.offset += header.data_begin;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> start, std::uint64_t file_size,
                                           const std::string& file) {
  INGOT_CHECK(file_size >= 8 && start.size() >= 8,
              FormatError(file, 0, "header length",
                          fmt::format("the file has {} bytes; a .safetensors file has at least 8; it was cut "
                                      "short, or is something else",
                                      file_size)));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(start[i]) << (8 * i);
  INGOT_CHECK(
      length <= kMaxSafetensorsHeader,
      FormatError(file, 0, "header length",
                  fmt::format("is {}; the format allows at most {}: this is not a .safetensors file, or "
                              "a damaged one",
                              length, kMaxSafetensorsHeader)));
  INGOT_CHECK(length <= file_size - 8,
              FormatError(file, 0, "header length",
                          fmt::format("is {}, but only {} bytes follow; the file was cut short", length,
                                      file_size - 8)));
  INGOT_ASSERT(start.size() >= 8 + length);
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + 8, length);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  INGOT_CHECK(first != text.npos && text[first] == '{',
              FormatError(file, 8, "header", "does not begin with '{': this is not a .safetensors file"));

  // The JSON reader takes a zero byte for the end; what stands behind it would go unread.
  const std::size_t zero = text.find('\0');
  INGOT_CHECK(zero == text.npos, FormatError(file, 8 + static_cast<std::int64_t>(zero), "header",
                                             "is not valid JSON: it holds a zero byte"));

  SafetensorsHeader header = SafetensorsHeaderReader(file, text).read();
  header.data_begin = 8 + length;
  check_coverage(header, file_size, file);
  return header;
}

}  // namespace ingot
