#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ingot/forecast/table/calendar.h"

namespace ingot::forecast {

/// How an offset is written: Z where it is zero, else +02:00; always +02:00; +0200; +02.
enum class OffsetForm : std::uint8_t { zulu, colon, digits, hours };

/// How a column of dates is written, so that a forecast continues it in the same way. Patterns are those of
/// strftime, with its flags '-' (no leading zeros) and '^' (capitals), and besides %q for the quarter, %i for
/// the half-year, %n and %N for the year after in two and four digits (2019/20), %o for what is behind a day
/// (1st, 2nd; 1er) and flags of names: '#' for small letters, '.' for a short name's dot, where it has one.
struct DateStyle {
  bool number = false;            ///< plain integers
  int decimals = 0;               ///< of decimal years: 1958.2027 has 4; 0: dates are others
  int excel = -1;                 ///< decimals of Excel's serial days; -1: dates are others
  bool mid_month = false;         ///< decimal years are of the middle of months
  std::int64_t epoch = 0;         ///< counted since 1970, so many a second: 1, 1000 ...; 0: no such count
  std::string date = "%Y-%m-%d";  ///< "%d/%m/%Y", "%b %Y", "%Y-Q%q", "%G-W%V" ...; all of a given format
  std::string clock = {};         ///< with what is before it: " %H:%M", "T%H:%M:%S", " %I:%M %p"
  std::string zone = {};          ///< "%z" (an offset) or " %Z" (a name); empty: none is written
  OffsetForm offset_form = OffsetForm::zulu;
  std::string zone_name = {};  ///< what %Z stands for
  std::int64_t offset = 0;     ///< the zone's, in seconds east of UTC
  bool local = false;          ///< the zone is a region's (Europe/Berlin): moments count by its clocks
  int names = 0;               ///< of months and days: as find_month's
  bool rounded = false;        ///< fractions of a second were, to the nearest one
  bool own_clock = false;      ///< moments count by the clock of that offset, not by UTC

  std::string format() const { return date + clock + zone; }
  bool has_day() const;
  /// Adds what another row of the column needs: writers leave out the time of midnights.
  void widen(const DateStyle& row);
  /// Adds what tells rows of this distance apart.
  void widen(const Frequency& frequency);
};

std::string format_moment(Moment moment, const DateStyle& style);
std::string format_offset(std::int64_t seconds, OffsetForm form = OffsetForm::zulu);

/// Reads a date that is written by a pattern of strptime; nothing for other text and for days that are not.
/// %z takes "Z", "+02:00" and "+02", %Z a usual abbreviation or a region's name; both change `style`. Names
/// are those of the list style->names.
std::optional<Moment> parse_by_format(std::string_view text, std::string_view format,
                                      DateStyle* style = nullptr);
/// InvalidConfig for `key` where a format has a directive that is not known, or no year.
void check_date_format(std::string_view format, std::string_view key);

/// What three numbers of a date are, where none of them has four digits in front.
enum class DateOrder : std::uint8_t { year_first, month_first, day_first };

/// How a date seems to be written: "2016-07-01", with a clock (24 hours or AM and PM) and a zone behind it
/// after a space or 'T'; "07/01/2016", "1.7.16" as `order` says; "1 July 2016", "Jul 1, 2016", "Jul-16";
/// "1st of July 2016", "2016 Jul", "Fri Jul 01 13:00:00 2016"; "2016-07", "07/2016", "2016M07", "2016:07",
/// "2016-183", "2016Q3", "3Q16", "2016:3", "2016H1", "1. Quartal 2016", "2016-W27", "KW27/2016", "FY2016".
/// Nothing for other text. `ordered` is set where the order mattered. Months and days have the names of the
/// list `names`.
std::optional<DateStyle> guess_date_style(std::string_view text, DateOrder order, bool* ordered = nullptr,
                                          int names = 0);

/// Reads a date as guess_date_style sees it, or an integer.
std::optional<Moment> parse_moment(std::string_view text, DateStyle* style = nullptr,
                                   DateOrder order = DateOrder::year_first, int names = 0);
/// Reads 20160701, 2016183 (a day of the year), 201607, 2016070112, 201607011200 or 20160701120000, of the
/// years 1800 to 2199; parse_moment takes them for row numbers.
std::optional<Moment> parse_compact_date(std::string_view text, DateStyle* style = nullptr);
/// Reads 2016/17, 2016-17 and 2016/2017: years that begin in one and end in the next.
std::optional<Moment> parse_split_year(std::string_view text, DateStyle* style = nullptr);
/// Reads 201627 and 2016-27 as weeks of ISO 8601, of the same years: for columns in which some are not
/// months.
std::optional<Moment> parse_plain_week(std::string_view text, DateStyle* style = nullptr);

}  // namespace ingot::forecast
