#pragma once

#include <cstdint>
#include <string_view>

#include "ingot/base/parallel.h"
#include "ingot/data/parquet/location.h"

namespace ingot::data::parquet {

/// Reads structs of Thrift's compact protocol, in which Parquet writes its footer and its pages' headers. The
/// bytes are not trusted: what ends early, nests too deeply or has another type than asked for is a
/// FormatError of `location`.
class ThriftReader {
 public:
  ThriftReader(std::string_view bytes, const Location& location) : bytes_(bytes), location_(location) {}

  /// Calls `take` with the id of each field of the struct that begins here. It reads the value with one of
  /// the functions below, or returns false to have it skipped.
  void read_struct(FunctionRef<bool(int)> take);
  /// Calls `take` for each element of a list, which it reads. The list's size is at most the bytes left.
  void read_list(FunctionRef<void()> take);
  std::int64_t integer();  ///< of 8 to 64 bits
  std::int32_t small();    ///< of at most 32 bits
  bool boolean();
  std::string_view binary();

  /// Bytes read so far.
  std::size_t position() const { return at_; }

 private:
  std::uint8_t byte();
  std::uint64_t varint();
  std::int64_t zigzag();
  std::uint64_t list_header();
  std::string_view take_bytes(std::uint64_t size);
  void expect(bool right);
  void skip(int depth);
  void skip_struct(int depth);

  std::string_view bytes_;
  const Location& location_;
  std::size_t at_ = 0;
  int type_ = 12;  // of what comes next: a struct first
  int depth_ = 0;
  bool element_ = false;  // in lists a boolean has a byte of its own
};

}  // namespace ingot::data::parquet
