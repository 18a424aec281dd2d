#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

/// The bytes of an integer, the lowest first.
template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

/// A protobuf message under construction (protobuf.dev/programming-guides/encoding), for files of which we
/// write a dozen fields: generated code would cost a build step, a library and its warnings.
class ProtobufMessage {
 public:
  ProtobufMessage& varint(int field, std::uint64_t value) {
    tag(field, 0);
    raw_varint(value);
    return *this;
  }
  ProtobufMessage& fixed64(int field, double value) {
    tag(field, 1);
    bytes_ += little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtobufMessage& bytes(int field, std::string_view value) {
    tag(field, 2);
    raw_varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufMessage& message(int field, const ProtobufMessage& value) { return bytes(field, value.bytes_); }
  ProtobufMessage& fixed32(int field, float value) {
    tag(field, 5);
    bytes_ += little_endian(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  const std::string& encoded() const { return bytes_; }

 private:
  void tag(int field, int wire_type) { raw_varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

}  // namespace ingot
