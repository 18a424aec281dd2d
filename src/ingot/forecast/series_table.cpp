#include "ingot/forecast/series_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "ingot/base/suggest.h"
#include "ingot/forecast/date_column.h"

namespace ingot::forecast {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Which columns of the file are what.
struct Layout {
  bool is_long = false;
  std::size_t time = 0, id = 0;
  std::vector<std::size_t> values;  // targets first
  std::size_t targets = 0;
};

std::size_t time_column(const CsvTable& csv, const TableOptions& options, bool is_long) {
  if (!options.time_column.empty()) return csv.column(options.time_column);
  for (const char* name : {"ds", "date", "Date", "timestamp", "time", "datetime"}) {
    if (csv.has_column(name)) return csv.column(name);
  }
  const auto other = std::ranges::find_if(csv.header(), [&](const std::string& name) {
    return !is_long || (name != options.id_column && name != "y");
  });
  INGOT_CHECK(other != csv.header().end(), DataError(csv.name(), 1, "", "has no column of dates"));
  return static_cast<std::size_t>(other - csv.header().begin());
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

Layout find_layout(const CsvTable& csv, const TableOptions& options) {
  Layout layout;
  layout.is_long = options.layout == "long" ||
                   (options.layout == "auto" && csv.has_column(options.id_column) && csv.has_column("y"));
  if (layout.is_long) layout.id = csv.column(options.id_column);
  layout.time = time_column(csv, options, layout.is_long);
  check_names(csv, layout.time);
  const auto is_key = [&](std::size_t c) { return c == layout.time || (layout.is_long && c == layout.id); };
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
  if (layout.is_long && options.targets.empty()) add(csv.column("y"));
  layout.targets = layout.values.size();
  for (const std::string& name : options.columns) add(csv.column(name));
  for (std::size_t c = 0; options.columns.empty() && c < csv.columns(); ++c) {
    if (!is_key(c)) add(c);
  }
  if (layout.targets == 0) layout.targets = layout.values.size();
  INGOT_CHECK(!layout.values.empty(), DataError(csv.name(), 1, "",
                                                "has no column of values beside the dates; is the separator "
                                                "a comma, a semicolon or a tab?"));
  return layout;
}

bool means_missing(std::string_view cell) {
  static const std::vector<std::string_view> words{"",    "nan", "NaN",  "NAN",  "NA",
                                                   "N/A", "na",  "null", "NULL", "None"};
  return std::ranges::find(words, cell) != words.end();
}

double number_at(const CsvTable& csv, std::size_t row, std::size_t column) {
  const std::string_view cell = csv.cell(row, column);
  if (means_missing(cell)) return kMissing;
  double value = 0;
  const bool plus = cell.front() == '+' && !cell.starts_with("+-");
  const char* begin = cell.data() + (plus ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, cell.data() + cell.size(), value);
  const std::string& name = csv.header()[column];
  if (error == std::errc::result_out_of_range) {
    throw DataError(csv.name(), csv.line(row), name, fmt::format("'{}' does not fit a double", cell));
  }
  if (error != std::errc() || end != cell.data() + cell.size()) {
    throw DataError(
        csv.name(), csv.line(row), name,
        fmt::format("'{}' is not a number; write 1234.5, or leave the cell empty if the value is missing",
                    cell));
  }
  INGOT_CHECK(
      std::isfinite(value),
      DataError(csv.name(), csv.line(row), name,
                fmt::format("'{}' is not finite; leave the cell empty if the value is missing", cell)));
  INGOT_CHECK(
      std::abs(value) <= std::numeric_limits<float>::max(),
      DataError(csv.name(), csv.line(row), name,
                fmt::format("'{}' is too large: models calculate with numbers up to 3.4e38; leave the "
                            "cell empty if it is a mistake, or divide the column",
                            cell)));
  return value;
}

// The rows of each series, in the order that the file has them.
std::vector<std::pair<std::string, std::vector<std::size_t>>> rows_by_series(const CsvTable& csv,
                                                                             const Layout& layout) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> groups;
  if (!layout.is_long) {
    groups.emplace_back("", std::vector<std::size_t>(csv.rows()));
    std::iota(groups[0].second.begin(), groups[0].second.end(), std::size_t{0});
    return groups;
  }
  std::map<std::string, std::size_t, std::less<>> index;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string_view id = csv.cell(row, layout.id);
    INGOT_CHECK(!id.empty(), DataError(csv.name(), csv.line(row), csv.header()[layout.id],
                                       "is empty; every row names its series"));
    const auto [at, is_new] = index.try_emplace(std::string(id), groups.size());
    if (is_new) groups.emplace_back(id, std::vector<std::size_t>());
    groups[at->second].second.push_back(row);
  }
  return groups;
}

