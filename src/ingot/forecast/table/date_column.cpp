#include "ingot/forecast/table/date_column.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/forecast/table/alike_dates.h"
#include "ingot/forecast/table/civil.h"
#include "ingot/forecast/table/date_names.h"
#include "ingot/forecast/table/date_text.h"
#include "ingot/forecast/table/decimal_year.h"
#include "ingot/forecast/table/excel_date.h"
#include "ingot/forecast/table/short_date.h"

namespace ingot::forecast {
namespace {

// "13", "1300", or what pandas makes of them where a cell is empty: "13.0".
std::optional<std::int64_t> plain_number(std::string_view cell) {
  if (cell.ends_with(".0")) cell.remove_suffix(2);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool whole = error == std::errc() && end == cell.data() + cell.size() && value >= 0;
  return whole && cell.size() <= 4 ? std::optional(value) : std::nullopt;
}

// A column of times of day. Those that are plain numbers are hours, 0 to 24, or where one is larger hours and
// minutes (900, 2400).
class Clocks {
 public:
  Clocks(const CsvTable& csv, std::size_t column) : csv_(csv), column_(column) {
    for (std::size_t row = 0; row < csv.rows() && !minutes_; ++row)
      minutes_ = plain_number(csv.cell(row, column)).value_or(0) > 24;
  }
  std::string operator[](std::size_t row) const {
    const std::string_view cell = csv_.cell(row, column_);
    const std::optional<std::int64_t> number = plain_number(cell);
    if (!number) return std::string(cell);
    return minutes_ ? fmt::format("{:02}:{:02}", *number / 100, *number % 100)
                    : fmt::format("{:02}:00", *number);
  }

 private:
  const CsvTable& csv_;
  std::size_t column_;
  bool minutes_ = false;
};

// "2020-07-01", "2020Q3", "2020-W27", "1 Jul 2020" out of columns of years and of their parts.
std::string joined_date(const CsvTable& csv, const DateSource& source, std::size_t row) {
  std::string_view year = csv.cell(row, source.column);
  if (source.parts.empty()) return std::string(year);
  if (year.ends_with(".0")) year.remove_suffix(2);
  const std::string_view part = csv.cell(row, source.parts[0]);
  const std::string_view day = source.parts.size() > 1 ? csv.cell(row, source.parts[1]) : "";
  const std::optional<std::int64_t> number = plain_number(part), day_number = plain_number(day);
  const std::string& name = csv.header()[source.parts[0]];
  if (!number) {  // Q3, or a month's name
    if (same_word(name, "quarter")) return fmt::format("{}{}", year, part);
    return fmt::format("{}{}{} {}", day, day.empty() ? "" : " ", part, year);
  }
  if (same_word(name, "quarter")) return fmt::format("{}Q{}", year, *number);
  if (same_word(name, "week")) return fmt::format("{}-W{:02}", year, *number);
  if (same_word(name, "doy") || same_word(name, "day_of_year")) return fmt::format("{}-{:03}", year, *number);
  const std::string month = fmt::format("{}-{:02}", year, *number);
  return day_number ? fmt::format("{}-{:02}", month, *day_number) : month;
}

// The rows' dates as they stand there, a time from a column of its own behind each.
class Cells {
 public:
  Cells(const CsvTable& csv, const DateSource& source) : csv_(csv), source_(source) {
    if (!source.clock && source.parts.empty()) {
      simplify();
      return;
    }
    joined_.reserve(csv.rows());
    std::optional<Clocks> clocks;
    if (source.clock) clocks.emplace(csv, *source.clock);
    for (std::size_t row = 0; row < csv.rows(); ++row) {
      const std::string clock = clocks ? (*clocks)[row] : "";
      joined_.push_back(
          fmt::format("{}{}{}", joined_date(csv, source, row), clock.empty() ? "" : " ", clock));
    }
  }
  std::size_t size() const { return csv_.rows(); }
  std::string_view operator[](std::size_t row) const {
    std::string_view cell = joined() ? std::string_view(joined_[row]) : csv_.cell(row, source_.column);
    cell.remove_prefix(std::min(cell.find_first_not_of(" \t"), cell.size()));
    return cell.substr(0, cell.find_last_not_of(" \t") + 1);
  }
  DataError error(std::size_t row, std::string_view problem) const {
    return {csv_.name(), csv_.line(row), csv_.header()[source_.column], problem};
  }
  std::int64_t line(std::size_t row) const { return csv_.line(row); }
  /// Whether the column has intervals, of which these are the starts.
  bool are_starts() const { return starts_; }
  /// Whether dates are written as in most of Europe, where days come first: between semicolons, or with dots.
  bool are_between_semicolons() const { return csv_.separator() == ';'; }
  bool have_dots() const {
    if (size() == 0) return false;
    const std::size_t mark = (*this)[0].find_first_not_of("0123456789");
    return mark > 0 && mark <= 2 && (*this)[0][mark] == '.';
  }
  /// Whether the column's name says that it holds dates.
  bool has_dates_name() const { return names_date(csv_.header()[source_.column]); }

