#include "ingot/forecast/table/series_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/plural.h"
#include "ingot/base/suggest.h"
#include "ingot/data/csv_write.h"
#include "ingot/forecast/table/date_column.h"
#include "ingot/forecast/table/date_names.h"
#include "ingot/forecast/table/future_columns.h"
#include "ingot/forecast/table/label_rows.h"
#include "ingot/forecast/table/summer_time.h"
#include "ingot/forecast/table/table_layout.h"

namespace ingot::forecast {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// The rows of one series, and their indices on its even grid.
struct Group {
  std::string id;
  std::vector<std::size_t> rows;
  std::vector<std::int64_t> slots;
  std::vector<std::size_t> ahead = {};  // rows behind them that give inputs ahead
};

// A row's cells in some columns, as a line of CSV has them.
std::string joined(const std::vector<std::string_view>& words) {
  if (words.size() == 1) return std::string(words[0]);
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ',';
    text += data::csv_cell(word);
  }
  return text;
}

std::string id_of(const CsvTable& csv, const TableLayout& layout, std::size_t row) {
  std::vector<std::string_view> words;
  for (const std::size_t column : layout.ids) {
    words.push_back(csv.cell(row, column));
    INGOT_CHECK(!words.back().empty(), DataError(csv.name(), csv.line(row), csv.header()[column],
                                                 "is empty; every row names its series"));
  }
  return joined(words);
}

std::string id_name_of(const CsvTable& csv, const TableLayout& layout) {
  std::vector<std::string_view> words;
  for (const std::size_t column : layout.ids) words.push_back(csv.header()[column]);
  return joined(words);
}

// In the order that the file has them.
std::vector<Group> rows_by_series(const CsvTable& csv, const TableLayout& layout) {
  std::vector<Group> groups;
  if (!layout.is_long) {
    groups.push_back({"", std::vector<std::size_t>(csv.rows()), {}});
    std::iota(groups[0].rows.begin(), groups[0].rows.end(), std::size_t{0});
    return groups;
  }
  std::map<std::string, std::size_t, std::less<>> index;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string id = id_of(csv, layout, row);
    const auto [at, is_new] = index.try_emplace(id, groups.size());
    if (is_new) groups.push_back({id, {}, {}});
    groups[at->second].rows.push_back(row);
  }
  return groups;
}

// What read_series works on.
struct Reader {
  const CsvTable& csv;
  const TableOptions& options;
  TableLayout layout;
  SeriesTable table;
  std::vector<Moment> times;
  std::vector<NumberStyle> numbers = {};  // of layout.values, then of layout.future
  bool clocks_went_back = false;

  std::string of_series(const std::string& id) const {
    return id.empty() ? "" : fmt::format(" in series '{}'", id);
  }
  [[noreturn]] void fail_at(std::size_t row, std::string_view problem) const {
    throw DataError(csv.name(), csv.line(row), csv.header()[layout.time], problem);
  }
  std::string written(std::size_t row) const { return std::string(csv.cell(row, layout.time)); }

  // Dates that come twice or start again are most often of several series, which another column tells apart.
  std::string advice(std::string_view otherwise) const {
    const std::string ids = advice_on_ids(csv, layout, !options.targets.empty());
    if (!ids.empty()) return "; " + ids;
    return otherwise.empty() ? "" : fmt::format("; {}", otherwise);
  }

