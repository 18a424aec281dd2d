#include "ingot/forecast/table/table_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/shell.h"
#include "ingot/forecast/table/calendar.h"
#include "ingot/forecast/table/date_column.h"
#include "ingot/forecast/table/date_names.h"

namespace ingot::forecast {
namespace {

// Of columns that often tell series apart.
constexpr std::array<std::string_view, 20> kSeriesNames{
    "series", "series_id", "store",   "store_id",   "store_nbr", "shop",   "shop_id",
    "item",   "item_id",   "product", "product_id", "sku",       "id",     "ticker",
    "symbol", "station",   "sensor",  "sensor_id",  "region",    "country"};

// Of columns that hold the time of day.
constexpr std::array<const char*, 12> kClockNames{"time",        "hour",        "clock",       "hr",
                                                  "hour_of_day", "hour_ending", "hour ending", "he",
                                                  "stunde",      "uhrzeit",     "heure",       "hora"};

std::optional<std::size_t> column_called(const CsvTable& csv, std::string_view word) {
  const auto found =
      std::ranges::find_if(csv.header(), [&](const std::string& name) { return same_word(word, name); });
  return found == csv.header().end() ? std::nullopt
                                     : std::optional(static_cast<std::size_t>(found - csv.header().begin()));
}

// Columns that tell more of a date than its year, which stands in one of its own.
std::vector<std::size_t> parts_of_year(const CsvTable& csv) {
  if (!column_called(csv, "year")) return {};
  const auto one_of = [&](std::initializer_list<const char*> words) -> std::optional<std::size_t> {
    for (const char* word : words) {
      if (const auto found = column_called(csv, word)) return found;
    }
    return std::nullopt;
  };
  if (const auto month = one_of({"month", "mo", "mth"})) {
    const auto day = one_of({"day", "dy", "dom", "day_of_month"});
    return day ? std::vector{*month, *day} : std::vector{*month};
  }
  const auto part = one_of({"quarter", "week", "doy", "day_of_year"});
  return part ? std::vector{*part} : std::vector<std::size_t>{};
}

// Whether days follow each other at nearly even distances, some perhaps in several rows (of hours).
bool are_even_days(std::vector<Moment> days) {
  days.erase(std::unique(days.begin(), days.end()), days.end());
  if (days.size() < 3 || months_between(days)) return std::ranges::is_sorted(days);
  std::map<Moment, std::size_t> distances;
  for (std::size_t i = 1; i < days.size(); ++i) ++distances[days[i] - days[i - 1]];
  std::size_t commonest = 0;
  for (const auto& [distance, count] : distances) commonest = std::max(commonest, count);
  return distances.begin()->first > 0 && 5 * commonest >= 4 * (days.size() - 1);
}

bool holds_even_days(const CsvTable& csv, std::size_t column) {
  return std::ranges::any_of(std::array{DateOrder::year_first, DateOrder::month_first, DateOrder::day_first},
                             [&](DateOrder order) {
                               std::vector<Moment> days;
                               days.reserve(csv.rows());
                               for (std::size_t row = 0; row < csv.rows(); ++row) {
                                 DateStyle style;
                                 const auto day = parse_moment(csv.cell(row, column), &style, order);
                                 if (!day || style.number) return false;
                                 days.push_back(*day);
                               }
                               return are_even_days(std::move(days));
                             });
}

// Whether it counts the rows, from 0 or from 1.
bool counts_rows(const CsvTable& csv, std::size_t column) {
  const data::TypedColumn* values = csv.typed(column);
  if (values != nullptr && values->kind != data::TypedColumn::Kind::whole) return false;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::int64_t number = static_cast<std::int64_t>(row);
    if (values != nullptr) {
      const double value = values->number(csv.source_row(row));
      if (value != static_cast<double>(number) && value != static_cast<double>(number + 1)) return false;
      continue;
    }
    const std::string_view cell = csv.cell(row, column);
    if (cell != std::to_string(number) && cell != std::to_string(number + 1)) return false;
  }
  return true;
}

// The column of dates of a table whose first one has the numbers of its rows, as "instant,dteday,...".
std::optional<std::size_t> dates_behind_numbers(const CsvTable& csv, std::ptrdiff_t first) {
  if (csv.rows() < 2 || std::cmp_greater_equal(first, csv.columns())) return std::nullopt;
  if (!counts_rows(csv, static_cast<std::size_t>(first))) return std::nullopt;
  for (std::size_t c = 0; c < csv.columns(); ++c) {
    if (names_date(csv.header()[c]) && holds_even_days(csv, c)) return c;
  }
  return std::nullopt;
}

}  // namespace

