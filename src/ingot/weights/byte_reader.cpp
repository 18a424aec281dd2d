#include "ingot/weights/byte_reader.h"

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {

void ByteReader::seek(std::uint64_t offset, std::string_view field) {
  if (offset > bytes_.size()) {
    fail(field, fmt::format("leads to byte {}, but the file has {}", offset, bytes_.size()));
  }
  at_ = static_cast<std::size_t>(offset);
}

std::span<const std::byte> ByteReader::take(std::uint64_t size, std::string_view field) {
  if (size > remaining()) {
    fail(field, fmt::format("takes {} bytes, but only {} follow; the file was cut short, or is damaged", size,
                            remaining()));
  }
  const auto from = bytes_.subspan(at_, static_cast<std::size_t>(size));
  at_ += static_cast<std::size_t>(size);
  return from;
}

std::string_view ByteReader::text(std::uint64_t size, std::string_view field) {
  const auto from = take(size, field);
  return {reinterpret_cast<const char*>(from.data()), from.size()};
}

std::uint64_t ByteReader::read_uint(std::size_t size, std::string_view field) {
  std::uint64_t value = 0;
  const auto from = take(size, field);
  for (std::size_t i = 0; i < size; ++i) value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

void ByteReader::require_items(std::uint64_t count, std::size_t bytes_each, std::string_view field) const {
  if (count > remaining() / bytes_each) {
    fail(field, fmt::format("is {}, but only {} bytes follow; the file was cut short, or is damaged", count,
                            remaining()));
  }
}

void ByteReader::fail(std::string_view field, std::string_view problem) const {
  fail_at(at_, field, problem);
}

void ByteReader::fail_at(std::size_t at, std::string_view field, std::string_view problem) const {
  throw FormatError(file_, static_cast<std::int64_t>(at), std::string(field), problem);
}

}  // namespace ingot
