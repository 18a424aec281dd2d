#include "ingot/forecast/table/table_layout.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

#include "ingot/forecast/table/date_column.h"
#include "ingot/forecast/table/date_names.h"

namespace ingot::forecast {
namespace {

std::size_t time_column(const CsvTable& csv, const TableOptions& options, bool is_long) {
  if (!options.time_column.empty()) return csv.column(options.time_column);
  for (const char* name : {"ds", "date", "timestamp", "time", "datetime"}) {
    const auto found =
        std::ranges::find_if(csv.header(), [&](const std::string& word) { return same_word(word, name); });
    if (found != csv.header().end()) return static_cast<std::size_t>(found - csv.header().begin());
  }
  const auto other = std::ranges::find_if(csv.header(), [&](const std::string& name) {
    return !is_long || (name != options.id_column && name != "y");
  });
  INGOT_CHECK(other != csv.header().end(), DataError(csv.name(), 1, "", "has no column of dates"));
  return static_cast<std::size_t>(other - csv.header().begin());
}

// "Date;Time;..." with 01/02/2020 and 13.30.00.
std::optional<std::size_t> clock_column(const CsvTable& csv, std::size_t time, const TableOptions& options) {
  if (csv.rows() == 0 || csv.cell(0, time).find(':') != std::string_view::npos) return std::nullopt;
  for (std::size_t c = 0; c < csv.columns(); ++c) {
    const std::string& name = csv.header()[c];
    const bool may_be = same_word(name, "time") || same_word(name, "hour") || same_word(name, "clock") ||
                        same_word(name, "uhrzeit");
    const bool asked = std::ranges::find(options.columns, name) != options.columns.end() ||
                       std::ranges::find(options.targets, name) != options.targets.end();
    if (c != time && may_be && !asked && holds_clocks(csv, c)) return c;
  }
  return std::nullopt;
}

// What separators at the end of each line make.
bool is_blank(const CsvTable& csv, std::size_t column) {
  if (!csv.header()[column].empty()) return false;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    if (!csv.cell(row, column).empty()) return false;
  }
  return true;
}

// A first line of data would be taken for names, and its row be lost.
void check_names(const CsvTable& csv, std::size_t time) {
  const std::string& word = csv.header()[time];
  INGOT_CHECK(
      !parse_moment(word),
      DataError(csv.name(), 1, "",
                fmt::format("'{}' is a date or a number where the names of the columns should be; put a "
                            "line like 'date,{}' first",
                            word, csv.columns() > 2 ? "a,b" : "a")));
}

// Whether no two rows have the same cells in these columns.
bool tells_rows_apart(const CsvTable& csv, std::span<const std::size_t> columns) {
  std::unordered_set<std::string> seen;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    std::string key;
    for (const std::size_t c : columns) (key += csv.cell(row, c)) += '\0';
    if (!seen.insert(std::move(key)).second) return false;
  }
  return true;
}

// The columns that the options name: one, or several with commas between them. Empty where none is there.
std::vector<std::size_t> named_ids(const CsvTable& csv, const TableOptions& options) {
  const std::string& names = options.id_column;
  if (csv.has_column(names) || names.find(',') == std::string::npos) {
    if (options.layout != "long" && !csv.has_column(names)) return {};
    return {csv.column(names)};
  }
  std::vector<std::size_t> ids;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::size_t first = std::min(names.find_first_not_of(' ', begin), end);
    ids.push_back(csv.column(names.substr(first, names.find_last_not_of(' ', end - 1) + 1 - first)));
    begin = end + 1;
  }
  return ids;
}

