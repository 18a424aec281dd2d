#include "ingot/base/protobuf_reader.h"

#include <cstring>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {

void ProtobufReader::fail(std::string_view problem) const {
  throw FormatError(source_, offset_ + static_cast<std::int64_t>(at_), fmt::format("field {}", field_),
                    problem);
}

std::uint64_t ProtobufReader::read_varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size()) fail("the file ends inside a number");
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number has more than ten bytes");
}

bool ProtobufReader::next() {
  if (at_ == bytes_.size()) return false;
  const std::uint64_t tag = read_varint();
  if ((tag >> 3) == 0 || (tag >> 3) > 0x1FFFFFFF)
    fail("a field has no valid number; this is not a protobuf file");
  field_ = static_cast<std::uint32_t>(tag >> 3);
  const auto wire = static_cast<unsigned>(tag & 7);
  if (wire != 0 && wire != 1 && wire != 2 && wire != 5) fail(fmt::format("unknown wire type {}", wire));
  wire_ = static_cast<Wire>(wire);
  return true;
}

void ProtobufReader::expect(Wire wire, std::string_view what) const {
  if (wire_ != wire) fail(fmt::format("expected {}, found wire type {}", what, static_cast<int>(wire_)));
}

std::string_view ProtobufReader::take(std::uint64_t size) {
  if (size > bytes_.size() - at_)
    fail(fmt::format("{} bytes are announced and {} are left", size, bytes_.size() - at_));
  const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(size));
  at_ += static_cast<std::size_t>(size);
  return taken;
}

std::string_view ProtobufReader::bytes() {
  expect(Wire::length, "bytes");
  return take(read_varint());
}

ProtobufReader ProtobufReader::message() {
  expect(Wire::length, "a message");
  const std::uint64_t size = read_varint();
  const auto begin = offset_ + static_cast<std::int64_t>(at_);
  return {take(size), source_, begin};
}

std::uint64_t ProtobufReader::varint() {
  expect(Wire::varint, "a number");
  return read_varint();
}

float ProtobufReader::float32() {
  expect(Wire::fixed32, "a 32-bit number");
  float value = 0;
  std::memcpy(&value, take(4).data(), 4);
  return value;
}

std::uint32_t ProtobufReader::fixed32() {
  expect(Wire::fixed32, "a 32-bit number");
  std::uint32_t value = 0;
  std::memcpy(&value, take(4).data(), 4);
  return value;
}

void ProtobufReader::skip() {
  switch (wire_) {
    case Wire::varint:
      read_varint();
      break;
    case Wire::fixed64:
      take(8);
      break;
    case Wire::fixed32:
      take(4);
      break;
    case Wire::length:
      take(read_varint());
      break;
  }
}

}  // namespace ingot
