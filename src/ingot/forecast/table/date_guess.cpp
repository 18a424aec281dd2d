#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "ingot/forecast/table/civil.h"
#include "ingot/forecast/table/date_names.h"
#include "ingot/forecast/table/date_style.h"

namespace ingot::forecast {
namespace {

// Walks over a date and writes down its pattern.
class Guess {
 public:
  Guess(std::string_view text, DateOrder order, int names) : text_(text), order_(order), names_(names) {
    style_.names = names;
  }

  std::optional<DateStyle> read() {
    weekday();
    if (!day()) return std::nullopt;
    style_.date = std::move(pattern_);
    pattern_.clear();
    if (!text_.empty() && !clock()) return std::nullopt;
    style_.clock = std::move(pattern_);
    pattern_.clear();
    if (!text_.empty() && !zone()) return std::nullopt;
    style_.zone = std::move(pattern_);
    if (!text_.empty()) return std::nullopt;
    return style_;
  }
  bool ordered() const { return ordered_; }

 private:
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  std::size_t digits() const { return run(is_digit); }
  template <class Belongs>
  std::size_t run(Belongs belongs, std::size_t from = 0) const {
    std::size_t n = from;
    while (n < text_.size() && belongs(text_[n])) ++n;
    return n - from;
  }
  void skip(std::size_t n, std::string_view directive) {
    text_.remove_prefix(n);
    pattern_ += directive;
  }
  /// Takes characters that stand for themselves; spaces are one.
  void copy(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      if (text_[i] != ' ' || !pattern_.ends_with(' ')) pattern_ += text_[i];
    }
    text_.remove_prefix(n);
  }
  /// One or two digits; "%-d" where a zero is left out in front.
  bool field(char directive) {
    const std::size_t n = digits();
    if (n != 1 && n != 2) return false;
    skip(n, n == 1 ? std::string{'%', '-', directive} : std::string{'%', directive});
    if (directive != 'd') return true;
    if (const std::size_t ordinal = ordinal_length(text_, names_); ordinal > 0) {
      if (n == 2 && pattern_.ends_with("%d"))
        pattern_.insert(pattern_.size() - 1, 1, '-');  // nobody writes 01st
      skip(ordinal, "%o");
    }
    return true;
  }
  bool year() {
    const std::size_t n = digits();
    if (n != 4 && n != 2) return false;
    skip(n, n == 4 ? "%Y" : "%y");
    return true;
  }
  bool name_ahead() const { return find_month(text_.substr(0, run(is_name_letter)), names_).has_value(); }
  bool month_name() {
    const std::string_view word = text_.substr(0, run(is_name_letter));
    if (!find_month(word, names_)) return false;
    if (names_ != 0) return skip(word.size(), "%"), name_end("b"), true;
    const bool capitals = word[1] >= 'A' && word[1] <= 'Z', small = word[0] >= 'a' && word[0] <= 'z';
    const std::string flag = capitals ? "^" : small ? "#" : "";
    skip(word.size(), "%" + flag + (word.size() == 3 ? "b" : "B"));
    return true;
  }
  /// Behind a name of another language, which may end with a dot.
  void name_end(std::string_view directive) {
    if (names_ != 0 && at(0) == '.' && (at(1) == ' ' || at(1) == '-')) skip(1, ".");
    pattern_ += directive;
  }
  /// What stands between the parts of a date: one character, with spaces around or ", ", or " de ".
  std::size_t separator() const {
    const std::size_t n =
        run([](char c) { return c == ' ' || c == '-' || c == '/' || c == '.' || c == ',' || c == '\''; });
    for (const std::string_view word : {"de ", "del ", "of "}) {
      if (n == 1 && text_.substr(0, 1) == " " && text_.substr(1).starts_with(word)) return 1 + word.size();
    }
    return n <= 3 ? n : 0;
  }

  void weekday() {
    const auto belongs = [&](char c) { return is_name_letter(c) || (names_ != 0 && c == '-'); };
    const std::size_t n = run(belongs);
    bool is_short = false;
    if (!find_day(text_.substr(0, n), names_, &is_short)) return;
    skip(n, "%");
    name_end(is_short ? "a" : "A");
    copy(separator());
  }