// What tells several series apart: as find_layout has it. Empty: the table is one series.
std::vector<std::size_t> id_columns(const CsvTable& csv, const TableOptions& options,
                                    const TableLayout& layout) {
  if (options.layout == "wide") return {};
  if (std::vector<std::size_t> named = named_ids(csv, options); !named.empty()) return named;
  constexpr std::array<std::string_view, 20> kNames{
      "series", "series_id", "store",   "store_id",   "store_nbr", "shop",   "shop_id",
      "item",   "item_id",   "product", "product_id", "sku",       "id",     "ticker",
      "symbol", "station",   "sensor",  "sensor_id",  "region",    "country"};
  std::vector<std::size_t> dates{layout.time};
  if (layout.clock) dates.push_back(*layout.clock);
  if (tells_rows_apart(csv, dates)) return {};
  std::vector<std::size_t> known;
  for (const std::string_view name : kNames) {
    for (std::size_t c = 0; c < csv.columns(); ++c) {
      if (same_word(csv.header()[c], name)) known.push_back(c);
    }
  }
  const auto tell = [&](std::initializer_list<std::size_t> ids) {
    std::vector<std::size_t> keys = dates;
    keys.insert(keys.end(), ids);
    return tells_rows_apart(csv, keys);
  };
  for (const std::size_t id : known) {
    if (tell({id})) return {id};
  }
  std::ranges::sort(known);
  for (std::size_t i = 0; i < known.size(); ++i) {
    for (std::size_t k = i + 1; k < known.size(); ++k) {
      if (tell({known[i], known[k]})) return {known[i], known[k]};
    }
  }
  return {};
}

// Of a table of several series: `y`, or the only column of values.
std::size_t only_target(const CsvTable& csv, const TableLayout& layout,
                        const std::function<bool(std::size_t)>& is_value) {
  if (csv.has_column("y")) return csv.column("y");
  std::vector<std::size_t> values;
  for (std::size_t c = 0; c < csv.columns(); ++c) {
    if (is_value(c)) values.push_back(c);
  }
  INGOT_CHECK(
      values.size() == 1,
      DataError(csv.name(), 1, "",
                fmt::format("has a column '{}', as a table of several series, but no 'y'; say what is to be "
                            "forecast with --target, or pass --set layout=wide",
                            csv.header()[layout.ids[0]])));
  return values[0];
}

}  // namespace

TableLayout find_layout(const CsvTable& csv, const TableOptions& options) {
  TableLayout layout;
  layout.time = time_column(csv, options, options.layout == "long" || csv.has_column(options.id_column));
  layout.clock = clock_column(csv, layout.time, options);
  layout.ids = id_columns(csv, options, layout);
  layout.is_long = !layout.ids.empty();
  check_names(csv, layout.time);
  const auto is_key = [&](std::size_t c) {
    return c == layout.time || c == layout.clock || std::ranges::count(layout.ids, c) > 0;
  };
  const auto add = [&](std::size_t c) {
    // An index that some program wrote, or a separator at the end of each line.
    INGOT_CHECK(!csv.header()[c].empty(),
                DataError(csv.name(), 1, "",
                          fmt::format("column {} has no name; give it one, or choose columns with --columns",
                                      c + 1)));
    INGOT_CHECK(!is_key(c), DataError(csv.name(), 1, csv.header()[c], "holds dates or ids, not values"));
    if (std::ranges::find(layout.values, c) == layout.values.end()) layout.values.push_back(c);
  };
  for (const std::string& name : options.targets) add(csv.column(name));
  for (const std::string& name : options.future) {
    const std::size_t c = csv.column(name);
    const bool free = !is_key(c) && std::ranges::find(layout.values, c) == layout.values.end();
    INGOT_CHECK(free,
                DataError(csv.name(), 1, name,
                          "is to be forecast, or holds dates or ids; it cannot be an input of --future"));
    layout.future.push_back(c);
  }
  const auto is_value = [&](std::size_t c) {
    return !is_key(c) && !is_blank(csv, c) && std::ranges::count(layout.future, c) == 0;
  };
  if (layout.is_long && options.targets.empty()) add(only_target(csv, layout, is_value));
  layout.targets = layout.values.size();
  for (const std::string& name : options.columns) add(csv.column(name));
  for (std::size_t c = 0; options.columns.empty() && c < csv.columns(); ++c) {
    if (is_value(c)) add(c);
  }
  if (layout.targets == 0) layout.targets = layout.values.size();
  INGOT_CHECK(!layout.values.empty(), DataError(csv.name(), 1, "",
                                                "has no column of values beside the dates; is the separator "
                                                "a comma, a semicolon or a tab?"));
  return layout;
}

}  // namespace ingot::forecast
