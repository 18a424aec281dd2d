#include "ingot/forecast/table/number_column.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/forecast/table/date_names.h"

namespace ingot::forecast {
namespace {

using Words = std::vector<std::string_view>;

bool is_one_of(const Words& words, std::string_view cell) {
  return std::ranges::any_of(words, [&](std::string_view word) { return same_word(word, cell); });
}

std::optional<bool> truth(std::string_view cell) {
  if (cell.empty() || is_digit(cell.back())) return std::nullopt;  // most cells of a table, told quickly
  // Of forms and of Excel in English, German, French, Spanish, Portuguese, Italian and Dutch.
  static const Words yes{"true", "yes", "y",  "t",   "on",        "wahr",       "ja",   "vrai", "oui",
                         "si",   "sí",  "SÍ", "sim", "verdadero", "verdadeiro", "vero", "waar"},
      no{"false", "no",  "n",   "f",   "off",   "falsch", "nein",
         "faux",  "non", "não", "NÃO", "falso", "onwaar", "nee"};
  if (is_one_of(yes, cell)) return true;
  return is_one_of(no, cell) ? std::optional(false) : std::nullopt;
}

// Spaces of any width.
std::size_t space_at(std::string_view text) {
  for (const std::string_view space : {" ", "\t", "\u00A0", "\u2009", "\u202F"}) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}
std::size_t space_before_end(std::string_view text) {
  for (const std::string_view space : {" ", "\t", "\u00A0", "\u2009", "\u202F"}) {
    if (text.ends_with(space)) return space.size();
  }
  return 0;
}
void trim(std::string_view& text) {
  while (const std::size_t n = space_at(text)) text.remove_prefix(n);
  while (const std::size_t n = space_before_end(text)) text.remove_suffix(n);
}

bool take_front(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  trim(text);
  return true;
}
bool take_back(std::string_view& text, std::string_view word) {
  if (!text.ends_with(word)) return false;
  text.remove_suffix(word.size());
  trim(text);
  return true;
}

// A cell without what stands around its digits and marks.
struct Bare {
  std::string_view digits;
  bool negative = false, percent = false, below = false, flagged = false;
  int power = 0;  // of ten, which a word behind it stands for: 1.2K, 3M
  std::string_view currency;
};

void take_sign(Bare& bare) {
  if (take_front(bare.digits, "-") || take_front(bare.digits, "\u2212")) {
    bare.negative = !bare.negative;
  } else if (!bare.digits.starts_with("+-")) {
    take_front(bare.digits, "+");
  }
}

// Thousands, millions, billions (which are 10^9) and trillions behind a digit. A small m may be metres.
int take_magnitude(std::string_view& text) {
  struct Magnitude {
    std::string_view word;
    int power;
  };
  static constexpr std::array kMagnitudes{Magnitude{"Tsd.", 3}, Magnitude{"Tsd", 3},  Magnitude{"Mio.", 6},
                                          Magnitude{"Mio", 6},  Magnitude{"Mrd.", 9}, Magnitude{"Mrd", 9},
                                          Magnitude{"mn", 6},   Magnitude{"bn", 9},   Magnitude{"K", 3},
                                          Magnitude{"k", 3},    Magnitude{"M", 6},    Magnitude{"B", 9},
                                          Magnitude{"T", 12}};
  for (const Magnitude& magnitude : kMagnitudes) {
    std::string_view rest = text;
    if (!take_back(rest, magnitude.word) || rest.empty() || !is_digit(rest.back())) continue;
    text = rest;
    return magnitude.power;
  }
  return 0;
}

// Eurostat's letters behind a value and a space: p is provisional, e estimated, b a break in the series. Two
// are of those that go together: "in", "us" and "cr" are units.
bool take_flags(std::string_view& text) {
  constexpr std::string_view kFlags = "bcdefinprsuz", kTogether = "bdepu";
  const std::size_t letters = text.size() - std::min(text.find_last_not_of(kFlags) + 1, text.size());
  if (letters == 0 || letters > 2 || letters == text.size()) return false;
  if (letters == 2 && text.find_last_not_of(kTogether) + 2 >= text.size()) return false;
  std::string_view rest = text.substr(0, text.size() - letters);
  if (space_before_end(rest) == 0) return false;
  trim(rest);
  if (rest.empty() || !(is_digit(rest.back()) || rest == ":")) return false;
  text = rest;
  return true;
}

// Longer words first: a dollar sign alone is that of the United States, as "kr" is that of Sweden.
struct Currency {
  std::string_view word, code;
};
constexpr std::array kCurrencies{
    Currency{"US$", "USD"}, Currency{"R$", "BRL"},  Currency{"A$", "AUD"},  Currency{"C$", "CAD"},
    Currency{"HK$", "HKD"}, Currency{"NZ$", "NZD"}, Currency{"S$", "SGD"},  Currency{"MX$", "MXN"},
    Currency{"NT$", "TWD"}, Currency{"$", "USD"},   Currency{"€", "EUR"},   Currency{"£", "GBP"},
    Currency{"¥", "JPY"},   Currency{"₹", "INR"},   Currency{"₩", "KRW"},   Currency{"₽", "RUB"},
    Currency{"₺", "TRY"},   Currency{"₫", "VND"},   Currency{"฿", "THB"},   Currency{"₪", "ILS"},
    Currency{"₴", "UAH"},   Currency{"₱", "PHP"},   Currency{"₦", "NGN"},   Currency{"zł", "PLN"},
    Currency{"Kč", "CZK"},  Currency{"Ft", "HUF"},  Currency{"Rp.", "IDR"}, Currency{"Rp", "IDR"},
    Currency{"kr.", "DKK"}, Currency{"kr", "SEK"},  Currency{"Fr.", "CHF"}, Currency{"SFr.", "CHF"},
    Currency{"USD", "USD"}, Currency{"EUR", "EUR"}, Currency{"GBP", "GBP"}, Currency{"CHF", "CHF"},
    Currency{"JPY", "JPY"}, Currency{"CNY", "CNY"}, Currency{"INR", "INR"}, Currency{"BRL", "BRL"},
    Currency{"CAD", "CAD"}, Currency{"AUD", "AUD"}, Currency{"SEK", "SEK"}, Currency{"NOK", "NOK"},
    Currency{"DKK", "DKK"}, Currency{"PLN", "PLN"}, Currency{"HKD", "HKD"}, Currency{"NZD", "NZD"},
    Currency{"SGD", "SGD"}, Currency{"MXN", "MXN"}, Currency{"TWD", "TWD"}, Currency{"KRW", "KRW"},
    Currency{"RUB", "RUB"}, Currency{"TRY", "TRY"}, Currency{"VND", "VND"}, Currency{"THB", "THB"},
    Currency{"ILS", "ILS"}, Currency{"UAH", "UAH"}, Currency{"PHP", "PHP"}, Currency{"NGN", "NGN"},
    Currency{"CZK", "CZK"}, Currency{"HUF", "HUF"}, Currency{"IDR", "IDR"}, Currency{"ZAR", "ZAR"},
    Currency{"RON", "RON"}, Currency{"ISK", "ISK"}, Currency{"RMB", "CNY"}};

// Digits and points alone: most cells of a table, told quickly.
bool has_digits_alone(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return is_digit(c) || c == '.'; });
}

