#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ingot {

/// The types of GGUF's metadata values, with the numbers that files hold.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
std::string_view name(GgufType type);

/// One metadata value: a scalar, or an array of one type (which may itself be array).
struct GgufValue {
  /// Unsigned numbers and booleans, signed numbers, floating-point numbers, strings, nested arrays.
  using Items = std::variant<std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>,
                             std::vector<std::string>, std::vector<GgufValue>>;

  GgufType type = GgufType::u32;  ///< of the scalar, or of the array's elements
  bool is_array = false;
  Items items;  ///< a scalar is one item

  static GgufValue of_u16(std::uint16_t value);
  static GgufValue of_i32(std::int32_t value);
  static GgufValue of_u32(std::uint32_t value);
  static GgufValue of_f32(float value);
  static GgufValue of_bool(bool value);
  static GgufValue of_string(std::string value);
  static GgufValue of_strings(std::vector<std::string> values);
  static GgufValue of_i32s(const std::vector<std::int32_t>& values);
  static GgufValue of_f32s(const std::vector<float>& values);

  std::size_t size() const;
  /// For people: numbers and words as they are, of a long array its length ("[32000 × string]").
  std::string to_string() const;
  bool operator==(const GgufValue&) const = default;
};

/// What a GGUF file says besides its tensors, in the file's order. The typed getters answer nothing where the
/// key is absent, and throw FormatError naming file and key where its value has another type.
class GgufMetadata {
 public:
  explicit GgufMetadata(std::string file = "metadata") : file_(std::move(file)) {}

  using Entry = std::pair<std::string, GgufValue>;
  std::span<const Entry> entries() const { return entries_; }
  const GgufValue* find(std::string_view key) const;
  /// For a key that is known to be new.
  void append(std::string key, GgufValue value) { entries_.emplace_back(std::move(key), std::move(value)); }
  /// Replaces the value where the key is there already.
  void set(std::string key, GgufValue value);
  void erase(std::string_view key);

  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  /// Null where the key is absent.
  const std::vector<std::string>* texts(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;

  const std::string& file() const { return file_; }
  bool operator==(const GgufMetadata& other) const { return entries_ == other.entries_; }

 private:
  [[noreturn]] void wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const;
  std::string file_;
  std::vector<Entry> entries_;
};

}  // namespace ingot
