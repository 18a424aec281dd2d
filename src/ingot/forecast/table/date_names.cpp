#include "ingot/forecast/table/date_names.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ingot/base/utf8.h"
#include "ingot/text/unicode.h"

namespace ingot::forecast {
namespace {

// Without case, accents and the dot at its end.
std::string folded(std::string_view word) {
  if (word.ends_with('.')) word.remove_suffix(1);
  std::string text(word);
  if (std::ranges::all_of(text, is_letter)) {
    std::ranges::transform(text, text.begin(), lower);
    return text;
  }
  if (!is_valid_utf8(text)) return text;
  text::lower_case(text);
  text::normalize_unicode(text, text::NormalForm::nfd);
  std::string bare;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    if (!text::is_nonspacing_mark(step.code_point)) bare.append(text, at, step.length);
    at += step.length;
  }
  return bare;
}

std::vector<std::string_view> split(std::string_view words) {
  std::vector<std::string_view> parts;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    parts.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return parts;
}

struct Folded {
  std::string_view language;
  bool is_short = false;
  std::vector<std::string_view> months, days;
  std::vector<std::string> folded_months, folded_days;
};

const std::vector<Folded>& lists() {
  static const std::vector<Folded> kLists = [] {
    std::vector<Folded> all;
    for (const NameLists& names : names_of_languages()) {
      Folded& list = all.emplace_back();
      list.language = names.language;
      list.is_short = names.is_short;
      list.months = split(names.months);
      list.days = split(names.days);
      for (const std::string_view month : list.months) list.folded_months.push_back(folded(month));
      for (const std::string_view day : list.days) list.folded_days.push_back(folded(day));
    }
    return all;
  }();
  return kLists;
}

const Folded& list_of(int names) { return lists()[static_cast<std::size_t>(names - 1)]; }

std::optional<std::int64_t> index_in(const std::vector<std::string>& words, const std::string& word) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return std::nullopt;
  return found - words.begin();
}

}  // namespace

std::optional<std::int64_t> find_month(std::string_view word, int names) {
  if (names == 0) return find_name(kMonthNames, word);
  return word.empty() ? std::nullopt : index_in(list_of(names).folded_months, folded(word));
}

std::optional<std::int64_t> find_day(std::string_view word, int names, bool* is_short) {
  bool unused = false;
  bool& found_short = is_short == nullptr ? unused : *is_short;
  found_short = word.size() == 3;
  if (names == 0) return find_name(kDayNames, word);
  if (word.empty()) return std::nullopt;
  const std::string sought = folded(word);
  for (const Folded& list : lists()) {
    if (list.language != list_of(names).language) continue;
    found_short = list.is_short;
    if (const auto day = index_in(list.folded_days, sought)) return day;
  }
  return std::nullopt;
}

std::string_view month_name(std::int64_t month, int names) {
  const auto at = static_cast<std::size_t>(month);
  return names == 0 ? kMonthNames[at] : list_of(names).months[at];
}

std::string_view day_name(std::int64_t day, int names, bool is_short) {
  const auto at = static_cast<std::size_t>(day);
  if (names == 0) return kDayNames[at];
  const auto fits = [&](const Folded& list) {
    return list.language == list_of(names).language && list.is_short == is_short;
  };
  const auto found = std::ranges::find_if(lists(), fits);
  return (found != lists().end() ? *found : list_of(names)).days[at];
}

std::size_t ordinal_length(std::string_view text, int names) {
  std::size_t n = 0;
  while (n < text.size() && is_name_letter(text[n])) ++n;
  const std::string_view word = text.substr(0, n);
  constexpr std::array<std::string_view, 4> kEnglish{"st", "nd", "rd", "th"};
  constexpr std::array<std::string_view, 5> kOthers{"er", "e", "\u00BA", "\u00B0", "\u00AA"};
  const auto is_word = [&](std::string_view other) { return same_word(word, other); };
  const bool is = names == 0 ? std::ranges::any_of(kEnglish, is_word) : std::ranges::any_of(kOthers, is_word);
  return is ? n : 0;
}

std::string_view ordinal_of(std::int64_t day, int names) {
  if (names != 0) return day == 1 && list_of(names).language == "French" ? "er" : "";
  const std::int64_t last = day / 10 == 1 ? 0 : day % 10;
  return last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
}

bool names_date(std::string_view column) {
  static constexpr std::array<std::string_view, 12> kNames{
      "date", "datetime", "day", "dteday", "dt", "datum", "fecha", "data", "dato", "päivä", "jour", "tag"};
  if (std::ranges::any_of(kNames, [&](std::string_view name) { return same_word(name, column); }))
    return true;
  constexpr std::size_t kDate = 4;
  if (column.size() <= kDate || !same_word(column.substr(column.size() - kDate), "date")) return false;
  const char before = column[column.size() - kDate - 1];  // order_date, OrderDate, but no update
  return !is_letter(before) || column[column.size() - kDate] == 'D';
}

}  // namespace ingot::forecast
