#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "ingot/train/language/rewards/reward.h"

namespace ingot {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string without(std::string text, std::string_view part) {
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos;) text.erase(at, part.size());
  return text;
}

// What stands in the braces that open at `open`; nothing where they do not close.
std::optional<std::string_view> in_braces(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth == 0) return text.substr(open + 1, i - open - 1);
  }
  return std::nullopt;
}

std::optional<std::string> last_boxed(std::string_view text) {
  constexpr std::string_view kBoxed = "\\boxed{";
  const std::size_t at = text.rfind(kBoxed);
  if (at == text.npos) return std::nullopt;
  const auto inside = in_braces(text, at + kBoxed.size() - 1);
  return inside ? std::optional(std::string(*inside)) : std::nullopt;
}

// \frac{1}{2} as 1/2.
std::string without_fractions(std::string text) {
  for (const std::string_view word : {"\\dfrac{", "\\tfrac{", "\\frac{"})
    for (std::size_t at = 0; (at = text.find(word, at)) != text.npos;) {
      const std::size_t open = at + word.size() - 1;
      const auto above = in_braces(text, open);
      if (!above) break;
      const std::size_t second = open + above->size() + 2;
      const auto below = second < text.size() && text[second] == '{' ? in_braces(text, second) : std::nullopt;
      if (!below) break;
      const std::string value = std::string(*above) + "/" + std::string(*below);
      text.replace(at, second + below->size() + 2 - at, value);
    }
  return text;
}

// Without what does not change the value: white space, currency, dots at the end, commas between thousands.
std::string normalized(std::string text) {
  text = without_fractions(std::move(text));
  for (const std::string_view part :
       {"\\$", "$", "\\%", "%", "\\,", "\\!", "\\left", "\\right", "\\text", "€", "£"})
    text = without(std::move(text), part);
  std::erase_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
  for (std::size_t i = 1; i + 3 < text.size(); ++i)
    if (text[i] == ',' && is_digit(text[i - 1]) && is_digit(text[i + 1]) && is_digit(text[i + 2]) &&
        is_digit(text[i + 3]) && (i + 4 == text.size() || !is_digit(text[i + 4])))
      text.erase(i--, 1);
  while (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

std::optional<double> number_of(const std::string& text) {
  const auto parse = [](const std::string& digits) -> std::optional<double> {
    if (digits.empty() || (!is_digit(digits.back()) && digits.back() != '.')) return std::nullopt;
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    return *end == '\0' && std::isfinite(value) ? std::optional(value) : std::nullopt;
  };
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return parse(text);
  const auto above = parse(text.substr(0, slash)), below = parse(text.substr(slash + 1));
  if (!above || !below || *below == 0) return std::nullopt;
  return *above / *below;
}

// With its sign, thousands and what is behind the dot or the bar of a fraction.
std::string last_number(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  if (end == 0) return {};
  std::size_t begin = end;
  while (begin > 0) {
    const char c = text[begin - 1];
    const bool joins = (c == '.' || c == ',' || c == '/') && begin >= 2 && is_digit(text[begin - 2]);
    if (!is_digit(c) && !joins) break;
    --begin;
  }
  if (begin > 0 && text[begin - 1] == '.') --begin;
  if (begin > 0 && text[begin - 1] == '-' &&
      (begin < 2 || std::isalnum(static_cast<unsigned char>(text[begin - 2])) == 0))
    --begin;
  return std::string(text.substr(begin, end - begin));
}

}  // namespace

bool is_right_answer(std::string_view answer, std::string_view right) {
  if (const std::size_t at = right.rfind("####"); at != right.npos) right.remove_prefix(at + 4);
  const std::string wanted = normalized(last_boxed(right).value_or(std::string(right)));
  const std::optional<std::string> boxed = last_boxed(answer);
  const auto value = number_of(wanted);
  const std::string given = normalized(boxed ? *boxed : last_number(answer));
  if (!value)
    return boxed ? given == wanted : !wanted.empty() && normalized(std::string(answer)).ends_with(wanted);
  const auto got = number_of(given);
  return got && std::abs(*got - *value) <= 1e-9 * std::max(1.0, std::abs(*value));
}

}  // namespace ingot