  /// The length of a word for a week with what is behind it, before a number of one or two digits: "KW ".
  std::size_t week_word(std::size_t from = 0) const {
    static constexpr std::array<std::string_view, 16> kWords{
        "W",         "KW",   "CW",  "WK",    "Week", "Woche", "Kalenderwoche", "Sem", "Semaine", "Semana",
        "Settimana", "Sett", "Uke", "Vecka", "S",    "V"};
    const std::size_t letters = run(is_letter, from);
    const std::string_view word = text_.substr(std::min(from, text_.size()), letters);
    const bool known = std::ranges::any_of(kWords, [&](std::string_view w) { return same_word(w, word); });
    std::size_t end = from + letters;
    if (at(end) == '.') ++end;
    while (at(end) == ' ' || at(end) == '-') ++end;
    const std::size_t number = run(is_digit, end);
    // "S1 2020" and "Sem 1 2020" are half-years, too.
    const bool vague = same_word(word, "s") || same_word(word, "v") || same_word(word, "sem");
    return known && (number == 2 || (number == 1 && !vague)) ? end - from : 0;
  }

  bool week_number() {
    const std::size_t n = digits();
    skip(n, n == 1 ? "%-V" : "%V");
    return true;
  }

  // KW02/2020, W2 2020
  bool week_first() {
    copy(week_word());
    week_number();
    const std::size_t between = separator();
    copy(between);
    if (between == 0 || digits() != 4) return false;
    skip(4, "%G");
    return true;
  }

  // FY before the digits of a year, with a space or a mark between them; 0 where that is not here.
  std::size_t fiscal_word() const {
    if (lower(at(0)) != 'f' || lower(at(1)) != 'y') return 0;
    const std::size_t n = 2 + run([](char c) { return c == ' ' || c == '-' || c == '\''; }, 2);
    return n <= 3 && is_digit(at(n)) ? n : 0;
  }

  // FY2020, FY20, FY2019-20, FY19/20, FY2020 Q1
  bool fiscal_year() {
    copy(fiscal_word());
    const bool full = digits() == 4;
    if (!year()) return false;
    const std::size_t next = at(0) == '-' || at(0) == '/' ? run(is_digit, 1) : 0;
    if (next == 2 || (full && next == 4)) {
      copy(1);
      skip(next, next == 2 ? "%n" : "%N");
    }
    if (text_.empty()) return true;
    copy(separator());
    return lower(at(0)) == 'q' && part_of_year();
  }

  bool day() {
    if (fiscal_word() > 0) return fiscal_year();
    if (name_ahead()) return after_name();
    if (part_word().length > 0) return part_of_year() && (copy(separator()), copy(fiscal_word()), year());
    if (week_word() > 0) return week_first();
    switch (digits()) {
      case 8:
        skip(8, "%Y%m%d");
        return true;
      case 7:
        skip(7, "%Y%j");
        return true;
      case 4:
        return after_year();
      case 1:
      case 2:
        return after_number();
      default:
        return false;
    }
  }

  struct PartWord {
    std::size_t length = 0;  // 0: there is none
    std::string_view directive;
  };
  /// A word for quarters or half-years with what is behind it, before one digit: "Q", "Quarter ", "H".
  PartWord part_word(std::size_t from = 0) const {
    const PartWord word = part_name(from);
    const std::size_t end = from + word.length;
    return word.length > 0 && is_digit(at(end)) && !is_digit(at(end + 1)) && !is_letter(at(end + 1))
               ? word
               : PartWord{};
  }
  PartWord part_name(std::size_t from) const {
    static constexpr std::array<std::string_view, 9> kQuarters{
        "Q", "T", "Qtr", "Quarter", "Quartal", "Trim", "Trimestre", "Vj", "Kwartaal"};
    static constexpr std::array<std::string_view, 7> kHalves{"H",        "S",  "HY",      "Half",
                                                             "Semestre", "Hj", "Halbjahr"};
    const std::size_t letters = run(is_letter, from);
    const std::string_view word = text_.substr(std::min(from, text_.size()), letters);
    const auto is_one = [&](std::string_view known) { return same_word(known, word); };
    const bool quarter = std::ranges::any_of(kQuarters, is_one);
    if (!quarter && !std::ranges::any_of(kHalves, is_one)) return {};
    std::size_t end = from + letters;
    if (letters > 1 && at(end) == '.') ++end;
    if (letters > 1 && at(end) == ' ') ++end;
    return {end - from, quarter ? "%q" : "%i"};
  }
  // Q3, H1, Quarter 3
  bool part_of_year() {
    const PartWord word = part_word();
    copy(word.length);
    if (word.length > 0) skip(1, word.directive);
    return word.length > 0;
  }
  // What is between a number and the word for what it counts: "1. Quartal", "3Q".
  std::size_t before_part_name() const {
    const std::size_t between = run([](char c) { return c == '.' || c == ' '; }, digits());
    const PartWord word = between <= 2 ? part_name(digits() + between) : PartWord{};
    return word.length;
  }
  // 3Q2016, 3Q16, 1. Quartal 2016
  bool part_first(std::size_t word) {
    const std::size_t between = run([](char c) { return c == '.' || c == ' '; }, 1);
    skip(1, part_name(1 + between).directive);
    copy(between + word);
    copy(separator());
    return year() && text_.empty();
  }

