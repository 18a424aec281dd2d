#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

/// Reads a protobuf message field by field (protobuf.dev, "Encoding"). Every length is checked; what does not
/// fit is a FormatError with the file and the byte.
class ProtobufReader {
 public:
  /// `offset` is where `bytes` begins in the file.
  ProtobufReader(std::string_view bytes, const std::string& source, std::int64_t offset = 0)
      : bytes_(bytes), source_(source), offset_(offset) {}

  /// Moves to the next field; false at the end. Every field must be taken by one of the calls below or
  /// skip().
  bool next();
  std::uint32_t field() const { return field_; }

  std::string_view bytes();
  ProtobufReader message();
  std::uint64_t varint();
  float float32();
  std::uint32_t fixed32();
  void skip();

  [[noreturn]] void fail(std::string_view problem) const;

 private:
  enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };
  void expect(Wire wire, std::string_view what) const;
  std::uint64_t read_varint();
  std::string_view take(std::uint64_t size);

  std::string_view bytes_;
  const std::string& source_;
  std::int64_t offset_;
  std::size_t at_ = 0;
  std::uint32_t field_ = 0;
  Wire wire_ = Wire::varint;
};

}  // namespace ingot