Bare bare_number(std::string_view cell) {
  Bare bare;
  bare.digits = cell;
  if (const std::size_t sign = cell.starts_with('-') ? 1 : 0; has_digits_alone(cell.substr(sign))) {
    bare.digits.remove_prefix(sign);
    bare.negative = sign == 1;
    return bare;
  }
  trim(bare.digits);
  if (bare.digits.starts_with('(') && bare.digits.ends_with(')')) {  // as accountants write
    bare.negative = true;
    bare.digits = bare.digits.substr(1, bare.digits.size() - 2);
    trim(bare.digits);
  }
  bare.below = take_front(bare.digits, "<");
  take_sign(bare);
  for (const Currency& currency : kCurrencies) {
    if (!take_front(bare.digits, currency.word) && !take_back(bare.digits, currency.word)) continue;
    bare.currency = currency.code;
    take_sign(bare);
    break;
  }
  bare.percent = take_back(bare.digits, "%");
  // As SAP writes it.
  if (!bare.negative && bare.digits.size() > 1 && is_digit(bare.digits[bare.digits.size() - 2]) &&
      take_back(bare.digits, "-"))
    bare.negative = !bare.negative;
  bare.power = take_magnitude(bare.digits);
  bare.flagged = bare.power == 0 && take_flags(bare.digits);
  return bare;
}

