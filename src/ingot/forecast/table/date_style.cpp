#include "ingot/forecast/table/date_style.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/forecast/table/civil.h"
#include "ingot/forecast/table/date_names.h"
#include "ingot/forecast/table/decimal_year.h"
#include "ingot/forecast/table/excel_date.h"

namespace ingot::forecast {
namespace {

// A pattern, one directive or character after another.
struct Piece {
  char directive = 0;  ///< 0: `literal` stands for itself
  char literal = 0;
  bool bare = false, capitals = false, small = false, dotted = false;  ///< the flags
};

class Pattern {
 public:
  explicit Pattern(std::string_view text) : text_(text) {}
  bool next(Piece& piece) {
    if (text_.empty()) return false;
    piece = {.literal = take()};
    if (piece.literal != '%' || text_.empty()) return true;
    char c = take();
    for (; (c == '-' || c == '^' || c == '#' || c == '.') && !text_.empty(); c = take())
      (c == '-' ? piece.bare : c == '^' ? piece.capitals : c == '#' ? piece.small : piece.dotted) = true;
    if (c != '%') piece.directive = c;
    return true;
  }

 private:
  char take() {
    const char c = text_.front();
    text_.remove_prefix(1);
    return c;
  }
  std::string_view text_;
};

// What stands for several directives.
std::string_view longer_form(char directive) {
  return directive == 'F'   ? "%Y-%m-%d"
         : directive == 'D' ? "%m/%d/%y"
         : directive == 'T' ? "%H:%M:%S"
                            : "%H:%M";
}

bool has_directive(std::string_view format, std::string_view any) {
  Pattern pattern(format);
  for (Piece p; pattern.next(p);) {
    if (p.directive != 0 && any.find(p.directive) != std::string_view::npos) return true;
  }
  return false;
}

std::string without_flags(std::string format) {
  for (const char* flag : {"%-", "%."}) {
    for (std::size_t at = 0; (at = format.find(flag, at)) != std::string::npos;) format.erase(at + 1, 1);
  }
  return format;
}

// Each directive of two formats that differ in flags alone, with the flags of either.
std::string with_flags_of_both(std::string_view one, std::string_view other) {
  std::string format;
  Pattern first(one), second(other);
  for (Piece a, b; first.next(a) && second.next(b);) {
    if (a.directive == 0) {
      format += a.literal == '%' ? "%%" : std::string(1, a.literal);
      continue;
    }
    format += '%';
    if (a.bare || b.bare) format += '-';
    if (a.capitals || b.capitals) format += '^';
    if (a.small || b.small) format += '#';
    if (a.dotted || b.dotted) format += '.';
    format += a.directive;
  }
  return format;
}

// Of two ways to write the same, the one with more in it; without leading zeros if either is.
void take_fuller(std::string& format, const std::string& other) {
  const std::string own = without_flags(format), its = without_flags(other);
  if (its.size() > own.size())
    format = other;
  else if (its == own && other != format)
    format = with_flags_of_both(format, other);
}

// Takes what directives stand for off the front of a text.
class FormatReader {
 public:
  FormatReader(std::string_view text, DateStyle* style) : text_(text), style_(style) {}

  std::optional<Moment> read(std::string_view format) {
    for (const char* before : {"%S.%f", "%T.%f"})
      fraction_follows_ |= format.find(before) != std::string_view::npos;
    if (!parts(format) || !text_.empty()) return std::nullopt;
    return moment();
  }