std::size_t find_time_column(const CsvTable& csv, const TableOptions& options) {
  const bool is_long = options.layout == "long" || csv.has_column(options.id_column);
  if (!options.time_column.empty()) return csv.column(options.time_column);
  for (const char* name : {"ds", "date", "timestamp", "time", "datetime"}) {
    if (const auto found = column_called(csv, name)) return *found;
  }
  if (!parts_of_year(csv).empty()) return *column_called(csv, "year");
  const auto other = std::ranges::find_if(csv.header(), [&](const std::string& name) {
    return !is_long || (name != options.id_column && name != "y");
  });
  if (const auto dates = dates_behind_numbers(csv, other - csv.header().begin())) return *dates;
  INGOT_CHECK(other != csv.header().end(),
              DataError(csv.name(), csv.header_line(), "", "has no column of dates"));
  return static_cast<std::size_t>(other - csv.header().begin());
}

namespace {

// Plain numbers may be anything, but for hours that differ on one day.
bool tells_hours(const CsvTable& csv, std::size_t time, std::size_t column) {
  if (csv.cell(0, column).find_first_not_of("0123456789.") != std::string_view::npos) return true;
  for (std::size_t row = 1; row < csv.rows(); ++row) {
    if (csv.cell(row, time) == csv.cell(row - 1, time) && csv.cell(row, column) != csv.cell(row - 1, column))
      return true;
  }
  return false;
}

// "Date;Time;..." with 01/02/2020 and 13.30.00.
std::optional<std::size_t> clock_column(const CsvTable& csv, const TableLayout& layout,
                                        const TableOptions& options) {
  const std::size_t time = layout.parts.empty() ? layout.time : layout.parts.back();
  if (csv.rows() == 0 || csv.cell(0, time).find(':') != std::string_view::npos) return std::nullopt;
  for (std::size_t c = 0; c < csv.columns(); ++c) {
    const std::string& name = csv.header()[c];
    const bool may_be = std::ranges::any_of(kClockNames, [&](const char* w) { return same_word(name, w); });
    const bool asked = std::ranges::find(options.columns, name) != options.columns.end() ||
                       std::ranges::find(options.targets, name) != options.targets.end();
    if (c != layout.time && may_be && !asked && holds_clocks(csv, c) && tells_hours(csv, time, c)) return c;
  }
  return std::nullopt;
}

// What pandas puts in front of a table: the numbers of its rows, under no name. Or a name, before dates.
bool is_row_index(const CsvTable& csv, std::size_t column) {
  const std::string& name = csv.header()[column];
  if (column == 0 && dates_behind_numbers(csv, 0)) return true;
  if (column != 0 || !(name.empty() || name == "Unnamed: 0")) return false;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string_view cell = csv.cell(row, column);
    if (cell.empty() || cell.find_first_not_of("0123456789") != std::string_view::npos) return false;
  }
  return true;
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
      DataError(csv.name(), csv.header_line(), "",
                fmt::format("'{}' is a date or a number where the names of the columns should be; put a "
                            "line like 'date,{}' first",
                            word, csv.columns() > 2 ? "a,b" : "a")));
}

// Whether each row's cell is a larger text than the one before, as dates from the year on are in order of
// time.
bool ascends(const CsvTable& csv, std::size_t column) {
  if (const data::TypedColumn* values = csv.typed(column);
      values != nullptr && values->kind != data::TypedColumn::Kind::real) {
    for (std::size_t row = 1; row < csv.rows(); ++row) {
      const std::size_t at = csv.source_row(row), before = csv.source_row(row - 1);
      if (values->is_missing(at) || values->wholes[at] <= values->wholes[before]) return false;
    }
    return true;
  }
  for (std::size_t row = 1; row < csv.rows(); ++row) {
    if (csv.cell(row, column) <= csv.cell(row - 1, column)) return false;
  }
  return true;
}