// Digits in groups, with the groups' separator taken out; nothing where the groups are not of three (of two
// before the last, as in India).
std::optional<std::string> without_groups(std::string_view digits, char group) {
  std::string out;
  std::size_t since = 0, groups = 0;
  for (std::size_t i = 0; i < digits.size();) {
    std::size_t skipped = space_at(digits.substr(i));
    if (digits[i] == group || digits[i] == '\'') skipped = 1;
    if (digits.substr(i).starts_with("’")) skipped = std::string_view("’").size();
    if (skipped > 0) {
      if (since == 0 || since > 3 || (groups > 0 && since < 2)) return std::nullopt;
      ++groups;
      since = 0;
      i += skipped;
      continue;
    }
    if (!is_digit(digits[i])) return std::nullopt;
    out += digits[i++];
    ++since;
  }
  return groups == 0 || since == 3 ? std::optional(out) : std::nullopt;
}

// As a number with a point and nothing else, if it is one.
std::optional<std::string> plain_number(std::string_view digits, bool comma) {
  const std::size_t end = std::min(digits.find(comma ? ',' : '.'), digits.size());
  const std::size_t exponent = std::min(digits.find_first_of("eE"), digits.size());
  const auto whole = without_groups(digits.substr(0, std::min(end, exponent)), comma ? '.' : ',');
  if (!whole) return std::nullopt;
  std::string out = *whole;
  if (end < digits.size()) out += fmt::format(".{}", digits.substr(end + 1));
  if (end == digits.size()) out += digits.substr(exponent);
  return out;
}

enum class Parsed : std::uint8_t { number, too_large, no_number };

Parsed parse_plain(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return Parsed::no_number;
  if (error == std::errc::result_out_of_range) return Parsed::too_large;
  return error == std::errc() ? Parsed::number : Parsed::no_number;
}

// With marks as the column has them.
Parsed parse_styled(std::string_view digits, const NumberStyle& style, double& value, int power = 0) {
  if (power != 0) {
    const auto plain = plain_number(digits, style.comma);
    return plain ? parse_plain(fmt::format("{}e{}", *plain, power), value) : Parsed::no_number;
  }
  const bool marked = digits.find_first_of(style.comma ? ".," : ",") != std::string_view::npos;
  const Parsed plain = marked ? Parsed::no_number : parse_plain(digits, value);
  if (plain != Parsed::no_number) return plain;
  const auto rewritten = plain_number(digits, style.comma);
  return rewritten ? parse_plain(*rewritten, value) : Parsed::no_number;
}

// What the marks of a column say about what they are.
struct Evidence {
  std::size_t point = 0, comma = 0;            // cells that show the decimal mark
  std::size_t open_point = 0, open_comma = 0;  // cells with one mark before three digits
  std::size_t small = 0;                       // whole numbers below 1000
};

