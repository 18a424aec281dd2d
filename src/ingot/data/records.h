#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ingot/base/parallel.h"

namespace ingot::data {

/// How a file of data is written.
enum class SourceFormat : std::uint8_t {
  automatic,  ///< by the file's name and its first bytes
  text,
  jsonl,    ///< a record a line
  json,     ///< an array of records, an object with one, or a record
  csv,      ///< a table: each row is a record of strings, named by the header
  parquet,  ///< a table whose rows are records; not text, and known by its content alone
  arrow,    ///< the same
};

/// A JSON object (record.h).
struct Record;

/// Where a record stands.
struct RecordLocation {
  std::string path;
  std::string location;      ///< "line 7", "record 3"
  std::int64_t offset = -1;  ///< in bytes of the text; -1: not known

  /// Throws FormatError for this location.
  [[noreturn]] void fail(std::string_view problem) const;
};

/// Whether a JSON object of a file is a record itself, and not one that holds the array of records.
using IsRecord = FunctionRef<bool(const Record&)>;
/// Takes one record; false ends the reading.
using TakeRecord = FunctionRef<bool(const Record&, const RecordLocation&)>;

/// By a file's name alone: csv for .csv and .tsv, jsonl for .jsonl and .ndjson, json for .json, automatic for
/// others; compressed ones too.
SourceFormat format_by_name(std::string_view path);
/// What a file is by its text: an automatic one is json where it is an array of objects, else text. A json
/// file with an object on each line is jsonl.
SourceFormat format_by_text(SourceFormat by_name, std::string_view text);

/// Gives the records of a file's text (of Parquet and Arrow: of its bytes), in order; not of
/// SourceFormat::text. FormatError or DataError names the line or the record that cannot be read.
void for_each_record(const std::string& path, std::string_view text, SourceFormat format, IsRecord is_record,
                     TakeRecord take);

}  // namespace ingot::data