  // July 2016, Jul 1, 2016, Jul-16
  bool after_name() {
    month_name();
    const std::size_t between = separator();
    if (between == 0) return false;
    copy(between);
    if (digits() == 4) return year();
    const bool year_is_last = run(is_digit) == 2 && text_.size() == 2;
    if (year_is_last) return year();
    if (!field('d')) return false;
    if (at(0) == ' ' && digit_pair_at(1) && at(3) == ':') return clock_and_year();
    const std::size_t next = separator();
    copy(next);
    return next > 0 && year();
  }

  bool digit_pair_at(std::size_t i) const { return is_digit(at(i)) && is_digit(at(i + 1)); }

  // Fri Jul  1 13:00:00 2016, Fri Jul 01 13:00:00 +0200 2016: the year is last.
  bool clock_and_year() {
    if (!clock() || at(0) != ' ') return false;
    if (const std::size_t zone = text_.substr(1).find(' '); zone != std::string_view::npos) {
      copy(1);
      skip(zone, is_letter(at(0)) ? "%Z" : "%z");
    }
    copy(1);
    return digits() == 4 && year();
  }

  // 2016年7月1日, 2016년 7월 1일: `marks` are the words for year, month and day.
  bool year_of_signs(const std::array<std::string_view, 3>& marks) {
    const auto sign = [&](std::string_view mark) {
      const bool is = text_.starts_with(mark);
      if (is) copy(mark.size());
      while (is && at(0) == ' ' && is_digit(at(1))) copy(1);
      return is;
    };
    if (!sign(marks[0]) || !field('m') || !sign(marks[1])) return false;
    return !is_digit(at(0)) || (field('d') && sign(marks[2]));
  }

  // 2016:07 is a month and 2016:3 a quarter, as gretl writes them.
  bool after_year_and_colon() {
    copy(1);
    if (lower(at(0)) == 'q') return part_of_year();
    return digits() == 1 ? (skip(1, "%q"), true) : field('m');
  }

  // 2016-07-01, 2016-07, 2016-183, 2016Q3, 2016H1, 2016-W27-1, 2016-Jul-01, 2016 Jul
  bool after_year() {
    skip(4, "%Y");
    if (at(0) == ':') return after_year_and_colon();
    static constexpr std::array<std::array<std::string_view, 3>, 2> kSigns{
        {{"\u5e74", "\u6708", "\u65e5"}, {"\ub144", "\uc6d4", "\uc77c"}}};
    for (const auto& marks : kSigns) {
      if (text_.starts_with(marks[0])) return year_of_signs(marks);
    }
    const std::size_t between = separator();
    if (const std::size_t word = week_word(between); word > 0) return iso_week(between + word);
    if (part_word(between).length > 0) {
      copy(between);
      return part_of_year();
    }
    if (between <= 1 && lower(at(between)) == 'm' && is_digit(at(between + 1))) {  // 2016M07, 2016-M07
      copy(between + 1);
      return field('m');
    }
    if (between != 1 || text_[0] == ',' || text_[0] == '\'') return false;
    const char mark = text_[0];
    copy(1);
    if (digits() == 3) return skip(3, "%j"), true;
    const bool named = name_ahead();
    if (!(named ? month_name() : field('m'))) return false;
    if (text_.empty()) return named || mark != ' ';
    if (at(0) != mark || !is_digit(at(1))) return text_.empty();
    copy(1);
    return field('d');
  }