// `magnitude`: of 1.234M, where a single mark groups nothing.
void weigh(std::string_view digits, bool magnitude, Evidence& evidence) {
  const std::size_t last = digits.find_last_of(".,");
  if (last == std::string_view::npos) {
    evidence.small += magnitude ? 0 : digits.size() <= 3 && std::ranges::all_of(digits, is_digit) ? 1 : 0;
    return;
  }
  const char mark = digits[last];
  const auto marks = std::ranges::count(digits, mark);
  const bool other = digits.find(mark == '.' ? ',' : '.') != std::string_view::npos;
  if (marks > 1) {  // groups: the decimal mark is the other
    ++(mark == '.' ? evidence.comma : evidence.point);
    return;
  }
  const std::size_t after = digits.size() - last - 1;
  const bool open = !magnitude && !other && after == 3 && last >= 1 && last <= 3 && digits[0] != '0' &&
                    std::ranges::all_of(digits.substr(last + 1), is_digit) &&
                    std::ranges::all_of(digits.substr(0, last), is_digit);
  if (!open) ++(mark == '.' ? evidence.point : evidence.comma);
  if (open) ++(mark == '.' ? evidence.open_point : evidence.open_comma);
}

// Whether letters behind a column's numbers are flags: most numbers have none, or some values are not told.
// "1.2 s" in every row is a unit, and "5 b" beside "5 c" a name.
bool shows_flags(const CsvTable& csv, std::size_t column) {
  std::size_t flagged = 0, bare = 0, untold = 0;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string_view cell = csv.cell(row, column);
    untold += cell.starts_with(":") ? 1 : 0;
    if (means_missing(cell)) continue;
    ++(bare_number(cell).flagged ? flagged : bare);
  }
  return flagged > 0 && (untold > 0 || flagged <= bare);
}

struct Seen {
  Evidence marks;
  bool all_truths = true, any = false;
};

Seen look_at(const CsvTable& csv, std::size_t column, NumberStyle& style) {
  Seen seen;
  if (const data::TypedColumn* values = csv.typed(column)) {
    style.boolean = values->kind == data::TypedColumn::Kind::truth;
    return seen;
  }
  const bool typed = csv.is_numeric(column);
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string_view cell = csv.cell(row, column);
    if (means_missing(cell)) continue;
    seen.any = true;
    seen.all_truths = seen.all_truths && truth(cell).has_value();
    if (typed) continue;
    const Bare bare = bare_number(cell);
    weigh(bare.digits, bare.power != 0, seen.marks);
    style.percent |= bare.percent;
    style.unmarked |= !bare.percent && bare.digits.find_first_of("123456789") != std::string_view::npos;
    style.magnitudes |= bare.power != 0;
    style.limits |= bare.below;
    if (style.currency.empty()) style.currency = bare.currency;
    if (!bare.currency.empty() && bare.currency != style.currency) style.other = bare.currency;
  }
  style.boolean = seen.any && seen.all_truths;
  style.flags = !typed && shows_flags(csv, column);
  return seen;
}

// Of a column whose marks may be either.
bool comma_is_decimal(const Evidence& own, const Evidence& all, char separator, DecimalMark usual) {
  if (own.comma > 0 || own.point > 0) return own.comma > own.point;
  if (all.comma > 0 || all.point > 0) return all.comma > all.point;
  if (usual != DecimalMark::automatic) return usual == DecimalMark::comma;
  if (own.open_point > 0) return own.small > 0;  // 999, 1.000
  return own.small == 0 && separator != ',';
}

std::string list_columns(const CsvTable& csv, std::span<const std::size_t> columns,
                         std::span<const NumberStyle> styles, auto holds) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (holds(styles[i])) names.push_back(csv.header()[columns[i]]);
  }
  if (names.empty()) return "";
  if (names.size() == columns.size()) return "all columns";
  const bool many = names.size() > 3;
  const std::size_t count = names.size();
  if (many) names.resize(3);
  return fmt::format("{}{}", fmt::join(names, ", "), many ? fmt::format(" and {} more", count - 3) : "");
}

}  // namespace

