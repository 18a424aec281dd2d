#include "ingot/data/records.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/data/arrow.h"
#include "ingot/data/csv.h"
#include "ingot/data/parquet.h"
#include "ingot/data/record.h"
#include "ingot/data/text_file.h"

namespace ingot::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSpace = " \t\r\n";

bool is_blank(std::string_view line) { return line.find_first_not_of(kSpace) == line.npos; }

// An array of objects, whatever the file is called.
bool begins_json_array(std::string_view text) {
  const std::size_t bracket = text.find_first_not_of(kSpace);
  if (bracket == text.npos || text[bracket] != '[') return false;
  const std::size_t brace = text.find_first_not_of(kSpace, bracket + 1);
  return brace != text.npos && text[brace] == '{';
}

// Whether the first line is an object, and others follow.
bool is_lines(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == text.npos || is_blank(text.substr(end))) return false;
  return parse_json_or_discard<Json>(text.substr(0, end)).is_object();
}

void read_lines(const std::string& path, std::string_view text, TakeRecord take) {
  const char* const start = text.data();
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!is_blank(line)) {
      const RecordLocation location{path, fmt::format("line {}", number), line.data() - start};
      if (!take(parse_json<Json>(line, path, location.location, location.offset), location)) return;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// An array of records; an object whose only array holds them ({"data": [...]}); a record.
void read_json(const std::string& path, std::string_view text, IsRecord is_record, TakeRecord take) {
  const auto json = parse_json<Json>(text, path, "");
  const Json* records = &json;
  if (json.is_object() && !is_record(json)) {
    const auto holds_records = [](const Json& value) {
      return value.is_array() && !value.empty() && value[0].is_object();
    };
    const auto found = std::ranges::find_if(json, holds_records);
    if (found != json.end() && std::ranges::count_if(json, holds_records) == 1) records = &*found;
  }
  if (!records->is_array()) {
    take(*records, {path, "record 1", 0});
    return;
  }
  std::int64_t number = 0;
  for (const Json& record : *records)
    if (!take(record, {path, fmt::format("record {}", ++number), 0})) return;
}

void read_table(const std::string& path, std::string_view text, TakeRecord take) {
  const CsvTable table = CsvTable::parse(std::string(text), path);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Json record = Json::object();
    for (std::size_t column = 0; column < table.columns(); ++column)
      record[table.header()[column]] = std::string(table.cell(row, column));
    if (!take(record, {path, fmt::format("line {}", table.line(row))})) return;
  }
}

}  // namespace

void RecordLocation::fail(std::string_view problem) const {
  throw FormatError(path, offset, location, problem);
}

SourceFormat format_by_name(std::string_view path) {
  const std::string_view name = without_packed_ending(path);
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  if (ends(".jsonl") || ends(".ndjson")) return SourceFormat::jsonl;
  if (ends(".csv") || ends(".tsv")) return SourceFormat::csv;
  return ends(".json") ? SourceFormat::json : SourceFormat::automatic;
}

SourceFormat format_by_text(SourceFormat by_name, std::string_view text) {
  if (by_name == SourceFormat::automatic)
    return begins_json_array(text) ? SourceFormat::json : SourceFormat::text;
  return by_name == SourceFormat::json && is_lines(text) ? SourceFormat::jsonl : by_name;
}

void for_each_record(const std::string& path, std::string_view text, SourceFormat format, IsRecord is_record,
                     TakeRecord take) {
  const auto take_object = [&](const Record& record, const RecordLocation& location) {
    if (!record.json.is_object()) location.fail("is not a JSON object");
    return take(record, location);
  };
  if (format == SourceFormat::csv) return read_table(path, text, take_object);
  if (format == SourceFormat::parquet) return for_each_parquet_row(path, text, take_object);
  if (format == SourceFormat::arrow) return for_each_arrow_row(path, text, take_object);
  if (format == SourceFormat::jsonl) return read_lines(path, text, take_object);
  INGOT_ASSERT(format == SourceFormat::json);
  read_json(path, text, is_record, take_object);
}

}  // namespace ingot::data