  void check_ascending(const std::string& id, std::vector<std::size_t>& rows) const {
    if (options.sort) std::ranges::stable_sort(rows, {}, [&](std::size_t r) { return times[r]; });
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const std::size_t row = rows[i], before = rows[i - 1];
      if (times[row] == times[before]) {
        fail_at(row, fmt::format("'{}' is there already, on line {}{}; one row per date is needed{}",
                                 written(row), csv.line(before), of_series(id), advice("")));
      }
      if (times[row] < times[before]) {
        fail_at(row, fmt::format("'{}' comes after '{}' of line {}{}{}", written(row), written(before),
                                 csv.line(before), of_series(id),
                                 advice("sort the rows by date, or pass --sort")));
      }
    }
  }

  std::vector<Moment> times_of(const Group& group) const {
    std::vector<Moment> moments;
    moments.reserve(group.rows.size());
    for (const std::size_t row : group.rows) moments.push_back(times[row]);
    return moments;
  }

  Frequency frequency_of(const Group& group) const {
    const auto& id = group.id;
    const auto& rows = group.rows;
    if (!options.frequency.empty()) return parse_frequency(options.frequency);
    std::size_t odd = 0;
    const std::vector<Moment> moments = times_of(group);
    const auto frequency = infer_frequency(moments, table.date_style.number, &odd);
    if (frequency) return *frequency;
    if (odd > 0) {
      const auto months = table.date_style.number ? std::nullopt : months_between(moments);
      fail_at(rows[odd], fmt::format("'{}' is at an irregular distance from '{}' of line {}{}; rows must be "
                                     "evenly spaced (rows may be missing), or give --frequency{}",
                                     written(rows[odd]), written(rows[odd - 1]), csv.line(rows[odd - 1]),
                                     of_series(id), months ? fmt::format(" {}", months->name()) : ""));
    }
    throw DataError(csv.name(), csv.line(rows[0]), "",
                    fmt::format("there is one row only{}; a forecast needs a history", of_series(id)));
  }

  void even_out(Group& group);
  void leave_out_single_rows(std::vector<Group>& groups);
  void leave_out_empty(std::vector<Group>& groups);
  void leave_out_empty_columns();
  void find_frequency(std::vector<Group>& groups);
  bool has_target(std::size_t row) const;
  void leave_out_end(Group& group);
  std::vector<std::int64_t> slots_of(const std::string& id, const std::vector<std::size_t>& rows) const;
  void check_filled_rows(const std::vector<Group>& groups) const;
  Series place_rows(const Group& group);
  void tell_missing_rows(const Group& group);
  void fill(Series& series, std::size_t column, const Group& group);
  void add_future(Series& series, const Group& group);
};

// Empty where none is.
std::vector<bool> missing_among(const std::vector<double>& values) {
  std::vector<bool> missing;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) continue;
    missing.resize(values.size());
    missing[i] = true;
  }
  return missing;
}

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

// Hours of clocks that go back, where no zone tells the two apart.
void Reader::even_out(Group& group) {
  const DateStyle& style = table.date_style;
  if (style.number || (!style.zone.empty() && !style.local)) return;
  std::vector<Moment> moments = times_of(group);
  const auto twice = even_out_summer_time(moments);
  if (!twice) return;
  const std::size_t row = group.rows[*twice];
  if (!std::exchange(clocks_went_back, true)) {
    table.read_as +=
        fmt::format("; '{}' comes twice, again on line {}, as summer time ends", written(row), csv.line(row));
  }
  for (std::size_t i = 0; i < moments.size(); ++i) times[group.rows[i]] = moments[i];
}

// Those that show no frequency, where others do.
void Reader::leave_out_single_rows(std::vector<Group>& groups) {
  const auto is_single = [](const Group& group) { return group.rows.size() < 2; };
  if (std::ranges::all_of(groups, is_single)) return;
  for (const Group& group : groups) {
    if (is_single(group)) table.left_out.push_back({group.id, "has one row only"});
  }
  std::erase_if(groups, is_single);
}

// Those without a value of one of the columns, where others have some.
void Reader::leave_out_empty(std::vector<Group>& groups) {
  const auto empty_column = [&](const Group& group) {
    return std::ranges::find_if(layout.values, [&](std::size_t c) {
      return std::ranges::all_of(group.rows, [&](std::size_t row) { return means_missing(csv, row, c); });
    });
  };
  const auto is_empty = [&](const Group& group) { return empty_column(group) != layout.values.end(); };
  if (groups.size() < 2 || std::ranges::all_of(groups, is_empty)) return;
  for (const Group& group : groups) {
    if (is_empty(group))
      table.left_out.push_back(
          {group.id, fmt::format("has no value of '{}'", csv.header()[*empty_column(group)])});
  }
  std::erase_if(groups, is_empty);
}