 private:
  bool parts(std::string_view format) {
    Pattern pattern(format);
    for (Piece p; pattern.next(p);) {
      if (!(p.directive != 0 ? directive(p.directive) : literal(p.literal))) return false;
      if (p.dotted) take('.');
    }
    return true;
  }
  bool literal(char c) {
    if (c != ' ') return take(c);
    const std::size_t before = text_.size();
    while (take(' ')) {
    }
    return text_.size() < before;
  }
  bool take(char c) {
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool digits(std::size_t least, std::size_t most, std::int64_t& value) {
    std::size_t n = 0;
    while (n < most && n < text_.size() && text_[n] >= '0' && text_[n] <= '9') ++n;
    if (n < least) return false;
    std::from_chars(text_.data(), text_.data() + n, value);
    text_.remove_prefix(n);
    return true;
  }
  std::string_view word(bool hyphens = false) {
    std::size_t n = 0;
    while (n < text_.size() && (is_name_letter(text_[n]) || (hyphens && text_[n] == '-'))) ++n;
    const std::string_view found = text_.substr(0, n);
    text_.remove_prefix(n);
    return found;
  }

  bool directive(char d) {
    switch (d) {
      case 'F':
      case 'D':
      case 'T':
      case 'R':
        return parts(longer_form(d));
      case 'Y':
        return digits(4, 4, c_.year);
      case 'y':
        if (!digits(2, 2, c_.year)) return false;
        c_.year += c_.year < 69 ? 2000 : 1900;
        return true;
      case 'm':
        return digits(1, 2, c_.month);
      case 'd':
      case 'e':
        take(' ');
        return digits(1, 2, c_.day);
      case 'j':
        return digits(1, 3, day_of_year_) && day_of_year_ >= 1;
      case 'n':
      case 'N': {  // behind the year
        std::int64_t next = 0;
        const std::size_t width = d == 'n' ? 2 : 4;
        return digits(width, width, next) && next == (d == 'n' ? (c_.year + 1) % 100 : c_.year + 1);
      }
      case 'b':
      case 'B':
      case 'h':
        return month_of_name();
      case 'a':
      case 'A':
        return find_day(word(names() != 0), names()).has_value();
      case 'o':
        return ordinal_length(text_, names()) > 0 && (word(), true);
      case 'H':
        return digits(1, 2, c_.hour);
      case 'I':
        return digits(1, 2, c_.hour) && c_.hour >= 1 && c_.hour <= 12;
      case 'M':
        return digits(2, 2, c_.minute);
      case 'S':
        return digits(2, 2, c_.second) && (fraction_follows_ || fraction());
      case 'f':
        return fraction_digits();
      case 'p':
      case 'P':
        return half_of_day();
      case 'G':
        return digits(4, 4, iso_.year);
      case 'V':
        return digits(1, 2, iso_.week) && iso_.week >= 1;
      case 'u':
        return digits(1, 1, iso_day_) && iso_day_ >= 1 && iso_day_ <= 7;
      case 'q': {
        std::int64_t quarter = 0;
        if (!digits(1, 1, quarter) || quarter < 1 || quarter > 4) return false;
        c_.month = 3 * quarter - 2;
        return true;
      }
      case 'i': {
        std::int64_t half = 0;
        if (!digits(1, 1, half) || half < 1 || half > 2) return false;
        c_.month = 6 * half - 5;
        return true;
      }
      case 's':
        return digits(1, 12, epoch_);
      case 'z':
        return offset();
      case 'Z':
        return zone_name();
      default:
        return false;
    }
  }

  int names() const { return style_ != nullptr ? style_->names : 0; }
  bool month_of_name() {
    const auto found = find_month(word(), names());
    if (found) c_.month = *found + 1;
    return found.has_value();
  }

  // Rows of a table are whole seconds apart: what is between is the nearest.
  bool fraction() {
    if (text_.size() < 2 || (text_[0] != '.' && text_[0] != ',') || text_[1] < '0' || text_[1] > '9')
      return true;
    text_.remove_prefix(1);
    return fraction_digits();
  }
  bool fraction_digits() {
    const bool half = !text_.empty() && text_.front() >= '5';
    std::int64_t part = 0;
    if (!digits(1, 9, part)) return false;
    if (part != 0 && style_ != nullptr) style_->rounded = true;
    round_up_ = half;
    return true;
  }

  bool half_of_day() {
    if (text_.empty()) return false;
    const char half = lower(text_.front());
    if (half != 'a' && half != 'p') return false;
    text_.remove_prefix(1);
    if (take('.')) take(' ');
    if (!take('m') && !take('M')) return false;
    take('.');
    half_ = half;
    return true;
  }

  bool offset() {
    zoned_ = true;
    return plain_offset() && region_behind();
  }
  // "[Europe/Berlin]" as Java writes it, "(Central European Time)" as JavaScript: no more than the offset
  // says.
  bool region_behind() {
    const std::size_t begin = std::min(text_.find_first_not_of(' '), text_.size());
    if (begin == text_.size() || (text_[begin] != '[' && text_[begin] != '(')) return true;
    const std::size_t end = text_.find(text_[begin] == '[' ? ']' : ')');
    if (end == std::string_view::npos || end < begin + 2) return false;
    text_.remove_prefix(end + 1);
    return true;
  }
  bool plain_offset() {
    if (take('Z')) return true;
    const bool east = take('+');
    if (!east && !take('-')) return false;
    std::int64_t hours = 0, minutes = 0;
    if (!digits(2, 2, hours)) return false;
    const bool colon = take(':'), more = colon || (!text_.empty() && is_digit(text_[0]));
    if (more && !digits(2, 2, minutes)) return false;
    offset_form_ = colon ? OffsetForm::colon : more ? OffsetForm::digits : OffsetForm::hours;
    offset_ = (east ? 1 : -1) * (hours * kHour + minutes * kMinute);
    return hours <= 23 && minutes <= 59;
  }

  // "UTC+02:00", "GMT-5", "GMT+0200 (Central European Summer Time)"
  bool offset_of_utc() {
    const bool utc = text_.starts_with("UTC") || text_.starts_with("GMT");
    if (!utc || text_.size() < 5 || (text_[3] != '+' && text_[3] != '-')) return false;
    zone_name_ = text_;
    const bool east = text_[3] == '+';
    text_.remove_prefix(4);
    std::int64_t hours = 0, minutes = 0;
    if (!digits(1, 2, hours)) return false;
    const bool more = take(':') || (!text_.empty() && is_digit(text_[0]));
    if (more && !digits(2, 2, minutes)) return false;
    zone_name_.resize(zone_name_.size() - text_.size());
    if (!region_behind()) return false;
    offset_ = (east ? 1 : -1) * (hours * kHour + minutes * kMinute);
    zoned_ = true;
    return hours <= 23 && minutes <= 59;
  }

  // "UTC", "(UTC)", "Europe/Berlin", "[America/New_York]".
  bool zone_name() {
    if (text_.size() > 3 && (text_[3] == '+' || text_[3] == '-')) return offset_of_utc();
    const auto belongs = [](char c) {
      return is_letter(c) || std::string_view("/_[]()-+").find(c) != std::string_view::npos;
    };
    std::size_t n = 0;
    while (n < text_.size() && belongs(text_[n])) ++n;
    zone_name_ = text_.substr(0, n);
    text_.remove_prefix(n);
    const bool is_region = zone_name_.find('/') != std::string::npos;
    const bool in_parentheses = zone_name_.starts_with('(') && zone_name_.ends_with(')');
    const auto known = offset_of_zone(
        in_parentheses ? std::string_view(zone_name_).substr(1, zone_name_.size() - 2) : zone_name_);
    offset_ = known.value_or(0);
    zoned_ = true;
    local_ = !known;
    return known || is_region;
  }

  std::optional<Moment> moment() {
    if (half_ != 0) c_.hour = c_.hour % 12 + (half_ == 'p' ? 12 : 0);
    const bool midnight = c_.hour == 24 && c_.minute == 0 && c_.second == 0;  // the end of a day
    if ((c_.hour > 23 && !midnight) || c_.minute > 59 || c_.second > 59) return std::nullopt;
    if (c_.year < 1 || c_.month < 1 || c_.month > 12 || c_.day < 1 || c_.day > last_day(c_.year, c_.month)) {
      return std::nullopt;
    }
    Moment at = moment_of(c_);
    if (day_of_year_ > 365 && (day_of_year_ > 366 || last_day(c_.year, 2) < 29)) return std::nullopt;
    if (day_of_year_ > 0)
      at = moment_of({c_.year, 1, 1, c_.hour, c_.minute, c_.second}) + (day_of_year_ - 1) * kDay;
    if (iso_.week > 0) {
      const Moment monday = monday_of(iso_);
      if (iso_week_of(monday).year != iso_.year) return std::nullopt;
      at = monday + (iso_day_ - 1) * kDay + time_of_day(at);
    }
    if (epoch_ >= 0) at = epoch_;
    if (round_up_) ++at;
    if (style_ != nullptr && zoned_) {
      style_->offset = offset_;
      style_->offset_form = offset_form_;
      style_->zone_name = zone_name_;
      style_->local = local_;
      style_->own_clock = local_;
    }
    return at - offset_;
  }

  std::string_view text_;
  DateStyle* style_;
  Civil c_;
  IsoWeek iso_{0, 0};
  std::int64_t iso_day_ = 1, day_of_year_ = 0, epoch_ = -1, offset_ = 0;
  char half_ = 0;
  OffsetForm offset_form_ = OffsetForm::zulu;
  bool zoned_ = false, local_ = false, fraction_follows_ = false, round_up_ = false;
  std::string zone_name_;
};

std::string written(const Piece& p, Moment moment, const Civil& c, const DateStyle& style) {
  const auto number = [&](std::int64_t value, int width) {
    return p.bare ? std::to_string(value) : fmt::format("{:0{}}", value, width);
  };
  const auto word = [&](std::string_view full, bool is_short) {
    std::string text(is_short && style.names == 0 ? full.substr(0, 3) : full);
    if (!p.dotted && text.ends_with('.')) text.pop_back();
    if (p.capitals)
      std::ranges::transform(text, text.begin(), [](char x) {
        return is_letter(x) && x >= 'a' ? static_cast<char>(x - 'a' + 'A') : x;
      });
    if (p.small) std::ranges::transform(text, text.begin(), lower);
    return text;
  };
  const auto month = [&] { return month_name(c.month - 1, style.names); };
  const auto day = [&](bool is_short) { return day_name(weekday_of(moment), style.names, is_short); };
  switch (p.directive) {
    case 'Y':
      return fmt::format("{:04}", c.year);
    case 'y':
      return number(c.year % 100, 2);
    case 'm':
      return number(c.month, 2);
    case 'd':
      return number(c.day, 2);
    case 'e':
      return fmt::format("{:2}", c.day);
    case 'j':
      return number(moment_of(c) / kDay - days_of(c.year, 1, 1) + 1, 3);
    case 'b':
    case 'h':
      return word(month(), true);
    case 'B':
      return word(month(), false);
    case 'a':
      return word(day(true), true);
    case 'A':
      return word(day(false), false);
    case 'o':
      return std::string(ordinal_of(c.day, style.names));
    case 'H':
      return number(c.hour, 2);
    case 'I':
      return number((c.hour + 11) % 12 + 1, 2);
    case 'M':
      return number(c.minute, 2);
    case 'S':
      return number(c.second, 2);
    case 'f':
      return "000000";
    case 'p':
      return c.hour < 12 ? "AM" : "PM";
    case 'P':
      return c.hour < 12 ? "am" : "pm";
    case 'G':
      return fmt::format("{:04}", iso_week_of(moment).year);
    case 'V':
      return number(iso_week_of(moment).week, 2);
    case 'u':
      return std::to_string(weekday_of(moment) + 1);
    case 'n':
      return fmt::format("{:02}", (c.year + 1) % 100);
    case 'N':
      return fmt::format("{:04}", c.year + 1);
    case 'q':
      return std::to_string((c.month + 2) / 3);
    case 'i':
      return c.month <= 6 ? "1" : "2";
    case 's':
      return std::to_string(moment);
    case 'z':
      return format_offset(style.offset, style.offset_form);
    case 'Z':
      return style.zone_name;
    case 'F':
    case 'D':
    case 'T':
    case 'R': {
      std::string text;
      Pattern pattern(longer_form(p.directive));
      for (Piece part; pattern.next(part);) text += written(part, moment, c, style);
      return text;
    }
    default:
      return std::string(1, p.literal);
  }
}

}  // namespace

bool DateStyle::has_day() const { return has_directive(date, "dejusFD"); }

void DateStyle::widen(const DateStyle& row) {
  if (date == row.date && clock == row.clock) {
    // Nothing to take over: so it is with most rows of a table.
  } else if (has_day() == row.has_day()) {
    take_fuller(date, row.date);
    take_fuller(clock, row.clock);
  } else {
    if (row.has_day()) date = row.date;
    take_fuller(clock, row.clock);
  }
  decimals = std::max(decimals, row.decimals);
  excel = std::max(excel, row.excel);
  rounded |= row.rounded;
}

void DateStyle::widen(const Frequency& frequency) {
  if (number || epoch != 0 || decimals != 0) return;
  constexpr int kUsual = 5;  // less than a second
  if (excel == 0 && frequency.unit == Frequency::Unit::seconds && frequency.step % kDay != 0) excel = kUsual;
  if (excel >= 0) return;
  const bool months = frequency.unit == Frequency::Unit::months;
  const bool seconds = frequency.unit == Frequency::Unit::seconds;
  if (has_directive(date, "q") && !(months && frequency.step % 3 == 0)) date = months ? "%Y-%m" : "%Y-%m-%d";
  if (has_directive(date, "i") && !(months && frequency.step % 6 == 0)) date = months ? "%Y-%m" : "%Y-%m-%d";
  if (has_directive(date, "V") && !has_day() && !(seconds && frequency.step % kWeek == 0)) date = "%Y-%m-%d";
  if (months) return;
  if (!has_day() && !has_directive(date, "V")) {
    const bool year_first = date.starts_with("%Y") && date.ends_with("%m");
    date = year_first ? date + date.substr(2, date.size() - 4) + "%d" : "%Y-%m-%d";
  }
  if (!seconds || has_directive(date, "HIsTR")) return;
  if (frequency.step % kDay != 0 && clock.empty()) clock = " %H:%M";
  const std::size_t minutes = clock.find("%M");
  if (frequency.step % kMinute != 0 && minutes != std::string::npos && !has_directive(clock, "S")) {
    clock.insert(minutes + 2, ":%S");
  }
}

std::string format_offset(std::int64_t seconds, OffsetForm form) {
  if (seconds == 0 && form == OffsetForm::zulu) return "Z";
  const std::int64_t minutes = std::abs(seconds) / kMinute;
  std::string text = fmt::format("{}{:02}", seconds < 0 ? '-' : '+', minutes / 60);
  if (form == OffsetForm::hours && minutes % 60 == 0) return text;
  return text + fmt::format("{}{:02}", form == OffsetForm::digits ? "" : ":", minutes % 60);
}

std::string format_moment(Moment moment, const DateStyle& style) {
  if (style.number) return std::to_string(moment);
  if (style.epoch != 0) return std::to_string(moment * style.epoch);
  if (style.decimals != 0) return format_decimal_year(moment, style);
  if (style.excel >= 0) return format_excel_day(moment, style);
  const Moment shown = style.own_clock ? moment : moment + style.offset;
  const Civil c = civil_of(shown);
  std::string text;
  const std::string format =
      style.clock.empty() && !has_directive(style.date, "HIsTR") ? style.date : style.format();
  Pattern pattern(format);
  for (Piece p; pattern.next(p);) text += written(p, shown, c, style);
  return text;
}

std::optional<Moment> parse_by_format(std::string_view text, std::string_view format, DateStyle* style) {
  return FormatReader(text, style).read(format);
}

void check_date_format(std::string_view format, std::string_view key) {
  Pattern pattern(format);
  for (Piece p; pattern.next(p);) {
    INGOT_CHECK(
        p.directive == 0 ||
            std::string_view("YymdejbBhaAoHIMSfpPGVuqinNszZFDTR").find(p.directive) != std::string_view::npos,
        InvalidConfig(std::string(key),
                      fmt::format("'{}': %{} is not known; expected a pattern of strptime, as %d/%m/%Y %H:%M",
                                  format, p.directive)));
    INGOT_CHECK(!p.small || std::string_view("bBhaA").find(p.directive) != std::string_view::npos,
                InvalidConfig(std::string(key),
                              fmt::format("'{}': the flag '#' (small letters) is for names, as %#b, not for "
                                          "%{}; '-' leaves out leading zeros",
                                          format, p.directive)));
  }
  INGOT_CHECK(has_directive(format, "YyGsFD"),
              InvalidConfig(std::string(key),
                            fmt::format("'{}' has no year; expected a pattern of strptime, as %d/%m/%Y %H:%M",
                                        format)));
}

}  // namespace ingot::forecast
