#pragma once

#include <string>
#include <string_view>

#include "ingot/data/csv.h"
#include "ingot/data/records.h"

namespace ingot::data {

/// Gives the rows of a Parquet file, as pyarrow, pandas, polars, DuckDB and `datasets` write it, as records:
/// structs are objects, lists arrays, maps objects. One page of each column is unpacked at a time. `path`
/// stands for the file in messages. FormatError names file, column and page of what is damaged or is not read
/// (encryption, LZO).
void for_each_parquet_row(const std::string& path, std::string_view file, TakeRecord take);

/// The columns of a Parquet file that are not nested, as a table whose numbers, truths and dates keep their
/// types; line 7 is row 7. An index that pandas wrote is left out where it counts rows. Errors as above.
CsvTable read_parquet_table(const std::string& path, std::string_view file);

/// Rows of a Parquet file, as its footer has it. FormatError.
std::int64_t parquet_rows(const std::string& path, std::string_view file);

}  // namespace ingot::data
