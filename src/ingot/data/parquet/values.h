#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ingot/data/parquet/metadata.h"

namespace ingot::data::parquet {

/// One value of a column: what its physical type says of these.
struct Value {
  std::int64_t integer = 0;     ///< boolean, int32, int64
  double real = 0;              ///< float32, float64
  std::string_view bytes = {};  ///< others; until the next value is read
};

/// The values of a page, one by one.
class ValueReader {
 public:
  ValueReader() = default;
  virtual ~ValueReader() = default;
  ValueReader(const ValueReader&) = delete;
  ValueReader& operator=(const ValueReader&) = delete;
  virtual Value next(const Location& location) = 0;
};

/// Reads `bytes`, which has to outlive the reader. FormatError of `location` where the encoding is not one of
/// such values. `dictionary`: that of the column; null: it has none.
std::unique_ptr<ValueReader> read_values(std::string_view bytes, Encoding encoding, const Element& element,
                                         const std::vector<Value>* dictionary, const Location& location);

}  // namespace ingot::data::parquet