  // Behind the year, which is that of the week.
  bool iso_week(std::size_t before) {
    pattern_.replace(pattern_.rfind("%Y"), 2, "%G");
    copy(before);
    week_number();
    if (at(0) != '-' || !is_digit(at(1)) || is_digit(at(2))) return true;
    copy(1);
    skip(1, "%u");
    return true;
  }

  // 01/07/2016, 1 July 2016, 1-Jul-16, 01JUL2016, 07/2016, 3Q2016, 1H16
  bool after_number() {
    if (const std::size_t word = before_part_name(); digits() == 1 && word > 0) return part_first(word);
    const std::string_view whole = text_;
    std::size_t width = digits();
    width += ordinal_length(text_.substr(width), names_);
    text_.remove_prefix(width);
    const std::size_t between = separator();
    text_.remove_prefix(between);
    const bool named = name_ahead();
    const std::size_t second = digits();
    const std::string_view mark = whole.substr(width, between);
    text_ = whole;
    if (named) return field('d') && (copy(between), month_name()) && (copy(separator()), year());
    if (between == 0) return false;
    if (second == 4) {  // 07/2016
      if (!field('m')) return false;
      copy(between);
      return year();
    }
    return three_numbers(mark);
  }

  bool three_numbers(std::string_view mark) {
    ordered_ = true;
    std::string_view letters = order_ == DateOrder::month_first ? "mdy"
                               : order_ == DateOrder::day_first ? "dmy"
                                                                : "ymd";
    for (std::size_t i = 0; i < 3; ++i) {
      if (i > 0) {
        if (!text_.starts_with(mark)) return false;
        copy(mark.size());
      }
      if (letters[i] == 'y') {
        if (order_ == DateOrder::year_first && digits() != 2) return false;
        if (!year()) return false;
      } else if (!field(letters[i])) {
        return false;
      }
    }
    return true;
  }

  // [T, :]hh:mm[:ss[.fff]][ AM]
  bool clock() {
    const bool mark_ahead = at(0) == 'T' || (at(0) == ':' && digit_pair_at(1) && at(3) == ':');
    const std::size_t between = mark_ahead ? 1 : run([](char c) { return c == ' ' || c == ','; });
    const std::size_t hour = run(is_digit, between);
    if (between == 0 && style_.date != "%Y%m%d") return false;
    if (hour == 4 || hour == 6) {
      copy(between);
      skip(hour, hour == 4 ? "%H%M" : "%H%M%S");
      return true;
    }
    if (between == 0 || hour == 0 || hour > 2) return false;
    copy(between);
    const char mark = at(hour);
    const std::size_t half = half_of_day_at(hour);
    const bool minutes =
        (mark == ':' || mark == '.' || mark == 'h') && is_digit(at(hour + 1)) && is_digit(at(hour + 2));
    if (!minutes && half == 0) return false;
    std::string_view rest = text_.substr(hour);
    const bool twelve = twelve_hours(rest);
    field(twelve ? 'I' : 'H');
    if (minutes) {
      copy(1);
      if (digits() != 2) return false;
      skip(2, "%M");
      if (at(0) == mark && is_digit(at(1))) {
        copy(1);
        if (digits() != 2) return false;
        skip(2, "%S");
        if ((at(0) == '.' || at(0) == ',') && is_digit(at(1))) text_.remove_prefix(1 + run(is_digit, 1));
      }
    }
    if (twelve) {
      while (at(0) == ' ') copy(1);
      const bool capitals = at(0) == 'A' || at(0) == 'P';
      skip(half_of_day_at(0), capitals ? "%p" : "%P");
    }
    return true;
  }
  // The length of "AM", "p.m." ... behind spaces; 0 where there is none.
  std::size_t half_of_day_at(std::size_t from) const {
    std::size_t i = from;
    while (at(i) == ' ') ++i;
    if (lower(at(i)) != 'a' && lower(at(i)) != 'p') return 0;
    ++i;
    if (at(i) == '.') ++i;
    if (at(i - 1) == '.' && at(i) == ' ') ++i;  // "p. m.", as Windows writes it in Spanish
    if (lower(at(i)) != 'm') return 0;
    ++i;
    if (at(i) == '.') ++i;
    return is_letter(at(i)) ? 0 : i - from;
  }
  bool twelve_hours(std::string_view rest) const {
    const std::size_t clock = rest.find_first_not_of("0123456789:.h");
    return clock != std::string_view::npos && half_of_day_at(text_.size() - rest.size() + clock) > 0;
  }