// What read_series works on.
struct Reader {
  const CsvTable& csv;
  const TableOptions& options;
  Layout layout;
  SeriesTable table;
  std::vector<Moment> times;

  std::string of_series(const std::string& id) const {
    return id.empty() ? "" : fmt::format(" in series '{}'", id);
  }
  [[noreturn]] void fail_at(std::size_t row, std::string_view problem) const {
    throw DataError(csv.name(), csv.line(row), csv.header()[layout.time], problem);
  }
  std::string written(std::size_t row) const { return std::string(csv.cell(row, layout.time)); }

  void check_ascending(const std::string& id, std::vector<std::size_t>& rows) const {
    if (options.sort) std::ranges::stable_sort(rows, {}, [&](std::size_t r) { return times[r]; });
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const std::size_t row = rows[i], before = rows[i - 1];
      if (times[row] == times[before]) {
        fail_at(row, fmt::format("'{}' is there already, on line {}{}; one row per date is needed",
                                 written(row), csv.line(before), of_series(id)));
      }
      if (times[row] < times[before]) {
        fail_at(row, fmt::format("'{}' comes after '{}' of line {}{}; sort the rows by date, or pass --sort",
                                 written(row), written(before), csv.line(before), of_series(id)));
      }
    }
  }

  Frequency frequency_of(const std::string& id, const std::vector<std::size_t>& rows) const {
    if (!options.frequency.empty()) return parse_frequency(options.frequency);
    std::vector<Moment> moments;
    moments.reserve(rows.size());
    for (const std::size_t row : rows) moments.push_back(times[row]);
    std::size_t odd = 0;
    const auto frequency = infer_frequency(moments, table.date_style.number, &odd);
    if (frequency) return *frequency;
    if (odd > 0) {
      fail_at(rows[odd], fmt::format("'{}' is at an irregular distance from '{}' of line {}{}; rows must be "
                                     "evenly spaced (rows may be missing), or give --frequency",
                                     written(rows[odd]), written(rows[odd - 1]), csv.line(rows[odd - 1]),
                                     of_series(id)));
    }
    throw DataError(csv.name(), csv.line(rows[0]), "",
                    fmt::format("there is one row only{}; a forecast needs a history", of_series(id)));
  }

  Series place_rows(const std::string& id, const std::vector<std::size_t>& rows);
  void fill(Series& series, std::size_t column, const std::vector<std::size_t>& rows,
            const std::vector<std::int64_t>& slots);
};

std::vector<double> filled_values(std::vector<double> v, FillMethod method) {
  const auto present = [&](std::size_t i) { return !std::isnan(v[i]); };
  std::size_t first = 0;
  while (!present(first)) ++first;
  double sum = 0, count = 0;
  std::size_t last = first;
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (present(i)) {
      last = i;
      sum += v[i];
      ++count;
      continue;
    }
    if (method == FillMethod::mean || method == FillMethod::zero) {
      v[i] = method == FillMethod::zero ? 0 : count > 0 ? sum / count : v[first];
      continue;
    }
    std::size_t next = i;
    while (next < v.size() && !present(next)) ++next;
    for (std::size_t j = i; j < next; ++j) {
      if (i < first)
        v[j] = v[first];
      else if (method == FillMethod::forward || next == v.size())
        v[j] = v[last];
      else
        v[j] =
            v[last] + (v[next] - v[last]) * static_cast<double>(j - last) / static_cast<double>(next - last);
    }
    last = next - 1;
    i = next - 1;
  }
  return v;
}

// Puts the rows of one series on an even grid; skipped dates become rows of missing values.
Series Reader::place_rows(const std::string& id, const std::vector<std::size_t>& rows) {
  Series series;
  series.id = id;
  std::vector<std::int64_t> slots;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto distance = table.frequency.distance(times[rows[0]], times[rows[i]]);
    if (!distance || (i > 0 && *distance == slots.back())) {
      fail_at(rows[i],
              fmt::format("'{}' does not lie on the grid of frequency {} that starts at '{}'{}",
                          written(rows[i]), table.frequency.name(), written(rows[0]), of_series(id)));
    }
    slots.push_back(*distance);
  }
  const auto length = static_cast<std::size_t>(slots.back()) + 1;
  INGOT_CHECK(length <= 64 * rows.size() + 1024,
              DataError(csv.name(), csv.line(rows.back()), csv.header()[layout.time],
                        fmt::format("{} of {} rows are missing at frequency {}{}; give another --frequency",
                                    length - rows.size(), length, table.frequency.name(), of_series(id))));
  if (length > rows.size()) {
    std::size_t gap = 1;
    while (slots[gap] == slots[gap - 1] + 1) ++gap;
    const std::string where = fmt::format("line {}", csv.line(rows[gap]));
    if (options.fill == FillMethod::refuse) {
      fail_at(rows[gap],
              fmt::format("rows are missing between '{}' and '{}'{}; choose how to fill them with --fill",
                          written(rows[gap - 1]), written(rows[gap]), of_series(id)));
    }
    if (table.filled.first.empty()) table.filled.first = where;
    table.filled.missing_rows += static_cast<std::int64_t>(length - rows.size());
    table.filled.notes.push_back(fmt::format("{} rows are missing{}, the first before {} ('{}')",
                                             length - rows.size(), of_series(id), where, written(rows[gap])));
  }
  for (std::size_t i = 0; i < length; ++i) {
    series.times.push_back(table.frequency.advance(times[rows[0]], static_cast<std::int64_t>(i)));
  }
  series.columns.resize(layout.values.size());
  for (std::size_t c = 0; c < layout.values.size(); ++c) fill(series, c, rows, slots);
  return series;
}