// Adds what tells a cell from others of its column, but for numbers without making text of it.
void add_to_key(std::string& key, const CsvTable& csv, std::size_t row, std::size_t column) {
  const data::TypedColumn* values = csv.typed(column);
  if (values == nullptr || values->is_missing(csv.source_row(row))) {
    (key += csv.cell(row, column)) += '\0';
    return;
  }
  const std::size_t at = csv.source_row(row);
  const std::int64_t bits = values->kind == data::TypedColumn::Kind::real
                                ? std::bit_cast<std::int64_t>(values->reals[at])
                                : values->wholes[at];
  key.append(reinterpret_cast<const char*>(&bits), sizeof bits);
}

// Whether no two rows have the same cells in these columns.
bool tells_rows_apart(const CsvTable& csv, std::span<const std::size_t> columns) {
  if (ascends(csv, columns[0])) return true;
  std::unordered_set<std::string> seen;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    std::string key;
    for (const std::size_t c : columns) add_to_key(key, csv, row, c);
    if (!seen.insert(std::move(key)).second) return false;
  }
  return true;
}

bool is_of_date(const TableLayout& layout, std::size_t c) {
  return c == layout.time || c == layout.clock || std::ranges::count(layout.parts, c) > 0;
}

std::vector<std::size_t> dates_of(const TableLayout& layout) {
  std::vector<std::size_t> dates{layout.time};
  dates.insert(dates.end(), layout.parts.begin(), layout.parts.end());
  if (layout.clock) dates.push_back(*layout.clock);
  return dates;
}

// Adds `more` columns of `known`, from index `from` on, to `keys`, so that these tell all rows apart. False
// where none do.
bool add_ids_that_tell(const CsvTable& csv, std::span<const std::size_t> known, std::size_t from,
                       std::size_t more, std::vector<std::size_t>& keys) {
  if (more == 0) return tells_rows_apart(csv, keys);
  for (std::size_t i = from; i + more <= known.size(); ++i) {
    keys.push_back(known[i]);
    if (add_ids_that_tell(csv, known, i + 1, more - 1, keys)) return true;
    keys.pop_back();
  }
  return false;
}

// The fewest columns out of `known`, `most` at most, that with the dates tell all rows apart, in the order of
// the table but for a single one; empty where none do.
std::vector<std::size_t> fewest_ids_that_tell(const CsvTable& csv, const std::vector<std::size_t>& dates,
                                              std::vector<std::size_t> known, std::size_t most) {
  for (std::size_t count = 1; count <= std::min(most, known.size()); ++count) {
    if (count == 2) std::ranges::sort(known);
    std::vector<std::size_t> keys = dates;
    if (add_ids_that_tell(csv, known, 0, count, keys))
      return {keys.begin() + static_cast<std::ptrdiff_t>(dates.size()), keys.end()};
  }
  return {};
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
  const std::vector<std::size_t> dates = dates_of(layout);
  if (tells_rows_apart(csv, dates)) return {};
  std::vector<std::size_t> known;
  for (const std::string_view name : kSeriesNames) {
    for (std::size_t c = 0; c < csv.columns(); ++c) {
      if (same_word(csv.header()[c], name)) known.push_back(c);
    }
  }
  return fewest_ids_that_tell(csv, dates, std::move(known), 2);
}

// Whether a column's words may name series: text, or numbers under the name of an id, that come again.
bool may_name_series(const CsvTable& csv, std::size_t column) {
  const std::string& name = csv.header()[column];
  const bool id =
      name == "id" || name.ends_with("_id") ||
      std::ranges::any_of(kSeriesNames, [&](std::string_view word) { return same_word(name, word); });
  if (!id && !holds_words(csv, column)) return false;
  std::unordered_set<std::string_view> words;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    if (csv.cell(row, column).empty()) return false;
    words.insert(csv.cell(row, column));
  }
  return 2 * words.size() <= csv.rows() || csv.rows() < 4;
}

// "column 'store'", "columns 'store' and 'item'".
std::string columns_in_words(const CsvTable& csv, const std::vector<std::size_t>& columns) {
  std::string words = columns.size() == 1 ? "column " : "columns ";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) words += i + 1 == columns.size() ? " and " : ", ";
    words += fmt::format("'{}'", csv.header()[columns[i]]);
  }
  return words;
}