// Those of a wide table that nobody named, where another one to forecast has values.
void Reader::leave_out_empty_columns() {
  if (layout.is_long || !options.targets.empty() || !options.columns.empty()) return;
  const auto is_empty = [&](std::size_t column) {
    for (std::size_t row = 0; row < csv.rows(); ++row) {
      if (!means_missing(csv, row, column)) return false;
    }
    return true;
  };
  std::vector<std::size_t> kept;
  for (const std::size_t column : layout.values) {
    if (!is_empty(column)) kept.push_back(column);
  }
  if (kept.empty() || kept.size() == layout.values.size()) return;
  for (const std::size_t column : layout.values) {
    if (std::ranges::find(kept, column) == kept.end())
      table.left_out.push_back({csv.header()[column], "has no value"});
  }
  layout.values = std::move(kept);
  layout.targets = table.targets = layout.values.size();
}

// That of all series, whose rows are put in order on the way: that of the longest. Two or three rows show
// none of their own.
void Reader::find_frequency(std::vector<Group>& groups) {
  for (Group& group : groups) check_ascending(group.id, group.rows);
  const auto rows = [](const Group& group) { return group.rows.size(); };
  const std::string longest = std::ranges::max_element(groups, {}, rows)->id;
  table.frequency = frequency_of(*std::ranges::max_element(groups, {}, rows));
  std::erase_if(groups, [&](const Group& group) {
    if (group.id == longest) return false;
    const bool few = group.rows.size() <= 3;
    const auto own =
        few ? infer_frequency(times_of(group), table.date_style.number, nullptr) : frequency_of(group);
    if (own == table.frequency || !options.frequency.empty()) return false;
    // Days without a sale, say, are missing in one series and not in another.
    const bool some_days = own && own->unit == table.frequency.unit &&
                           table.frequency == parse_frequency("D") && own->step % table.frequency.step == 0 &&
                           own->step < 7 * table.frequency.step;
    if (some_days) return false;
    INGOT_CHECK(
        few,
        DataError(csv.name(), csv.line(group.rows[0]), csv.header()[layout.time],
                  fmt::format(
                      "series '{}' has frequency {}, series '{}' has {}; give --frequency, or split the file",
                      group.id, own->name(), longest, table.frequency.name())));
    table.left_out.push_back({group.id, fmt::format("has {} rows, which are not one {} apart",
                                                    group.rows.size(), table.frequency.in_words())});
    return true;
  });
  // Weekends that no series has are not missing.
  const bool daily = table.frequency == parse_frequency("D") && options.frequency.empty();
  if (daily && skip_weekends(times)) table.frequency = parse_frequency("B");
}

bool Reader::has_target(std::size_t row) const {
  return std::any_of(layout.values.begin(),
                     layout.values.begin() + static_cast<std::ptrdiff_t>(layout.targets),
                     [&](std::size_t column) { return !means_missing(csv, row, column); });
}

// Rows that give inputs ahead of the targets, or a day that is not over yet. Filled, they would be taken for
// history.
void Reader::leave_out_end(Group& group) {
  const bool future = !layout.future.empty();
  if (!future && (options.fill == FillMethod::zero || options.fill == FillMethod::refuse)) return;
  std::vector<std::size_t>& rows = group.rows;
  std::size_t kept = rows.size();
  while (kept > 0 && !has_target(rows[kept - 1])) --kept;
  if (kept == 0 || kept == rows.size()) return;  // fill() says where every value is missing
  if (future) {
    group.ahead.assign(rows.begin() + static_cast<std::ptrdiff_t>(kept), rows.end());
    rows.resize(kept);
    return;
  }
  table.filled.rows_left_out += static_cast<std::int64_t>(rows.size() - kept);
  table.filled.notes.push_back(fmt::format(
      "{} left out at the end{}, from line {} on, without a value of {}",
      counted_are(static_cast<std::int64_t>(rows.size() - kept), "row"), of_series(group.id),
      csv.line(rows[kept]),
      layout.targets == 1 ? fmt::format("'{}'", csv.header()[layout.values[0]]) : "what is to be forecast"));
  rows.resize(kept);
}

