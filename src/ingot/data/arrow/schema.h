#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ingot/data/arrow/flatbuffer.h"
#include "ingot/data/parquet/metadata.h"

// What an Arrow file says of its columns: https://arrow.apache.org/docs/format/Columnar.html
namespace ingot::data::arrow {

struct Field {
  enum class Kind : std::uint8_t {
    null,
    fixed,    ///< numbers, booleans, moments and bytes of one width
    strings,  ///< text and bytes
    list,
    fixed_list,
    structure,
    map,
  };
  std::string name;
  Kind kind = Kind::null;
  parquet::Element element = {};  ///< what a value of `fixed` or `strings` means
  unsigned bits = 0;              ///< of a value of `fixed`
  bool wide = false;              ///< offsets of `strings` and `list` have 64 bits
  std::int64_t size = 0;          ///< of `fixed_list`
  std::vector<Field> children = {};
  std::optional<std::int64_t> dictionary = {};  ///< values are indices into it
  unsigned index_bits = 32;                     ///< of these
  bool index_signed = true;
};

/// The columns of a schema, as the root of a struct. FormatError names a column of a type that is not read.
Field read_schema(const Table& schema, const Location& location);

}  // namespace ingot::data::arrow
