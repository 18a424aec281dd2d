#include "ingot/data/parquet/thrift.h"

#include <limits>

#include "ingot/base/error.h"

namespace ingot::data::parquet {
namespace {

// Types of fields in the compact protocol.
constexpr int kTrue = 1, kFalse = 2, kByte = 3, kI64 = 6, kDouble = 7, kBinary = 8, kList = 9, kSet = 10,
              kMap = 11, kStruct = 12;
constexpr int kDeepestStruct = 32;

}  // namespace

void Location::fail(std::string_view problem) const {
  std::string where = column.empty() ? "footer" : "column '" + column + "'";
  if (page > 0) where += ", page " + std::to_string(page);
  throw FormatError(path, offset, where, problem);
}

std::uint8_t ThriftReader::byte() {
  if (at_ >= bytes_.size())
    location_.fail("ends in the middle of its description; the file is damaged or cut short");
  return static_cast<std::uint8_t>(bytes_[at_++]);
}

std::uint64_t ThriftReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t part = byte();
    value |= static_cast<std::uint64_t>(part & 0x7FU) << shift;
    if ((part & 0x80U) == 0) return value;
  }
  location_.fail("has a number of more than 64 bits in its description; the file is damaged");
}

std::int64_t ThriftReader::zigzag() {
  const std::uint64_t value = varint();
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

std::string_view ThriftReader::take_bytes(std::uint64_t size) {
  if (size > bytes_.size() - at_)
    location_.fail("has a string in its description that is longer than the file; the file is damaged");
  const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(size));
  at_ += static_cast<std::size_t>(size);
  return taken;
}

void ThriftReader::expect(bool right) {
  if (!right)
    location_.fail("has a value of another type in its description than Parquet's; the file is damaged");
}

// The type of the elements becomes that of what comes next.
std::uint64_t ThriftReader::list_header() {
  const std::uint8_t header = byte();
  std::uint64_t size = header >> 4U;
  if (size == 15) size = varint();
  // An element has at least one byte.
  if (size > bytes_.size() - at_)
    location_.fail("has a list in its description that is longer than the file; the file is damaged");
  type_ = header & 0x0F;
  return size;
}

void ThriftReader::read_struct(FunctionRef<bool(int)> take) {
  expect(type_ == kStruct);
  if (++depth_ > kDeepestStruct) location_.fail("nests too deeply in its description; the file is damaged");
  std::int64_t id = 0;
  while (const std::uint8_t header = byte()) {
    const int delta = header >> 4U;
    id = delta == 0 ? zigzag() : id + delta;
    expect(id >= 0 && id <= std::numeric_limits<std::int16_t>::max());
    type_ = header & 0x0F;
    element_ = false;
    if (!take(static_cast<int>(id))) skip(depth_);
  }
  --depth_;
}

void ThriftReader::read_list(FunctionRef<void()> take) {
  expect(type_ == kList || type_ == kSet);
  const std::uint64_t size = list_header();
  const int type = type_;
  for (std::uint64_t i = 0; i < size; ++i) {
    type_ = type;
    element_ = true;
    take();
  }
}

std::int64_t ThriftReader::integer() {
  expect(type_ >= kByte && type_ <= kI64);
  return type_ == kByte ? static_cast<std::int8_t>(byte()) : zigzag();
}

std::int32_t ThriftReader::small() {
  const std::int64_t value = integer();
  expect(value >= std::numeric_limits<std::int32_t>::min() &&
         value <= std::numeric_limits<std::int32_t>::max());
  return static_cast<std::int32_t>(value);
}

bool ThriftReader::boolean() {
  expect(type_ == kTrue || type_ == kFalse);
  return element_ ? byte() == kTrue : type_ == kTrue;
}

std::string_view ThriftReader::binary() {
  expect(type_ == kBinary);
  return take_bytes(varint());
}

void ThriftReader::skip_struct(int depth) {
  while (const std::uint8_t header = byte()) {
    if (header >> 4U == 0) zigzag();
    type_ = header & 0x0F;
    element_ = false;
    skip(depth);
  }
}

void ThriftReader::skip(int depth) {
  if (depth > kDeepestStruct) location_.fail("nests too deeply in its description; the file is damaged");
  switch (type_) {
    case kTrue:
    case kFalse:
      if (element_) byte();
      return;
    case kByte:
      byte();
      return;
    case kByte + 1:
    case kByte + 2:
    case kI64:
      varint();
      return;
    case kDouble:
      take_bytes(8);
      return;
    case kBinary:
      take_bytes(varint());
      return;
    case kStruct:
      return skip_struct(depth + 1);
    case kList:
    case kSet: {
      const std::uint64_t size = list_header();
      const int type = type_;
      for (std::uint64_t i = 0; i < size; ++i) {
        type_ = type;
        element_ = true;
        skip(depth + 1);
      }
      return;
    }
    case kMap: {
      const std::uint64_t size = varint();
      if (size > bytes_.size() - at_)
        location_.fail("has a map that is longer than the file; the file is damaged");
      if (size == 0) return;
      const std::uint8_t types = byte();
      for (std::uint64_t i = 0; i < 2 * size; ++i) {
        type_ = i % 2 == 0 ? types >> 4U : types & 0x0F;
        element_ = true;
        skip(depth + 1);
      }
      return;
    }
    default:
      expect(false);
  }
}

}  // namespace ingot::data::parquet