// The index of each row on the series' even grid.
std::vector<std::int64_t> Reader::slots_of(const std::string& id,
                                           const std::vector<std::size_t>& rows) const {
  const std::size_t first = rows[0];
  std::vector<std::int64_t> slots;
  slots.reserve(rows.size());
  for (const std::size_t row : rows) {
    if (!table.frequency.distance(times[row], times[row])) {
      fail_at(row, fmt::format("'{}' is on a weekend, which frequency {} leaves out{}; give --frequency D",
                               written(row), table.frequency.name(), of_series(id)));
    }
    const auto distance = table.frequency.distance(times[first], times[row]);
    if (!distance || (!slots.empty() && *distance <= slots.back())) {
      fail_at(row, fmt::format("'{}' does not lie on the grid of frequency {} that starts at '{}'{}",
                               written(row), table.frequency.name(), written(first), of_series(id)));
    }
    slots.push_back(*distance);
  }
  return slots;
}

// A frequency that does not fit the rows would make most of the table up. Only with --fill zero, which says
// what the rows that are not there mean, may they be more than those that are.
void Reader::check_filled_rows(const std::vector<Group>& groups) const {
  const bool zeros = options.fill == FillMethod::zero;
  const auto rows = static_cast<double>(csv.rows());
  double length = 0;  // series of row numbers can be longer together than 64 bits count
  for (const Group& group : groups) length += static_cast<double>(group.slots.back() + 1);
  INGOT_CHECK(
      length - rows <= (zeros ? 64 : 1) * rows,
      DataError(
          csv.name(), 0, csv.header()[layout.time],
          fmt::format("{:.0f} of {:.0f} rows are missing at frequency {}, more than {}the {:.0f} that are "
                      "there; give another --frequency{}",
                      length - rows, length, table.frequency.name(), zeros ? "64 times " : "", rows,
                      zeros ? ""
                            : ", --fill zero if a missing row stands for 0, or number the rows instead of "
                              "dating them if gaps do not matter")));
}

void Reader::tell_missing_rows(const Group& group) {
  const auto& id = group.id;
  const auto& rows = group.rows;
  const auto& slots = group.slots;
  const std::int64_t missing = slots.back() + 1 - static_cast<std::int64_t>(rows.size());
  if (missing == 0) return;
  std::size_t gap = 1;
  while (slots[gap] == slots[gap - 1] + 1) ++gap;
  if (options.fill == FillMethod::refuse) {
    fail_at(rows[gap],
            fmt::format("rows are missing between '{}' and '{}'{}; choose how to fill them with --fill",
                        written(rows[gap - 1]), written(rows[gap]), of_series(id)));
  }
  const std::string where = fmt::format("line {}", csv.line(rows[gap]));
  if (table.filled.first.empty()) table.filled.first = where;
  table.filled.missing_rows += missing;
  table.filled.notes.push_back(fmt::format("{} missing{}, the first before {} ('{}')",
                                           counted_are(missing, "row"), of_series(id), where,
                                           written(rows[gap])));
}

// Puts the rows of one series on its grid; skipped dates become rows of missing values.
Series Reader::place_rows(const Group& group) {
  Series series;
  series.id = group.id;
  const std::vector<Moment> moments = times_of(group);
  if (table.frequency.unit == Frequency::Unit::months) series.month_day = month_day_of(moments);
  tell_missing_rows(group);
  series.times.reserve(static_cast<std::size_t>(group.slots.back() + 1));
  for (std::int64_t i = 0; i <= group.slots.back(); ++i) {
    series.times.push_back(table.frequency.advance(moments[0], i, series.month_day));
  }
  // The last trading day of a month, where the last business day was a holiday, lies beside the grid.
  for (std::size_t i = 0; i < moments.size(); ++i) {
    series.times[static_cast<std::size_t>(group.slots[i])] = moments[i];
  }
  series.columns.resize(layout.values.size());
  series.made_up.resize(layout.values.size());
  for (std::size_t c = 0; c < layout.values.size(); ++c) fill(series, c, group);
  if (!layout.future.empty()) add_future(series, group);
  return series;
}