// "--target sales (or visits)"; empty where there is `y`, or only one column that it could be.
std::string target_option(const CsvTable& csv, const std::vector<std::size_t>& ids,
                          const TableLayout& layout) {
  std::vector<std::string> names;
  for (std::size_t c = 0; c < csv.columns(); ++c) {
    const bool key = is_of_date(layout, c) || std::ranges::count(ids, c) > 0;
    constexpr std::size_t kMost = 8;  // of what may be a million
    if (names.size() < kMost && !key && !is_blank(csv, c) && !is_row_index(csv, c) && !holds_words(csv, c))
      names.push_back(csv.header()[c]);
  }
  if (csv.has_column("y") || names.empty()) return "";
  std::string option = "--target " + shell_word(names[0]);
  for (std::size_t i = 1; i < names.size(); ++i)
    option += (i == 1 ? " (or " : ", ") + names[i] + (i + 1 == names.size() ? ")" : "");
  return option;
}

// Of a table of several series: `y`, or the only column of values.
std::size_t only_target(const CsvTable& csv, const TableLayout& layout,
                        const std::function<bool(std::size_t)>& is_value) {
  if (csv.has_column("y")) return csv.column("y");
  std::vector<std::size_t> values;
  for (std::size_t c = 0; c < csv.columns(); ++c) {
    if (is_value(c) && !holds_words(csv, c)) values.push_back(c);
  }
  if (values.size() == 1) return values[0];
  // Rows of one date each may as well be one series.
  const bool may_be_wide = tells_rows_apart(csv, dates_of(layout));
  throw DataError(csv.name(), csv.header_line(), "",
                  fmt::format("has {}, as a table of several series, but no 'y'; say what is to be "
                              "forecast: {}{}",
                              columns_in_words(csv, layout.ids), target_option(csv, layout.ids, layout),
                              may_be_wide ? ", or that it is one series: --set layout=wide" : ""));
}

// Four digits of 1800 to 2199.
bool is_year(std::string_view name) {
  return name.size() == 4 && name.find_first_not_of("0123456789") == std::string_view::npos &&
         name >= "1800" && name < "2200";
}

// Numbers of columns behind one word: V1, V2, V3 ...
bool are_numbered(std::span<const std::string> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t digits = names[i].find_first_of("0123456789");
    if (digits == std::string::npos || names[i].substr(0, digits) != names[0].substr(0, digits)) return false;
    if (i > 0 && names[i].size() < names[i - 1].size()) return false;
    if (i > 0 && names[i].size() == names[i - 1].size() && names[i] <= names[i - 1]) return false;
  }
  return true;
}

// A series in each row, without any dates, as the files of the M competitions have it.
void check_series_are_columns(const CsvTable& csv, std::size_t time) {
  constexpr std::size_t kFew = 5;
  if (csv.columns() < kFew || time != 0 || !holds_words(csv, 0) ||
      !are_numbered(std::span(csv.header()).subspan(1)))
    return;
  for (std::size_t c = 1; c < csv.columns(); ++c) {
    if (holds_words(csv, c)) return;
  }
  throw DataError(csv.name(), csv.header_line(), "",
                  fmt::format("names no dates: each row seems to be a series ('{}'), each column one of its "
                              "steps ('{}', '{}', ...); give a row to each step, as with pandas: "
                              "df = df.melt(id_vars='{}', var_name='ds', value_name='y').dropna(), then "
                              "df['ds'] = df.ds.str.extract(r'(\\d+)').astype(int)",
                              csv.cell(0, 0), csv.header()[1], csv.header()[2], csv.header()[0]));
}

// A date for each column, as statistics of many countries come, is another layout.
void check_dates_are_rows(const CsvTable& csv) {
  std::vector<std::string> dates;
  for (const std::string& name : csv.header()) {
    DateStyle style;
    const bool date = parse_moment(name, &style) || parse_moment(name, &style, DateOrder::month_first) ||
                      parse_moment(name, &style, DateOrder::day_first);
    // Other numbers may be those of shops.
    const bool next_year = is_year(name) && (dates.empty() || (is_year(dates.back()) && name > dates.back()));
    if (date && (!style.number || next_year)) dates.push_back(name);
  }
  constexpr std::size_t kFew = 6;
  if (dates.size() < kFew || dates.size() * 5 < csv.columns() * 3) return;
  throw DataError(
      csv.name(), csv.header_line(), "",
      fmt::format("has a date in each column's name ('{}', '{}', ...); give a row to each date, as "
                  "with pandas: df.melt(id_vars=[...], var_name='ds', value_name='y')",
                  dates[0], dates[1]));
}

}  // namespace