DecimalMark parse_decimal_mark(std::string_view text, std::string_view key) {
  if (text.empty() || text == "auto") return DecimalMark::automatic;
  if (text == "point" || text == ".") return DecimalMark::point;
  INGOT_CHECK(text == "comma" || text == ",",
              InvalidConfig(std::string(key),
                            fmt::format("'{}' is not a decimal mark; expected auto, point or comma", text)));
  return DecimalMark::comma;
}

std::string_view name(DecimalMark mark) {
  return mark == DecimalMark::automatic ? "auto" : mark == DecimalMark::point ? "point" : "comma";
}

bool means_missing(std::string_view cell) {
  // Those of pandas, Excel's errors, and the marks of the World Bank (..), Eurostat (:) and SAS (.).
  static const Words words{"nan",     "na",      "n/a",      "nat",     "null",     "none",    "missing",
                           "n.a.",    "<na>",    "#na",      "#n/a",    "#n/a n/a", "-nan",    "1.#ind",
                           "-1.#ind", "1.#qnan", "-1.#qnan", "#div/0!", "#ref!",    "#value!", "#num!",
                           "#name?",  "#null!",  "-",        "--",      "\u2013",   "\u2014",  "?",
                           ".",       "..",      "...",      ":",       "\u2026"};
  if (!cell.empty() && is_digit(cell.back())) return false;
  if (cell.starts_with(": ")) take_flags(cell);  // Eurostat's ": c", which is confidential
  return cell.empty() || is_one_of(words, cell);
}

bool means_missing(const CsvTable& csv, std::size_t row, std::size_t column) {
  const data::TypedColumn* values = csv.typed(column);
  return values != nullptr ? values->is_missing(csv.source_row(row)) : means_missing(csv.cell(row, column));
}

bool is_number(std::string_view cell) {
  double value = 0;
  return parse_plain(cell, value) == Parsed::number;
}

bool holds_words(const CsvTable& csv, std::size_t column) {
  if (const data::TypedColumn* values = csv.typed(column)) return !values->is_number();
  bool any = false, all_truths = true;
  const bool flags = shows_flags(csv, column);
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string_view cell = csv.cell(row, column);
    if (means_missing(cell)) continue;
    any = true;
    all_truths = all_truths && truth(cell).has_value();
    const Bare bare = bare_number(cell);
    if (bare.flagged && !flags) continue;
    double value = 0;
    for (const bool comma : {false, true})
      if (parse_styled(bare.digits, {.comma = comma}, value, bare.power) != Parsed::no_number) return false;
  }
  return any && !all_truths;
}

std::vector<NumberStyle> number_styles(const CsvTable& csv, std::span<const std::size_t> columns,
                                       DecimalMark mark, DecimalMark usual) {
  std::vector<NumberStyle> styles(columns.size());
  std::vector<Evidence> seen;
  Evidence all;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    seen.push_back(look_at(csv, columns[i], styles[i]).marks);
    all.point += seen.back().point;
    all.comma += seen.back().comma;
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    NumberStyle& style = styles[i];
    if (csv.is_numeric(columns[i])) continue;  // nothing to guess
    style.comma = mark == DecimalMark::automatic ? comma_is_decimal(seen[i], all, csv.separator(), usual)
                                                 : mark == DecimalMark::comma;
    const Evidence& own = seen[i];
    style.marked = own.point + own.comma + own.open_point + own.open_comma > 0;
    style.ambiguous = mark == DecimalMark::automatic && usual == mark && !style.comma &&
                      csv.separator() == ';' && own.open_point > 0 && own.point + own.comma + own.small == 0;
    for (std::size_t row = 0; row < csv.rows() && !style.grouped; ++row) {
      const std::string_view digits = bare_number(csv.cell(row, columns[i])).digits;
      const std::size_t whole = std::min(digits.find_first_of(style.comma ? ",eE" : ".eE"), digits.size());
      style.grouped = digits.substr(0, whole).find_first_not_of("0123456789") != std::string_view::npos &&
                      plain_number(digits, style.comma).has_value();
    }
  }
  return styles;
}