 private:
  bool joined() const { return !joined_.empty(); }
  bool has_extra_hours() const {
    for (std::size_t row = 0; row < size(); ++row) {
      if ((*this)[row].ends_with(kExtraHour)) return true;
    }
    return false;
  }
  // Leaves out what no pattern has, where the first row shows that there is some.
  void simplify() {
    if (size() == 0 || source_.format != "auto") return;
    const std::string first = with_plain_spaces((*this)[0]);
    starts_ = end_of_start(first) != std::string_view::npos;
    if (!starts_ && first == (*this)[0] && !has_extra_hours()) return;
    std::vector<std::string> simple;
    simple.reserve(size());
    for (std::size_t row = 0; row < size(); ++row) {
      simple.push_back(with_plain_spaces((*this)[row]));
      if (starts_) simple.back().resize(std::min(end_of_start(simple.back()), simple.back().size()));
    }
    joined_ = std::move(simple);
  }

  const CsvTable& csv_;
  const DateSource& source_;
  std::vector<std::string> joined_;  // where they are not the column's cells
  bool starts_ = false;
};

using Parse = std::function<std::optional<Moment>(std::string_view, DateStyle*)>;

// One way to read a column. `failed` is the first row that it does not fit.
struct Reading {
  std::vector<Moment> times;
  std::vector<std::int64_t> offsets;
  DateStyle style;
  std::optional<std::size_t> failed;
  std::optional<DateOrder> order;  // where it mattered
};

Reading read_with(const Cells& cells, const Parse& parse) {
  Reading reading;
  reading.times.reserve(cells.size());
  reading.offsets.reserve(cells.size());
  for (std::size_t row = 0; row < cells.size(); ++row) {
    DateStyle style;
    const auto moment = parse(cells[row], &style);
    if (!moment) {
      reading.failed = row;
      return reading;
    }
    if (row == 0) reading.style = style;
    if (style.number != reading.style.number) throw cells.error(row, "dates and plain numbers are mixed");
    if (style.zone.empty() != reading.style.zone.empty()) {
      const bool zoned = !style.zone.empty();
      throw cells.error(
          row, fmt::format("'{}' has {} time zone, '{}' of line {} has {}; write all dates in the same way",
                           cells[row], zoned ? "a" : "no", cells[0], cells.line(0), zoned ? "none" : "one"));
    }
    reading.style.widen(style);
    if (style.offset == 0) reading.style.offset_form = style.offset_form;  // how the table has UTC
    reading.times.push_back(*moment);
    reading.offsets.push_back(style.offset);
  }
  return reading;
}

// A whole number; the nearest one to "1467378000.25" and "1.467378e9".
std::optional<std::int64_t> rounded_number(std::string_view text) {
  std::int64_t value = 0;
  const char* const last = text.data() + text.size();
  if (const auto [end, error] = std::from_chars(text.data(), last, value);
      error == std::errc() && end == last)
    return value;
  double fraction = 0;
  const auto [end, error] = std::from_chars(text.data(), last, fraction);
  if (error != std::errc() || end != last || !(std::abs(fraction) < 1e18)) return std::nullopt;
  return std::llround(fraction);
}

// Numbers of so many units a second that are all moments of 1980 to 2100, whole seconds apart.
Parse epoch_parser(std::int64_t units, bool any_year = false) {
  return [units, any_year](std::string_view text, DateStyle* style) -> std::optional<Moment> {
    const std::optional<std::int64_t> read = rounded_number(text);
    constexpr Moment kFrom = 315532800, kTo = 4102444800;
    if (!read || *read % units != 0) return std::nullopt;
    const std::int64_t value = *read;
    if (!any_year && (value / units < kFrom || value / units > kTo)) return std::nullopt;
    style->epoch = units;
    return value / units;
  };
}

Parse ordered_parser(DateOrder order, int names = 0) {
  return [order, names, dates = AlikeDates()](std::string_view text, DateStyle* style) mutable {
    return dates.parse(text, style, order, names);
  };
}

Parse format_parser(const std::string& format, int names = 0) {
  return [&format, names](std::string_view text, DateStyle* style) {
    style->date = format;
    style->names = names;
    return parse_by_format(text, format, style);
  };
}

constexpr std::array kOrderWords{"year first", "month first", "day first"};
const std::vector<std::string> kChoices{"auto",   "year-first", "month-first", "day-first",
                                        "number", "epoch-s",    "epoch-ms",    "excel"};

bool order_matters(const Cells& cells, int names) {
  for (std::size_t row = 0; row < cells.size(); ++row) {
    bool ordered = false;
    if (guess_date_style(cells[row], DateOrder::month_first, &ordered, names) && ordered) return true;
    if (!ordered && row > 100) return false;  // rows of one column are written alike
  }
  return false;
}

[[noreturn]] void fail(const Cells& cells, std::size_t row, std::string_view expected) {
  throw cells.error(row, fmt::format("'{}' is not a date; expected {}", cells[row], expected));
}

constexpr std::string_view kExpected =
    "one like 2016-07-01 13:00:00, 2016-07-01, 07/01/2016, 1 Jul 2016, 2016-W27, 2016Q3, or a row number; "
    "--date-format tells others (%d/%m/%Y)";

using Usual = std::optional<DateOrder>;

// What all rows can be read with: first the order that is usual, if one is; if that is several orders, days
// first where dots stand between the numbers, else the one that puts more rows at even distances.
Reading read_in_any_order(const Cells& cells, std::string& why, const Usual& usual, int names = 0) {
  if (!order_matters(cells, names)) return read_with(cells, ordered_parser(DateOrder::year_first, names));
  if (usual) {
    Reading reading = read_with(cells, ordered_parser(*usual, names));
    reading.order = usual;
    why = fmt::format(", {} as before", kOrderWords[static_cast<std::size_t>(*usual)]);
    if (!reading.failed) return reading;
    why.clear();
  }
  Reading best;
  std::vector<DateOrder> tied;
  double most = -1;
  std::size_t farthest = 0, ruled_out = cells.size();
  const bool dots = cells.have_dots(), days = dots || cells.are_between_semicolons();
  for (const DateOrder order :
       {days ? DateOrder::day_first : DateOrder::month_first,
        days ? DateOrder::month_first : DateOrder::day_first, DateOrder::year_first}) {
    Reading reading = read_with(cells, ordered_parser(order, names));
    if (reading.failed) {
      farthest = std::max(farthest, *reading.failed);
      if (order != DateOrder::year_first || *reading.failed > 0)
        ruled_out = std::min(ruled_out, *reading.failed);
      continue;
    }
    const double even = evenness(reading.times);
    if (even > most && !(dots && !tied.empty())) {
      best = std::move(reading);
      tied.clear();
      most = even;
    }
    if (even == most || dots) tied.push_back(order);
  }
  if (tied.empty()) {
    best.failed = farthest;
    return best;
  }
  best.order = tied[0];
  why = fmt::format(", {}", kOrderWords[static_cast<std::size_t>(tied[0])]);
  if (tied.size() > 1) {
    why += fmt::format(" (it may as well be {}: --date-format {} reads it so)",
                       kOrderWords[static_cast<std::size_t>(tied[1])],
                       kChoices[static_cast<std::size_t>(tied[1]) + 1]);
  } else if (ruled_out < cells.size()) {
    why += fmt::format(", as '{}' on line {} shows", cells[ruled_out], cells.line(ruled_out));
  } else {
    why += ", which puts the rows at even distances";
  }
  return best;
}

// With the names of other languages, one after another; where several read all rows, those of the one that
// puts more of them at even distances. Nothing where none does.
std::optional<Reading> read_with_other_names(std::string& why,
                                             const std::function<Reading(int, std::string&)>& read) {
  std::optional<Reading> best;
  double most = -1;
  const auto lists = names_of_languages();
  for (std::size_t i = 0; i < lists.size(); ++i) {
    std::string how;
    Reading reading = read(static_cast<int>(i) + 1, how);
    const double even = reading.failed ? -1 : evenness(reading.times);
    if (reading.failed || even <= most) continue;
    most = even;
    best = std::move(reading);
    why = fmt::format("{}, names in {}", how, lists[i].language);
  }
  return best;
}

// Whether rows of one month have one number: decimal years that tell months apart, not days.
bool one_text_a_month(const Cells& cells, const std::vector<Moment>& months) {
  std::map<Moment, double> seen;
  for (std::size_t row = 0; row < cells.size(); ++row) {
    double year = 0;
    std::from_chars(cells[row].data(), cells[row].data() + cells[row].size(), year);
    const auto [at, is_new] = seen.try_emplace(months[row], year);
    if (!is_new && at->second != year) return false;
  }
  return true;
}

Reading read_in_any_way(const Cells& cells, std::string& why, const Usual& usual) {
  Reading english = read_in_any_order(cells, why, usual);
  if (!english.failed) return english;
  Reading weeks = read_with(cells, parse_plain_week);  // where 2016-13 is not a month
  if (!weeks.failed) return weeks;
  Reading years = read_with(cells, parse_decimal_year);
  if (!years.failed && one_text_a_month(cells, years.times)) return years;
  std::optional<Reading> other = read_with_other_names(
      why, [&](int names, std::string& how) { return read_in_any_order(cells, how, usual, names); });
  if (!other) fail(cells, *english.failed, kExpected);
  return std::move(*other);
}

// 201653, among which some are not months.
std::optional<Moment> parse_compact_week(std::string_view text, DateStyle* style) {
  return text.size() == 6 ? parse_plain_week(text, style) : std::nullopt;
}

std::vector<std::string_view> texts_of(const Cells& cells) {
  std::vector<std::string_view> texts;
  texts.reserve(cells.size());
  for (std::size_t row = 0; row < cells.size(); ++row) texts.push_back(cells[row]);
  return texts;
}

// Nothing where a cell is not a serial day of Excel's.
std::optional<Reading> read_excel_days(const Cells& cells, bool told) {
  Reading reading;
  auto moments = parse_excel_days(texts_of(cells), &reading.style, told);
  if (!moments) return std::nullopt;
  reading.times = std::move(*moments);
  reading.offsets.resize(reading.times.size());
  return reading;
}

Reading read_unless_short(const Cells& cells, std::string& why, const Usual& usual) {
  for (const Parse& parse :
       {Parse(parse_split_year), Parse(parse_compact_date), Parse(parse_compact_week), epoch_parser(1),
        epoch_parser(1000), epoch_parser(1'000'000), epoch_parser(1'000'000'000)}) {
    DateStyle unused;
    if (!parse(cells[0], &unused)) continue;
    Reading reading = read_with(cells, parse);
    if (unused.date.ends_with('n') && cells.size() < 3) continue;  // 2011-12 is a month, too
    if (!reading.failed) return reading;
  }
  if (auto days = read_excel_days(cells, false);
      days && are_likely_excel_days(days->times, cells.has_dates_name()))
    return std::move(*days);
  return read_in_any_way(cells, why, usual);
}

Reading read_automatically(const Cells& cells, std::string& why, const Usual& usual) {
  auto days = parse_short_dates(texts_of(cells));
  if (!days || !days->likely) {
    Reading reading = read_unless_short(cells, why, usual);
    if (days) why += " (it may as well be days: --date-format %y%m%d reads it so)";
    return reading;
  }
  why = days->maybe_numbers ? " (it may as well be row numbers: --date-format number reads it so)"
                            : ", which puts the rows at even distances";
  Reading reading{.times = std::move(days->times), .style = {.date = "%y%m%d"}};
  reading.offsets.resize(reading.times.size());
  return reading;
}

Reading read_as_told(const Cells& cells, const std::string& format, std::string& why) {
  Parse parse = format_parser(format);
  if (format == "epoch-s") parse = epoch_parser(1, true);
  if (format == "epoch-ms") parse = epoch_parser(1000, true);
  const auto named = std::ranges::find(kChoices, format);
  const auto index = static_cast<std::size_t>(named - kChoices.begin());
  if (index >= 1 && index <= 3) {
    parse = ordered_parser(static_cast<DateOrder>(index - 1));
    why = fmt::format(", {}", kOrderWords[index - 1]);
  }
  if (format == "excel") {
    if (auto days = read_excel_days(cells, true)) return std::move(*days);
    fail(cells, 0, "serial days of Excel alone, as 44197 or 44197.25, as --date-format excel tells");
  }
  if (format == "number") parse = ordered_parser(DateOrder::year_first);
  Reading reading = read_with(cells, parse);
  if (reading.failed && format.find('%') != std::string::npos) {
    std::optional<Reading> other = read_with_other_names(
        why, [&](int names, std::string&) { return read_with(cells, format_parser(format, names)); });
    if (other) reading = std::move(*other);
  }
  if (reading.failed || (format == "number" && !reading.style.number)) {
    fail(cells, reading.failed.value_or(0), fmt::format("what --date-format {} reads", format));
  }
  return reading;
}

// Midnights of a clock with summer time that are written in UTC, as JavaScript's toISOString does: 23:00Z and
// 22:00Z. They become days, weeks or months of that clock.
bool settle_midnights(DateColumn& dates) {
  std::set<std::int64_t> times;
  for (const Moment m : dates.times) {
    times.insert(time_of_day(m));
    if (times.size() > 2) return false;
  }
  if (times.size() != 2) return false;
  // Zones with summer time from UTC+1 to UTC+3 and from UTC-9 to UTC-3. Between them such clocks are those of
  // people's days: 20:00Z and 21:00Z are the close of New York's exchange.
  const std::int64_t first = *times.begin(), last = *times.rbegin();
  const bool an_hour_apart = last - first == kHour && first % kHour == 0;
  const bool east = first >= 21 * kHour, west = first >= 2 * kHour && last <= 9 * kHour;
  if (!an_hour_apart || !(east || west)) return false;
  const auto midnight = [](Moment m) {
    const std::int64_t time = time_of_day(m);
    return m - time + (time > kDay / 2 ? kDay : 0);
  };
  std::vector<Moment> days;
  days.reserve(dates.times.size());
  for (const Moment m : dates.times) days.push_back(midnight(m));
  if (std::set<Moment>(days.begin(), days.end()).size() !=
      std::set<Moment>(dates.times.begin(), dates.times.end()).size())
    return false;  // two rows of one day
  dates.times = std::move(days);
  dates.style.clock.clear();
  dates.style.zone.clear();
  dates.style.own_clock = true;
  return true;
}

// One offset of all rows is written again. Those of a zone with summer time cannot be: hours are UTC then,
// and days have none.
void settle_offsets(DateColumn& dates, const std::vector<std::int64_t>& offsets, std::string& why) {
  if (dates.style.zone.empty() || dates.style.local) return;
  if (std::ranges::all_of(offsets, [](std::int64_t o) { return o == 0; }) && settle_midnights(dates)) {
    why += ", midnights of a clock with summer time in UTC: each is the day that begins there";
    return;
  }
  const bool one_offset = std::ranges::adjacent_find(offsets, std::ranges::not_equal_to()) == offsets.end();
  if (!one_offset) {
    dates.style.offset = 0;
    dates.style.zone = "%z";
    if (std::ranges::find(offsets, 0) == offsets.end()) dates.style.offset_form = OffsetForm::zulu;
  }
  std::vector<Moment> shown = dates.times;
  for (std::size_t i = 0; i < shown.size(); ++i) shown[i] += offsets[i];
  const bool same_time =
      std::ranges::all_of(shown, [&](Moment m) { return time_of_day(m) == time_of_day(shown.front()); });
  if (shown == dates.times || !same_time) return;
  dates.times = std::move(shown);
  dates.style.own_clock = true;
  if (!one_offset) dates.style.zone.clear();
}

std::string described(const DateColumn& dates, const std::string& why) {
  const DateStyle& style = dates.style;
  if (style.number) return "row numbers" + why;
  const auto [first, last] = std::ranges::minmax(dates.times);
  DateStyle plain{.clock = style.clock.empty() && style.epoch == 0 ? "" : " %H:%M"};
  if (!style.own_clock) plain.offset = style.offset;
  plain.own_clock = style.own_clock;
  std::string as = style.format();
  if (style.epoch == 1) as = "seconds since 1970";
  if (style.epoch > 1)
    as = fmt::format("{} since 1970", style.epoch == 1000        ? "milliseconds"
                                      : style.epoch == 1'000'000 ? "microseconds"
                                                                 : "nanoseconds");
  if (style.rounded) as += ", fractions of a second rounded";
  if (style.excel >= 0) as = "Excel's serial days (--date-format number takes them for row numbers)";
  if (style.decimals != 0) as = "decimal years, of which the month counts";
  const bool fiscal = as.find("FY") != std::string::npos || as.find("fy") != std::string::npos;
  return fmt::format("{} to {}, written as {}{}{}", format_moment(first, plain), format_moment(last, plain),
                     as, fiscal ? " (fiscal years stand for the calendar's)" : "", why);
}

}  // namespace

std::optional<DateOrder> parse_date_order(std::string_view text, std::string_view key) {
  if (text.empty() || text == "auto") return std::nullopt;
  const auto named = std::ranges::find(kChoices, text);
  const auto index = static_cast<std::size_t>(named - kChoices.begin());
  INGOT_CHECK(index >= 1 && index <= 3,
              InvalidConfig(std::string(key),
                            fmt::format("'{}' is not an order of dates; expected auto, {}, {} or {}", text,
                                        kChoices[1], kChoices[2], kChoices[3])));
  return static_cast<DateOrder>(index - 1);
}

std::string_view name(DateOrder order) { return kChoices[static_cast<std::size_t>(order) + 1]; }

void check_date_choice(const std::string& format, const std::string& key) {
  if (std::ranges::find(kChoices, format) != kChoices.end()) return;
  INGOT_CHECK(
      format.find('%') != std::string::npos,
      InvalidConfig(
          key,
          fmt::format("'{}' is not a format; expected a pattern of strptime, as %d/%m/%Y %H:%M, or one of {}",
                      format, fmt::join(kChoices, ", "))));
  check_date_format(format, key);
}

namespace {

// Cells are written with four digits of the year.
void check_year(const CsvTable& csv, std::size_t row, std::size_t column, std::int64_t seconds) {
  using namespace std::chrono;
  constexpr std::int64_t first = sys_seconds(sys_days(year(1000) / 1 / 1)).time_since_epoch().count();
  constexpr std::int64_t end = sys_seconds(sys_days(year(10000) / 1 / 1)).time_since_epoch().count();
  INGOT_CHECK(seconds >= first && seconds < end,
              DataError(csv.name(), csv.line(row), csv.header()[column],
                        fmt::format("lies {} seconds from 1970, not in the years 1000 to 9999", seconds)));
}

// Of a frame whose column has moments already. Their style is that of the first one's text.
std::optional<Reading> read_moments(const CsvTable& csv, const DateSource& source) {
  const data::TypedColumn* values = csv.typed(source.column);
  if (values == nullptr || values->kind != data::TypedColumn::Kind::moment || source.clock ||
      !source.parts.empty() || csv.rows() == 0)
    return std::nullopt;
  Reading reading;
  reading.times.reserve(csv.rows());
  reading.offsets.reserve(csv.rows());
  bool rounded = false;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::size_t at = csv.source_row(row);
    INGOT_CHECK(!values->is_missing(at), DataError(csv.name(), csv.line(row), csv.header()[source.column],
                                                   "has no date; every row needs one"));
    reading.times.push_back(values->seconds(at));
    reading.offsets.push_back(values->offsets.empty() ? 0 : values->offsets[at]);
    check_year(csv, row, source.column, reading.times.back() + reading.offsets.back());
    rounded |= values->has_fraction(at);
  }
  INGOT_CHECK(
      parse_moment(csv.cell(0, source.column), &reading.style),
      DataError(csv.name(), csv.line(0), csv.header()[source.column],
                fmt::format("'{}' is not a date of the years 1000 to 9999", csv.cell(0, source.column))));
  reading.style.rounded = rounded;
  return reading;
}

Reading read_texts(const Cells& cells, const DateSource& source, std::string& why) {
  Reading reading = source.format == "auto" ? read_automatically(cells, why, source.usual_order)
                                            : read_as_told(cells, source.format, why);
  if (cells.are_starts()) why += ", the starts of intervals";
  return reading;
}

}  // namespace

DateColumn read_dates(const CsvTable& csv, const DateSource& source) {
  std::string why;
  std::optional<Reading> moments = read_moments(csv, source);
  Reading reading = moments ? std::move(*moments) : read_texts(Cells(csv, source), source, why);
  DateColumn dates{.times = std::move(reading.times),
                   .style = std::move(reading.style),
                   .order = reading.order,
                   .read_as = {}};
  settle_offsets(dates, reading.offsets, why);
  dates.read_as = described(dates, why);
  return dates;
}

bool holds_clocks(const CsvTable& csv, std::size_t column) {
  bool any = false;
  const Clocks clocks(csv, column);
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string cell = clocks[row];
    if (!cell.empty() && !parse_moment(fmt::format("2000-01-01 {}", cell))) return false;
    any |= !cell.empty();
  }
  return any;
}

}  // namespace ingot::forecast