std::string advice_on_ids(const CsvTable& csv, const TableLayout& layout, bool has_target) {
  const std::vector<std::size_t> dates = dates_of(layout);
  if (tells_rows_apart(csv, dates)) return "";
  std::vector<std::size_t> known;
  for (std::size_t c = 0; c < csv.columns(); ++c) {
    if (std::ranges::count(dates, c) == 0 && may_name_series(csv, c)) known.push_back(c);
  }
  constexpr std::size_t kMost = 3;
  std::vector<std::size_t> ids = fewest_ids_that_tell(csv, dates, known, kMost);
  if (ids.empty()) ids = known;  // some row is there twice, which is told next
  if (ids.empty() || ids.size() > kMost || ids == layout.ids) return "";
  std::string names;
  for (const std::size_t c : ids) names += (names.empty() ? "" : ",") + csv.header()[c];
  const std::string target = has_target ? "" : target_option(csv, ids, layout);
  return fmt::format("if {} {} series apart, pass --set {}{}{}", columns_in_words(csv, ids),
                     ids.size() == 1 ? "tells" : "together tell", shell_word("id_column=" + names),
                     target.empty() ? "" : " ", target);
}

TableLayout find_layout(const CsvTable& csv, const TableOptions& options) {
  TableLayout layout;
  layout.time = find_time_column(csv, options);
  const bool dated = csv.rows() == 0 || parse_moment(csv.cell(0, layout.time));
  if (!dated && options.time_column.empty()) {
    check_dates_are_rows(csv);
    check_series_are_columns(csv, layout.time);
  }
  if (same_word(csv.header()[layout.time], "year")) layout.parts = parts_of_year(csv);
  layout.clock = clock_column(csv, layout, options);
  layout.ids = id_columns(csv, options, layout);
  layout.is_long = !layout.ids.empty();
  check_names(csv, layout.time);
  const auto is_key = [&](std::size_t c) {
    return is_of_date(layout, c) || std::ranges::count(layout.ids, c) > 0;
  };
  std::vector<bool> taken(csv.columns());  // as values: there may be a million
  const auto add = [&](std::size_t c) {
    // An index that some program wrote, or a separator at the end of each line.
    INGOT_CHECK(!csv.header()[c].empty(),
                DataError(csv.name(), csv.header_line(), "",
                          fmt::format("column {} has no name; give it one, or choose columns with --columns",
                                      c + 1)));
    INGOT_CHECK(!is_key(c),
                DataError(csv.name(), csv.header_line(), csv.header()[c], "holds dates or ids, not values"));
    if (!taken[c]) layout.values.push_back(c);
    taken[c] = true;
  };
  for (const std::string& name : options.targets) add(csv.column(name));
  for (const std::string& name : options.future) {
    const std::size_t c = csv.column(name);
    const bool free = !is_key(c) && !taken[c];
    INGOT_CHECK(free,
                DataError(csv.name(), csv.header_line(), name,
                          "is to be forecast, or holds dates or ids; it cannot be an input of --future"));
    layout.future.push_back(c);
  }
  const auto is_value = [&](std::size_t c) {
    return !is_key(c) && !is_blank(csv, c) && !is_row_index(csv, c) &&
           std::ranges::count(layout.future, c) == 0;
  };
  if (layout.is_long && options.targets.empty()) add(only_target(csv, layout, is_value));
  layout.targets = layout.values.size();
  for (const std::string& name : options.columns) add(csv.column(name));
  std::vector<std::size_t> text;
  const bool no_inputs = options.targets_only && layout.targets > 0;
  for (std::size_t c = 0; options.columns.empty() && c < csv.columns(); ++c) {
    if (!is_value(c) || taken[c]) continue;
    if (no_inputs) {
      layout.not_read.push_back(csv.header()[c]);
    } else if (holds_words(csv, c)) {
      text.push_back(c);
    } else {
      add(c);
    }
  }
  if (layout.values.empty()) {  // who reads them says what is wrong
    for (const std::size_t c : text) add(c);
  } else {
    for (const std::size_t c : text) layout.not_read.push_back(csv.header()[c] + " (text)");
  }
  if (layout.time != 0 && is_row_index(csv, 0))
    layout.not_read.emplace_back("the first column (row numbers)");
  if (layout.targets == 0) layout.targets = layout.values.size();
  INGOT_CHECK(!layout.values.empty(), DataError(csv.name(), csv.header_line(), "",
                                                "has no column of values beside the dates; is the separator "
                                                "a comma, a semicolon, a tab or a |?"));
  return layout;
}

}  // namespace ingot::forecast
