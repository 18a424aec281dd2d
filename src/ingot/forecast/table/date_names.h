#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

// The names that dates are written with.
namespace ingot::forecast {

inline constexpr std::array<std::string_view, 12> kMonthNames{
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
inline constexpr std::array<std::string_view, 7> kDayNames{"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                           "Friday", "Saturday", "Sunday"};

inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
inline bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

/// The index of a name, written in full or as its first three letters ("Sept" too), in any case.
template <std::size_t N>
std::optional<std::int64_t> find_name(const std::array<std::string_view, N>& names, std::string_view word) {
  for (std::size_t i = 0; i < N; ++i) {
    const bool is_short = word.size() == 3 || (word.size() == 4 && same_word(word, "sept"));
    if (same_word(names[i], word) || (is_short && same_word(names[i].substr(0, word.size()), word)))
      return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

/// One way in which a language other than English writes months and days of the week, each twelve and seven
/// words behind spaces, short ones with the dots that belong to them.
struct NameLists {
  std::string_view language;
  bool is_short = false;
  std::string_view months, days;
};
std::span<const NameLists> names_of_languages();

/// The index of a month's name, in any case, with or without its dot and its accents. `names`: 0 for English,
/// else the list names_of_languages()[names - 1].
std::optional<std::int64_t> find_month(std::string_view word, int names);
/// Of a day's, from Monday on: in any list of that language. `is_short`: whether that list is.
std::optional<std::int64_t> find_day(std::string_view word, int names, bool* is_short = nullptr);
/// The name of a month, as that list has it, and of a day, as the first list of its language that is short or
/// not.
std::string_view month_name(std::int64_t month, int names);
std::string_view day_name(std::int64_t day, int names, bool is_short);

/// The length of what makes the number before it an ordinal: "st" in 1st, "er" in 1er; 0 where there is none.
std::size_t ordinal_length(std::string_view text, int names);
/// What does so with a day.
std::string_view ordinal_of(std::int64_t day, int names);

/// Whether a column's name says that it holds dates, in some language: "Date", "order_date", "Datum".
bool names_date(std::string_view column);

/// Letters, also those outside of ASCII.
inline bool is_name_letter(char c) { return is_letter(c) || (static_cast<unsigned char>(c) & 0x80U) != 0; }

/// Seconds east of UTC of an abbreviation that stands for one offset where it is used in tables.
inline std::optional<std::int64_t> offset_of_zone(std::string_view name) {
  struct Zone {
    std::string_view name;
    int quarter_hours;
  };
  static constexpr std::array kZones{
      Zone{"UTC", 0},   Zone{"GMT", 0},    Zone{"UT", 0},     Zone{"Z", 0},     Zone{"WET", 0},
      Zone{"WEST", 4},  Zone{"BST", 4},    Zone{"CET", 4},    Zone{"MEZ", 4},   Zone{"CEST", 8},
      Zone{"MESZ", 8},  Zone{"EET", 8},    Zone{"EEST", 12},  Zone{"MSK", 12},  Zone{"IST", 22},
      Zone{"SGT", 32},  Zone{"HKT", 32},   Zone{"AWST", 32},  Zone{"JST", 36},  Zone{"KST", 36},
      Zone{"ACST", 38}, Zone{"ACDT", 42},  Zone{"AEST", 40},  Zone{"AEDT", 44}, Zone{"NZST", 48},
      Zone{"NZDT", 52}, Zone{"AST", -16},  Zone{"ADT", -12},  Zone{"EST", -20}, Zone{"EDT", -16},
      Zone{"CST", -24}, Zone{"CDT", -20},  Zone{"MST", -28},  Zone{"MDT", -24}, Zone{"PST", -32},
      Zone{"PDT", -28}, Zone{"AKST", -36}, Zone{"AKDT", -32}, Zone{"HST", -40}, Zone{"BRT", -12}};
  for (const Zone& zone : kZones) {
    if (zone.name == name) return zone.quarter_hours * 900;
  }
  return std::nullopt;
}

}  // namespace ingot::forecast