void Reader::fill(Series& series, std::size_t column, const Group& group) {
  const std::vector<std::size_t>& rows = group.rows;
  const std::size_t in_file = layout.values[column];
  const std::string& name = csv.header()[in_file];
  std::vector<double> values(series.length(), kMissing);
  std::int64_t missing = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double value = number_at(csv, rows[i], in_file, numbers[column]);
    values[static_cast<std::size_t>(group.slots[i])] = value;
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
    table.filled.notes.push_back(fmt::format("missing: {} of column '{}'{}, the first on line {}",
                                             counted(missing, "value"), name, of_series(series.id),
                                             csv.line(first)));
  }
  if (options.fill != FillMethod::zero) series.made_up[column] = missing_among(values);
  series.columns[column] = filled_values(std::move(values), options.fill);
}

// What is known ahead, over the rows of the series and those behind it.
void Reader::add_future(Series& series, const Group& group) {
  std::vector<std::size_t> rows = group.rows;
  rows.insert(rows.end(), group.ahead.begin(), group.ahead.end());
  const std::vector<std::int64_t> slots = slots_of(group.id, rows);
  for (std::size_t i = 0; i < layout.future.size(); ++i) {
    std::vector<double> values(static_cast<std::size_t>(slots.back() + 1), kMissing);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      values[static_cast<std::size_t>(slots[r])] =
          number_at(csv, rows[r], layout.future[i], numbers[layout.values.size() + i]);
    }
    series.future.push_back(std::move(values));
  }
  cut_unknown(series.future, series.length());
  for (std::size_t i = 0; i < layout.future.size(); ++i) {
    const auto missing = std::ranges::count_if(series.future[i], [](double v) { return std::isnan(v); });
    const std::string& name = csv.header()[layout.future[i]];
    INGOT_CHECK(missing == 0 || options.fill != FillMethod::refuse,
                DataError(csv.name(), csv.line(rows[0]), name,
                          "has missing values; choose how to fill them with --fill"));
    INGOT_CHECK(static_cast<std::size_t>(missing) < series.future[i].size(),
                DataError(csv.name(), csv.line(rows[0]), name,
                          fmt::format("every value is missing{}", of_series(series.id))));
    if (missing == 0) continue;
    table.filled.missing_values += missing;
    table.filled.notes.push_back(
        fmt::format("missing: {} of column '{}'{}", counted(missing, "value"), name, of_series(series.id)));
    series.future[i] = filled_values(std::move(series.future[i]), options.fill);
  }
}

}  // namespace

bool Series::any_measured(std::size_t column, std::size_t first, std::size_t last) const {
  for (std::size_t row = first; row < last; ++row) {
    if (measured(column, row)) return true;
  }
  return false;
}

TableOptions with_layout_of(const SeriesTable& table, TableOptions options) {
  if (table.date_order) options.usual_order = table.date_order;
  if (table.decimal != DecimalMark::automatic) options.usual_decimal = table.decimal;
  if (!table.long_layout || table.id_name == options.id_column) return options;
  options.layout = "long";
  options.id_column = table.id_name;
  return options;
}

std::string_view how_to_leave_out(const Series& series, bool is_target) {
  if (series.id.empty()) return "leave the column out with --columns";
  if (is_target) return "remove the rows of this series";
  return "remove the rows of this series, or leave the column out with --columns";
}

namespace {
const std::vector<std::string> kFillMethods{"interpolate", "forward", "mean", "zero", "refuse"};
}  // namespace

