#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot::data::parquet {

/// Where in a Parquet file something is read, for messages.
struct Location {
  std::string path;
  std::string column = {};   ///< its path in the schema, as "messages.list.element.role"; empty: the footer
  std::int64_t page = 0;     ///< of the column in its row group, from 1; 0: none
  std::int64_t offset = -1;  ///< in the file; -1: not known

  /// Throws FormatError that names file, column and page.
  [[noreturn]] void fail(std::string_view problem) const;
};

inline constexpr std::string_view kShortPage = "ends before its values do; the file is damaged";

}  // namespace ingot::data::parquet
