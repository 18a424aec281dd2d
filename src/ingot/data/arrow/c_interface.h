#pragma once

#include <cstdint>

// Arrow's C data and stream interfaces, by which libraries of one process hand each other columns:
// https://arrow.apache.org/docs/format/CDataInterface.html. The layout is theirs; the owner calls `release`,
// which then is null.
namespace ingot::data::arrow {

struct CSchema {
  const char* format;  ///< the type: "l" is int64, "tsu:UTC" microseconds of UTC
  const char* name;    ///< may be null
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  CSchema** children;
  CSchema* dictionary;  ///< of what indices stand for; null where values stand for themselves
  void (*release)(CSchema*);
  void* private_data;
};

struct CArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;  ///< values before the first one, in all buffers
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;  ///< validity first, a bit for each value; null where none is missing
  CArray** children;
  CArray* dictionary;
  void (*release)(CArray*);
  void* private_data;
};

struct CStream {
  int (*get_schema)(CStream*, CSchema* out);
  int (*get_next)(CStream*, CArray* out);  ///< one without `release` at the end
  const char* (*get_last_error)(CStream*);
  void (*release)(CStream*);
  void* private_data;
};

}  // namespace ingot::data::arrow