FillMethod parse_fill_method(std::string_view text, std::string_view key) {
  const std::vector<std::string>& names = kFillMethods;
  const auto found = std::ranges::find(names, text);
  INGOT_CHECK(
      found != names.end(),
      InvalidConfig(std::string(key), fmt::format("'{}' is not known; expected one of {}{}", text,
                                                  fmt::join(names, ", "), did_you_mean(text, names))));
  return static_cast<FillMethod>(found - names.begin());
}

std::string_view name(FillMethod method) { return kFillMethods[static_cast<std::size_t>(method)]; }

namespace {

SeriesTable read_rows(const CsvTable& csv, const TableOptions& options, std::vector<std::string> not_read) {
  Reader reader{
      .csv = csv, .options = options, .layout = find_layout(csv, options), .table = {}, .times = {}};
  INGOT_CHECK(csv.rows() > 0, DataError(csv.name(), 0, "", "has a header but no rows"));
  SeriesTable& table = reader.table;
  table.source = csv.name();
  table.time_name = reader.layout.parts.empty() ? csv.header()[reader.layout.time] : "date";
  table.targets = reader.layout.targets;
  table.long_layout = reader.layout.is_long;
  if (table.long_layout) table.id_name = id_name_of(csv, reader.layout);
  table.several_ids = reader.layout.ids.size() > 1;
  reader.leave_out_empty_columns();
  for (const std::size_t c : reader.layout.values) table.column_names.push_back(csv.header()[c]);
  DateColumn dates = read_dates(csv, {.column = reader.layout.time,
                                      .parts = reader.layout.parts,
                                      .clock = reader.layout.clock,
                                      .format = options.date_format,
                                      .usual_order = options.usual_order});
  table.date_order = dates.order;
  reader.times = std::move(dates.times);
  table.date_style = dates.style;
  table.read_as = fmt::format("dates {}", dates.read_as);
  if (table.long_layout) table.read_as += fmt::format("; series by '{}'", table.id_name);
  std::vector<std::size_t> numbers_of = reader.layout.values;
  numbers_of.insert(numbers_of.end(), reader.layout.future.begin(), reader.layout.future.end());
  for (const std::size_t c : reader.layout.future) table.future_names.push_back(csv.header()[c]);
  reader.numbers = number_styles(csv, numbers_of, options.decimal, options.usual_decimal);
  table.decimal = decimal_of(reader.numbers);
  std::vector<Group> groups = rows_by_series(csv, reader.layout);
  for (Group& group : groups) reader.even_out(group);
  reader.leave_out_single_rows(groups);
  reader.leave_out_empty(groups);
  reader.find_frequency(groups);
  not_read.insert(not_read.end(), reader.layout.not_read.begin(), reader.layout.not_read.end());
  if (!not_read.empty()) table.read_as += fmt::format("; not read: {}", fmt::join(not_read, ", "));
  const std::string numbers = describe(csv, numbers_of, reader.numbers);
  if (!numbers.empty()) table.read_as += fmt::format("; numbers: {}", numbers);
  table.date_style.widen(table.frequency);
  for (Group& group : groups) {
    reader.leave_out_end(group);
    group.slots = reader.slots_of(group.id, group.rows);
  }
  reader.check_filled_rows(groups);
  for (const Group& group : groups) table.series.push_back(reader.place_rows(group));
  if (!options.holidays.empty()) add_holidays(table, HolidayTable::load(options.holidays));
  if (!table.future_names.empty())
    table.read_as += fmt::format("; known ahead: {}", fmt::join(table.future_names, ", "));
  return std::move(reader.table);
}

}  // namespace

SeriesTable read_series(const CsvTable& csv, const TableOptions& options) {
  std::vector<std::string> not_read = csv.passed_over();
  const auto rest = without_label_rows(csv, find_time_column(csv, options), not_read);
  return read_rows(rest ? *rest : csv, options, std::move(not_read));
}

SeriesTable read_series(const std::string& path, const TableOptions& options) {
  return read_series(CsvTable::load(path, options.encoding), options);
}

}  // namespace ingot::forecast