  // Z, +02:00, " UTC", " Europe/Berlin", " (UTC)", " GMT+0200 (Central European Summer Time)"
  bool zone() {
    const std::size_t spaces = run([](char c) { return c == ' '; });
    copy(spaces);
    const bool utc = at(0) == 'Z' && (text_.size() == 1 || at(1) == '[' || at(1) == ' ');
    const bool letters = is_letter(at(0)) && !utc;
    if (letters || at(0) == '[' || at(0) == '(') {
      skip(text_.size(), "%Z");
      return spaces > 0 || pattern_ == "%Z";
    }
    if (at(0) != 'Z' && at(0) != '+' && at(0) != '-') return false;
    skip(text_.size(), "%z");
    return true;
  }

  std::string_view text_;
  DateOrder order_;
  int names_;
  DateStyle style_;
  std::string pattern_;
  bool ordered_ = false;
};

std::optional<Moment> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.size() > 15) return std::nullopt;
  return value;
}

}  // namespace

std::optional<DateStyle> guess_date_style(std::string_view text, DateOrder order, bool* ordered, int names) {
  Guess guess(text, order, names);
  const auto style = guess.read();
  if (ordered != nullptr) *ordered = guess.ordered();
  return style;
}

std::optional<Moment> parse_moment(std::string_view text, DateStyle* style, DateOrder order, int names) {
  DateStyle found;
  if (const auto number = parse_integer(text)) {
    found.number = true;
    if (style != nullptr) *style = found;
    return number;
  }
  const auto guessed = guess_date_style(text, order, nullptr, names);
  if (!guessed) return std::nullopt;
  found = *guessed;
  // A fraction of a second, which is not written again, stands behind the seconds.
  const auto moment = parse_by_format(text, found.format(), &found);
  if (moment && style != nullptr) *style = found;
  return moment;
}

std::optional<Moment> parse_compact_date(std::string_view text, DateStyle* style) {
  const bool digits = text.find_first_not_of("0123456789") == std::string_view::npos;
  const bool with_clock = text.size() == 10 || text.size() == 12 || text.size() == 14;
  if (text < "1800" || text >= "2200") return std::nullopt;
  if (digits && (text.size() < 6 || text.size() > 8) && !with_clock) return std::nullopt;
  const std::size_t day = std::min(text.find_first_not_of("0123456789"), text.size());
  if (!digits && day != 7 && day != 8) return std::nullopt;
  DateStyle found{.date = text.size() == 6 ? "%Y%m" : text.size() == 7 ? "%Y%j" : "%Y%m%d"};
  if (!digits) return parse_moment(text, style);
  if (with_clock) found.clock = std::string_view("%H%M%S").substr(0, text.size() - 8);
  const auto moment = parse_by_format(text, found.format());
  if (moment && style != nullptr) *style = found;
  return moment;
}

std::optional<Moment> parse_split_year(std::string_view text, DateStyle* style) {
  if (text < "1800" || text >= "2200" || (text.size() != 7 && text.size() != 9)) return std::nullopt;
  const DateStyle found{.date = fmt::format("%Y{}{}", text[4], text.size() == 7 ? "%n" : "%N")};
  if (text[4] != '-' && text[4] != '/') return std::nullopt;
  const auto moment = parse_by_format(text, found.format());
  if (moment && style != nullptr) *style = found;
  return moment;
}

std::optional<Moment> parse_plain_week(std::string_view text, DateStyle* style) {
  if (text < "1800" || text >= "2200") return std::nullopt;
  const DateStyle found{.date = text.size() == 6 ? "%G%V" : "%G-%V"};
  const auto moment = parse_by_format(text, found.format());
  if (moment && style != nullptr) *style = found;
  return moment;
}

}  // namespace ingot::forecast
