#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ingot/forecast/table/series_table.h"

namespace ingot::forecast {

/// Which columns of a file are what.
struct TableLayout {
  bool is_long = false;
  std::size_t time = 0;
  std::vector<std::size_t> ids;  ///< of a long table: whose words together name a series
  std::vector<std::size_t> parts =
      {};  ///< of dates whose years are in `time`: months and days, quarters, or weeks
  std::optional<std::size_t> clock;  ///< times of day, beside a column of days
  std::vector<std::size_t> values;   ///< targets first
  std::vector<std::size_t> future;   ///< known ahead
  std::vector<std::string> not_read =
      {};  ///< columns that nobody named and that hold no values, and what else
  std::size_t targets = 0;
};

/// The column of dates, or of their years: the one that options.time_column names, else by its name.
std::size_t find_time_column(const CsvTable& csv, const TableOptions& options);

/// Finds them by their names, and by what the options say. DataError where a column that is needed or named
/// is not there, has no name, or is several kinds at once.
///
/// What tells series apart is the column that options.id_column names, or the columns ("store,item"); else,
/// where dates come several times, one with the name of such, or two, that tell all rows of a date apart.
TableLayout find_layout(const CsvTable& csv, const TableOptions& options);

/// How to read a table in which dates come several times: "if columns 'store' and 'item' together tell series
/// apart, pass --set id_column=store,item --target sales (or visits)", with options that do. Empty where
/// dates come once, or nothing else could tell rows apart than what does. `has_target`: one was named
/// already.
std::string advice_on_ids(const CsvTable& csv, const TableLayout& layout, bool has_target);

}  // namespace ingot::forecast
