#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "ingot/data/parquet/location.h"

// The metadata of Arrow is written as FlatBuffers: https://flatbuffers.dev/internals
namespace ingot::data::arrow {

using parquet::Location;

/// A table of a FlatBuffer. Fields are numbered as the schema has them; every offset is checked against the
/// buffer. FormatError of `location`, which outlives the table, where one leads out of it.
class Table {
 public:
  /// The root of a buffer.
  static Table root(std::string_view buffer, const Location& location);

  std::size_t buffer_size() const { return buffer_.size(); }
  bool has(int field) const { return at(field) != 0; }
  template <class T>
  T number(int field, T otherwise) const {
    const std::size_t place = at(field);
    return place == 0 ? otherwise : read<T>(place);
  }
  std::string_view text(int field) const;
  Table table(int field) const;
  /// Of a list of tables, or of structs of `size` bytes: how many there are, and where each is.
  std::size_t count(int field, std::size_t size = 4) const;
  Table item(int field, std::size_t index) const;
  std::string_view bytes(int field, std::size_t index, std::size_t size) const;

 private:
  Table(std::string_view buffer, std::size_t position, const Location& location);
  [[noreturn]] void fail() const;
  std::string_view range(std::size_t from, std::size_t size) const;
  template <class T>
  T read(std::size_t from) const {
    T value;
    std::memcpy(&value, range(from, sizeof(T)).data(), sizeof(T));
    return value;
  }
  // Where a field is; 0: it is absent.
  std::size_t at(int field) const;
  // What the offset at a position leads to.
  std::size_t follow(std::size_t from) const { return from + read<std::uint32_t>(from); }

  std::string_view buffer_;
  std::size_t position_;
  const Location* location_;
};

}  // namespace ingot::data::arrow
