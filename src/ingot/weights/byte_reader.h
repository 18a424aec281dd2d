#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace ingot {

/// Reads little-endian fields of a file one after another and checks every one against the end: what does not
/// fit is a FormatError with the file, the offset and the field's name.
class ByteReader {
 public:
  /// `file` must outlive the reader.
  ByteReader(std::span<const std::byte> bytes, const std::string& file, std::size_t at = 0)
      : bytes_(bytes), file_(file), at_(at) {}

  std::size_t at() const { return at_; }
  std::size_t remaining() const { return bytes_.size() - at_; }
  /// To an offset from the start of the bytes; FormatError beyond their end.
  void seek(std::uint64_t offset, std::string_view field);

  /// An integer or floating-point number.
  template <class T>
  requires std::is_arithmetic_v<T> T read(std::string_view field) {
    T value{};
    const std::span<const std::byte> from = take(sizeof value, field);
    std::memcpy(&value, from.data(), sizeof value);  // this machine is little-endian, as the formats are
    return value;
  }
  std::span<const std::byte> take(std::uint64_t size, std::string_view field);
  std::string_view text(std::uint64_t size, std::string_view field);
  /// An unsigned number of 1 to 8 bytes.
  std::uint64_t read_uint(std::size_t size, std::string_view field);

  /// Checks a count against the bytes that its items need at least: what follows may be allocated.
  void require_items(std::uint64_t count, std::size_t bytes_each, std::string_view field) const;

  /// FormatError at `at` (default: here).
  [[noreturn]] void fail(std::string_view field, std::string_view problem) const;
  [[noreturn]] void fail_at(std::size_t at, std::string_view field, std::string_view problem) const;
  const std::string& file() const { return file_; }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::size_t at_;
};

}  // namespace ingot
