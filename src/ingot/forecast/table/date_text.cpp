#include "ingot/forecast/table/date_text.h"

#include <array>
#include <cstddef>
#include <utility>

namespace ingot::forecast {
namespace {

// Halves of the day that stand before the clock in Korean, Chinese and Japanese, as AM and PM behind it;
// without the day of the week.
void use_english_halves(std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kHalves{{{"\uc624\uc804", " AM"},
                                                                                  {"\uc624\ud6c4", " PM"},
                                                                                  {"\u4e0a\u5348", " AM"},
                                                                                  {"\u4e0b\u5348", " PM"},
                                                                                  {"\u5348\u524d", " AM"},
                                                                                  {"\u5348\u5f8c", " PM"}}};
  for (const std::string_view week : {" \u661f\u671f", " \u5468"}) {
    const std::size_t at = text.find(week);
    constexpr std::size_t kSign = 3;  // bytes of the day's
    if (at != std::string::npos && at + week.size() + kSign <= text.size())
      text.erase(at, week.size() + kSign);
  }
  for (const auto& [word, half] : kHalves) {
    const std::size_t at = text.find(word);
    if (at == std::string::npos) continue;
    std::size_t size = word.size();
    while (at + size < text.size() && text[at + size] == ' ') ++size;
    text.erase(at, size);
    text += half;
  }
}

}  // namespace

std::size_t end_of_start(std::string_view cell) {
  for (const std::string_view mark : {" - ", " \u2013 ", " to "}) {
    const std::size_t at = cell.find(mark);
    if (at == std::string_view::npos || cell.find(mark, at + 1) != std::string_view::npos) continue;
    const std::string_view start = cell.substr(0, at), end = cell.substr(at + mark.size());
    // "2016-07-01 - 13:00" is a date and its time.
    const bool only_clock = end.find(':') != std::string_view::npos && end.size() <= 8 &&
                            start.find(':') == std::string_view::npos;
    return at >= 8 && end.size() >= 5 && !only_clock ? at : std::string_view::npos;
  }
  const std::size_t middle = cell.size() / 2;
  const bool halves = cell.size() >= 17 && cell.size() % 2 == 1 && cell[middle] == '/';
  return halves ? middle : std::string_view::npos;
}

std::string with_plain_spaces(std::string_view cell) {
  std::string out(cell);
  for (const std::string_view space : {"\u00A0", "\u202F"}) {
    for (std::size_t at = 0; (at = out.find(space, at)) != std::string::npos;)
      out.replace(at, space.size(), " ");
  }
  use_english_halves(out);
  if (out.ends_with(kExtraHour)) out.resize(out.size() - kExtraHour.size());
  if (out.starts_with('\'')) out.erase(0, 1);  // by which Excel is told that a cell is text
  return out;
}

}  // namespace ingot::forecast