void Reader::fill(Series& series, std::size_t column, const std::vector<std::size_t>& rows,
                  const std::vector<std::int64_t>& slots) {
  const std::size_t in_file = layout.values[column];
  const std::string& name = csv.header()[in_file];
  std::vector<double> values(series.length(), kMissing);
  std::int64_t missing = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double value = number_at(csv, rows[i], in_file);
    values[static_cast<std::size_t>(slots[i])] = value;
    if (std::isnan(value) && missing++ == 0) first = rows[i];
  }
  INGOT_CHECK(missing < static_cast<std::int64_t>(rows.size()),
              DataError(csv.name(), csv.line(rows[0]), name,
                        fmt::format("every value is missing{}; {}", of_series(series.id),
                                    how_to_leave_out(series, column < layout.targets))));
  if (missing > 0) {
    const std::string where = fmt::format("line {}, column '{}'", csv.line(first), name);
    INGOT_CHECK(options.fill != FillMethod::refuse,
                DataError(csv.name(), csv.line(first), name,
                          "the value is missing; choose how to fill it with --fill"));
    if (table.filled.first.empty()) table.filled.first = where;
    table.filled.missing_values += missing;
    table.filled.notes.push_back(fmt::format("{} values of column '{}' are missing{}, the first on line {}",
                                             missing, name, of_series(series.id), csv.line(first)));
  }
  series.columns[column] = filled_values(std::move(values), options.fill);
}

}  // namespace

std::string_view how_to_leave_out(const Series& series, bool is_target) {
  if (series.id.empty()) return "leave the column out with --columns";
  if (is_target) return "remove the rows of this series";
  return "remove the rows of this series, or leave the column out with --columns";
}

FillMethod parse_fill_method(std::string_view text, std::string_view key) {
  static const std::vector<std::string> names{"interpolate", "forward", "mean", "zero", "refuse"};
  const auto found = std::ranges::find(names, text);
  INGOT_CHECK(
      found != names.end(),
      InvalidConfig(std::string(key), fmt::format("'{}' is no way to fill; expected one of {}{}", text,
                                                  fmt::join(names, ", "), did_you_mean(text, names))));
  return static_cast<FillMethod>(found - names.begin());
}

SeriesTable read_series(const CsvTable& csv, const TableOptions& options) {
  Reader reader{
      .csv = csv, .options = options, .layout = find_layout(csv, options), .table = {}, .times = {}};
  INGOT_CHECK(csv.rows() > 0, DataError(csv.name(), 0, "", "has a header but no rows"));
  SeriesTable& table = reader.table;
  table.source = csv.name();
  table.time_name = csv.header()[reader.layout.time];
  table.targets = reader.layout.targets;
  table.long_layout = reader.layout.is_long;
  for (const std::size_t c : reader.layout.values) table.column_names.push_back(csv.header()[c]);
  DateColumn dates = read_dates(csv, reader.layout.time);
  reader.times = std::move(dates.times);
  table.date_style = dates.style;
  auto groups = rows_by_series(csv, reader.layout);
  bool first = true;
  for (auto& [id, rows] : groups) {
    reader.check_ascending(id, rows);
    const Frequency frequency = reader.frequency_of(id, rows);
    if (first) table.frequency = frequency;
    INGOT_CHECK(
        frequency == table.frequency,
        DataError(csv.name(), csv.line(rows[0]), csv.header()[reader.layout.time],
                  fmt::format(
                      "series '{}' has frequency {}, series '{}' has {}; give --frequency, or split the file",
                      id, frequency.name(), groups[0].first, table.frequency.name())));
    first = false;
  }
  table.date_style.widen(table.frequency);
  for (const auto& [id, rows] : groups) table.series.push_back(reader.place_rows(id, rows));
  return std::move(reader.table);
}

SeriesTable read_series(const std::string& path, const TableOptions& options) {
  return read_series(CsvTable::load(path), options);
}

}  // namespace ingot::forecast
