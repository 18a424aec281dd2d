// Methods of strings, as Python has them.
#include <algorithm>
#include <cctype>
#include <unordered_map>

#include <fmt/format.h>

#include "ingot/base/utf8.h"
#include "ingot/text/jinja_arguments.h"
#include "ingot/text/jinja_eval.h"
#include "ingot/text/jinja_strings.h"
#include "ingot/text/unicode.h"

namespace ingot::text::jinja {

std::string text_argument(const Arguments& arguments, std::size_t position, std::string_view name) {
  const Value* given = arguments.find(position, name);
  INGOT_CHECK(given != nullptr && given->is_string(),
              TemplateError(0, fmt::format("\"{}\" must be a string", name)));
  return given->string();
}

std::int64_t integer_argument(const Arguments& arguments, std::size_t position, std::string_view name,
                              std::int64_t fallback) {
  const Value* given = arguments.find(position, name);
  if (given == nullptr) return fallback;
  INGOT_CHECK(given->is_integer(), TemplateError(0, fmt::format("\"{}\" must be an integer", name)));
  return given->integer();
}

void spend_on(const Arguments& arguments, Budget& budget) {
  for (const Value& given : arguments.positional)
    if (given.is_string()) budget.spend(given.string().size());
  for (const auto& [name, given] : arguments.named)
    if (given.is_string()) budget.spend(given.string().size());
}

namespace {

/// startswith and endswith take one string or several.
bool matches_any(std::string_view text, const Value* given, bool at_end, Budget& budget) {
  INGOT_CHECK(given != nullptr, TemplateError(0, "startswith and endswith need an argument"));
  const auto fits = [&](const Value& affix) {
    INGOT_CHECK(affix.is_string(), TemplateError(0, "startswith and endswith need strings"));
    budget.spend(std::min(affix.string().size(), text.size()));
    return at_end ? text.ends_with(affix.string()) : text.starts_with(affix.string());
  };
  if (given->is_list()) return std::any_of(given->list().begin(), given->list().end(), fits);
  return fits(*given);
}

bool all_characters(const std::string& text, bool (*holds)(char32_t)) {
  for (std::size_t at = 0; at < text.size();)
    if (!holds(decode_utf8(text, at))) return false;
  return !text.empty();
}

/// The part of a text that [start, end) of find, count and the like leave, in characters; and how many
/// precede it.
struct Range {
  std::string_view text;
  std::int64_t first = 0;
  bool empty_beyond = false;  // the start lies behind the end
};

Range range_of(const std::string& text, const Arguments& a) {
  if (a.find(1, "start") == nullptr && a.find(2, "end") == nullptr) return {.text = text};
  const auto size = static_cast<std::int64_t>(count_characters(text));
  const auto place = [&](std::size_t position, const char* name, std::int64_t fallback) {
    const Value* given = a.find(position, name);
    std::int64_t at =
        given == nullptr || given->is_none() ? fallback : integer_argument(a, position, name, 0);
    if (at < 0) at += size;
    return std::max<std::int64_t>(at, 0);
  };
  const std::int64_t first = place(1, "start", 0), last = std::min(place(2, "end", size), size);
  if (first > last) return {.text = {}, .first = first, .empty_beyond = true};
  const std::string_view part =
      std::string_view(text).substr(character_offset(text, static_cast<std::size_t>(first)));
  return {.text = part.substr(0, character_offset(part, static_cast<std::size_t>(last - first))),
          .first = first};
}

Value find_in(const std::string& text, const Arguments& a, bool from_right, bool must_be) {
  const Range range = range_of(text, a);
  const std::string part = text_argument(a, 0, "sub");
  const std::size_t found = range.empty_beyond ? std::string::npos
                            : from_right       ? find_text_from_end(range.text, part)
                                               : find_text(range.text, part);
  INGOT_CHECK(found != std::string::npos || !must_be, TemplateError(0, "substring not found"));
  if (found == std::string::npos) return std::int64_t{-1};
  return range.first + static_cast<std::int64_t>(count_characters(range.text.substr(0, found)));
}

Value count_in(std::string_view text, const std::string& part) {
  if (part.empty()) return static_cast<std::int64_t>(count_characters(text) + 1);
  std::int64_t n = 0;
  for (std::size_t at = find_text(text, part); at != std::string::npos;
       at = find_text(text, part, at + part.size()))
    ++n;
  return n;
}

Value split_lines(const std::string& text, Budget& budget) {
  List out;
  for (std::size_t begin = 0; begin < text.size();) {
    budget.spend_strings(1);
    const std::size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return out;
}

Value split_with(const std::string& text, const Arguments& a, bool from_right, Budget& budget) {
  const Value* separator = a.find(0, "sep");
  const std::int64_t limit = integer_argument(a, 1, "maxsplit", -1);
  if (separator == nullptr || separator->is_none()) return split(text, nullptr, limit, from_right, budget);
  const std::string by = text_argument(a, 0, "sep");
  return split(text, &by, limit, from_right, budget);
}

/// `width` characters, the text on the left, in the middle or on the right of them.
Value padded(const std::string& text, const Arguments& a, const std::string& how, Budget& budget) {
  const std::int64_t width = integer_argument(a, 0, "width", 0);
  const std::string fill = a.find(1, "fillchar") != nullptr ? text_argument(a, 1, "fillchar") : " ";
  INGOT_CHECK(count_characters(fill) == 1, TemplateError(0, "the fill character must be one character"));
  INGOT_CHECK(width < 1'000'000, TemplateError(0, "a width of more than a million"));
  const std::int64_t missing = width - static_cast<std::int64_t>(count_characters(text));
  if (missing <= 0) return text;
  budget.spend(static_cast<std::size_t>(missing) * fill.size());
  // As CPython does: of an odd number the greater half goes left where the width is odd too.
  const std::int64_t left = how == "ljust"   ? 0
                            : how == "rjust" ? missing
                                             : missing / 2 + (missing & width & 1);
  const auto some = [&](std::int64_t count) {
    std::string out;
    for (std::int64_t i = 0; i < count; ++i) out += fill;
    return out;
  };
  return some(left) + text + some(missing - left);
}

Value zero_filled(const std::string& text, const Arguments& a, Budget& budget) {
  const bool sign = text.starts_with('-') || text.starts_with('+');
  const Arguments rest{{integer_argument(a, 0, "width", 0) - (sign ? 1 : 0), "0"}, {}};
  const Value filled = padded(sign ? text.substr(1) : text, rest, "rjust", budget);
  return (sign ? text.substr(0, 1) : "") + filled.string();
}

Value partitioned(const std::string& text, const Arguments& a, bool from_right) {
  const std::string by = text_argument(a, 0, "sep");
  INGOT_CHECK(!by.empty(), TemplateError(0, "empty separator"));
  const std::size_t at = from_right ? find_text_from_end(text, by) : find_text(text, by);
  if (at != std::string::npos) return Value::tuple({text.substr(0, at), by, text.substr(at + by.size())});
  return from_right ? Value::tuple({"", "", text}) : Value::tuple({text, "", ""});
}

std::string swapped_case(const std::string& text, Budget& budget) {
  budget.spend_strings(text.size());
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = decode_utf8(text, at);
    const std::string one = to_utf8(std::u32string(1, c)), raised = upper(one);
    out += raised != one ? raised : lower(one);
  }
  return out;
}

/// Full case folding for what differs from lower case often: sharp s and final sigma.
std::string folded_case(const std::string& text, Budget& budget) {
  budget.spend_strings(text.size());
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = decode_utf8(text, at);
    if (c == U'\u00DF' || c == U'\u1E9E') {
      out += "ss";
    } else if (c == U'\u03C2') {
      out += "\u03C3";
    } else {
      out += lower(to_utf8(std::u32string(1, c)));
    }
  }
  return out;
}

bool is_letter(char32_t c) {
  return is_word_character(c) && !is_numeric(c) && !is_mark(c) && c != U'_' && c != U'\u203F' &&
         c != U'\u2040';
}
bool is_letter_or_number(char32_t c) { return is_letter(c) || is_numeric(c); }
/// General category Nd: \w has no other numbers.
bool is_decimal(char32_t c) { return is_numeric(c) && is_word_character(c); }

/// Whether there are letters with case, and all of them are of this one.
bool has_case(const std::string& text, bool upper_case) {
  const std::string other = upper_case ? lower(text) : upper(text),
                    same = upper_case ? upper(text) : lower(text);
  return text == same && text != other;
}

Value tabs_expanded(const std::string& text, const Arguments& a, Budget& budget) {
  const std::int64_t size = integer_argument(a, 0, "tabsize", 8);
  INGOT_CHECK(size < 10'000, TemplateError(0, "a tab of more than 10000 columns"));
  std::string out;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = decode_utf8(text, at);
    if (c == U'\t') {
      const std::size_t spaces =
          size > 0 ? static_cast<std::size_t>(size) - column % static_cast<std::size_t>(size) : 0;
      budget.spend(spaces);
      budget.check_size(out.size() + spaces);
      out.append(spaces, ' ');
      column += spaces;
    } else {
      append_utf8(out, c);
      column = c == U'\n' || c == U'\r' ? 0 : column + 1;
    }
  }
  return out;
}

bool is_identifier(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         all_characters(text, is_word_character);
}

using Method = Value (*)(const std::string& text, const Arguments& a, Budget& budget);

std::string characters(const Arguments& a) {
  return a.positional.empty() || a.positional[0].is_none() ? "" : text_argument(a, 0, "chars");
}

const std::unordered_map<std::string_view, Method>& methods() {
  using S = const std::string&;
  using A = const Arguments&;
  static const std::unordered_map<std::string_view, Method> table = {
      {"strip", [](S t, A a, Budget&) -> Value { return strip(t, characters(a), true, true); }},
      {"lstrip", [](S t, A a, Budget&) -> Value { return strip(t, characters(a), true, false); }},
      {"rstrip", [](S t, A a, Budget&) -> Value { return strip(t, characters(a), false, true); }},
      {"split", [](S t, A a, Budget& b) { return split_with(t, a, false, b); }},
      {"rsplit", [](S t, A a, Budget& b) { return split_with(t, a, true, b); }},
      {"splitlines", [](S t, A, Budget& b) { return split_lines(t, b); }},
      {"startswith",
       [](S t, A a, Budget& b) -> Value {
         return matches_any(range_of(t, a).text, a.find(0, "prefix"), false, b);
       }},
      {"endswith",
       [](S t, A a, Budget& b) -> Value {
         return matches_any(range_of(t, a).text, a.find(0, "suffix"), true, b);
       }},
      {"replace",
       [](S t, A a, Budget& b) -> Value {
         return replace(t, text_argument(a, 0, "old"), text_argument(a, 1, "new"),
                        integer_argument(a, 2, "count", -1), b);
       }},
      {"upper", [](S t, A, Budget&) -> Value { return upper(t); }},
      {"lower", [](S t, A, Budget&) -> Value { return lower(t); }},
      {"casefold", [](S t, A, Budget& b) -> Value { return folded_case(t, b); }},
      {"swapcase", [](S t, A, Budget& b) -> Value { return swapped_case(t, b); }},
      {"capitalize", [](S t, A, Budget&) -> Value { return capitalize(t); }},
      {"title", [](S t, A, Budget&) -> Value { return title(t); }},
      {"find", [](S t, A a, Budget&) { return find_in(t, a, false, false); }},
      {"rfind", [](S t, A a, Budget&) { return find_in(t, a, true, false); }},
      {"index", [](S t, A a, Budget&) { return find_in(t, a, false, true); }},
      {"rindex", [](S t, A a, Budget&) { return find_in(t, a, true, true); }},
      {"count", [](S t, A a, Budget&) { return count_in(range_of(t, a).text, text_argument(a, 0, "sub")); }},
      {"isdigit", [](S t, A, Budget&) -> Value { return all_characters(t, is_numeric); }},
      {"isnumeric", [](S t, A, Budget&) -> Value { return all_characters(t, is_numeric); }},
      {"isdecimal", [](S t, A, Budget&) -> Value { return all_characters(t, is_decimal); }},
      {"isspace", [](S t, A, Budget&) -> Value { return all_characters(t, is_white_space); }},
      {"isalpha", [](S t, A, Budget&) -> Value { return all_characters(t, is_letter); }},
      {"isalnum", [](S t, A, Budget&) -> Value { return all_characters(t, is_letter_or_number); }},
      {"isascii", [](S t, A, Budget&) -> Value { return is_ascii(t); }},
      {"islower", [](S t, A, Budget&) -> Value { return has_case(t, false); }},
      {"isupper", [](S t, A, Budget&) -> Value { return has_case(t, true); }},
      {"istitle", [](S t, A, Budget&) -> Value { return title(t) == t && lower(t) != upper(t); }},
      {"ljust", [](S t, A a, Budget& b) { return padded(t, a, "ljust", b); }},
      {"rjust", [](S t, A a, Budget& b) { return padded(t, a, "rjust", b); }},
      {"center", [](S t, A a, Budget& b) { return padded(t, a, "center", b); }},
      {"zfill", [](S t, A a, Budget& b) { return zero_filled(t, a, b); }},
      {"partition", [](S t, A a, Budget&) { return partitioned(t, a, false); }},
      {"rpartition", [](S t, A a, Budget&) { return partitioned(t, a, true); }},
      {"removeprefix",
       [](S t, A a, Budget&) -> Value {
         const std::string affix = text_argument(a, 0, "prefix");
         return t.starts_with(affix) ? t.substr(affix.size()) : t;
       }},
      {"removesuffix",
       [](S t, A a, Budget&) -> Value {
         const std::string affix = text_argument(a, 0, "suffix");
         return t.ends_with(affix) ? t.substr(0, t.size() - affix.size()) : t;
       }},
      {"format", [](S t, A a, Budget& b) -> Value { return format_fields(t, a, b); }},
      {"expandtabs", [](S t, A a, Budget& b) { return tabs_expanded(t, a, b); }},
      {"isidentifier", [](S t, A, Budget&) -> Value { return is_identifier(t); }},
      {"join",
       [](S t, A a, Budget& b) {
         const Value items = to_list(a.positional.empty() ? Value(List{}) : a.positional[0], b);
         INGOT_CHECK(std::ranges::all_of(items.list(), &Value::is_string),
                     TemplateError(0, "join() takes strings alone; the filter takes anything"));
         return apply_filter("join", items, {{t}, {}}, b);
       }},
  };
  return table;
}

}  // namespace

Value string_method(const Value& value, const std::string& name, Budget& budget) {
  const auto found = methods().find(name);
  if (found == methods().end()) return Undefined{name};
  return Function{name, [value, method = found->second, shared = &budget](const Arguments& a) {
                    shared->spend(value.string().size());
                    spend_on(a, *shared);
                    return method(value.string(), a, *shared);
                  }};
}

}  // namespace ingot::text::jinja