DecimalMark decimal_of(std::span<const NumberStyle> styles) {
  const auto shows = [&](bool comma) {
    return std::ranges::any_of(
        styles, [&](const NumberStyle& s) { return s.marked && !s.ambiguous && s.comma == comma; });
  };
  return shows(true) ? DecimalMark::comma : shows(false) ? DecimalMark::point : DecimalMark::automatic;
}

double number_at(const CsvTable& csv, std::size_t row, std::size_t column, const NumberStyle& style) {
  const auto fail = [&](std::string_view problem) {
    throw DataError(csv.name(), csv.line(row), csv.header()[column],
                    fmt::format("'{}' {}", csv.cell(row, column), problem));
  };
  const auto checked = [&](double value) {
    if (!std::isfinite(value)) fail("is not finite; leave the cell empty if the value is missing");
    if (std::abs(value) > std::numeric_limits<float>::max()) {
      fail(
          "is too large: models calculate with numbers up to 3.4e38; leave the cell empty if it is a "
          "mistake, or divide the column");
    }
    return value;
  };
  if (means_missing(csv, row, column)) return std::numeric_limits<double>::quiet_NaN();
  if (const data::TypedColumn* values = csv.typed(column); values != nullptr && values->is_number())
    return checked(values->number(csv.source_row(row)));
  const std::string_view cell = csv.cell(row, column);
  if (style.boolean) return truth(cell).value_or(false) ? 1 : 0;
  const Bare bare = bare_number(cell);
  double value = 0;
  const Parsed parsed =
      bare.flagged && !style.flags ? Parsed::no_number : parse_styled(bare.digits, style, value, bare.power);
  if (parsed == Parsed::too_large) fail("does not fit a double");
  if (parsed == Parsed::no_number) {
    fail(fmt::format("is not a number; write 1234.5{}, or leave the cell empty if the value is missing",
                     style.comma ? " (1.234,5 as the column does)" : ""));
  }
  value = checked(value);
  if (bare.below) value /= 2;
  return bare.negative ? -value : value;
}

std::string describe(const CsvTable& csv, std::span<const std::size_t> columns,
                     std::span<const NumberStyle> styles) {
  std::string text;
  const auto add = [&](std::string_view what, auto holds) {
    const std::string names = list_columns(csv, columns, styles, holds);
    if (!names.empty()) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", what, names);
  };
  add("decimal comma", [](const NumberStyle& s) { return s.comma; });
  add("1,234 is 1234", [](const NumberStyle& s) { return s.grouped && !s.comma; });
  add("1.234 is a decimal, though it may as well be 1234: --decimal comma reads it so",
      [](const NumberStyle& s) { return s.ambiguous; });
  add("1.234 is 1234", [](const NumberStyle& s) { return s.grouped && s.comma; });
  add("1.2K is 1200", [](const NumberStyle& s) { return s.magnitudes; });
  add("12 % is 12", [](const NumberStyle& s) { return s.percent; });
  add("12 without % is 12, too", [](const NumberStyle& s) { return s.percent && s.unmarked; });
  add("<1 is 0.5", [](const NumberStyle& s) { return s.limits; });
  add("81 p is 81, without its flag", [](const NumberStyle& s) { return s.flags; });
  add("yes or true is 1", [](const NumberStyle& s) { return s.boolean; });
  add("currency signs left out", [](const NumberStyle& s) { return !s.currency.empty() && s.other.empty(); });
  for (const NumberStyle& style : styles) {
    if (style.other.empty()) continue;
    add(fmt::format("{} and {} counted alike", style.currency, style.other),
        [&](const NumberStyle& s) { return !s.other.empty(); });
    break;
  }
  return text;
}

}  // namespace ingot::forecast
