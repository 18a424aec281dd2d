// Filters of the template language that write text, with the meaning they have in Jinja2.
#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/utf8.h"
#include "ingot/text/jinja_filter_call.h"
#include "ingot/text/jinja_strings.h"
#include "ingot/text/unicode.h"

namespace ingot::text::jinja {

Value indent(const Call& call) {
  const Value* width = call.find(0, "width");
  const std::string space =
      width != nullptr && width->is_string()
          ? width->string()
          : std::string(
                static_cast<std::size_t>(std::clamp<std::int64_t>(call.integer(0, "width", 4), 0, 1000)),
                ' ');
  const bool first = call.flag(1, "first", false), blank = call.flag(2, "blank", false);
  INGOT_CHECK(call.value.is_string(), TemplateError(0, "indent needs a string"));
  const std::string& text = call.value.string();
  call.budget.spend(space.size());
  std::string out;
  for (std::size_t begin = 0, line = 0; begin <= text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const bool empty = end == begin;
    if (line == 0 ? first : blank || !empty) out += space;
    call.budget.spend(space.size());
    out.append(text, begin, end - begin);
    if (end < text.size()) out += '\n';
    begin = end + 1;
    call.budget.check_size(out.size());
  }
  return out;
}

Value escape(const Call& call) { return escape_html(to_text(call.value, call.budget), call.budget); }

// Attributes of an HTML tag.
Value xml_attributes(const Call& call) {
  std::string out;
  const Value pairs = items_of(call.value, call.budget);
  for (const Value& pair : pairs.list()) {
    const Value &key = pair.list()[0], &value = pair.list()[1];
    if (value.is_none() || value.is_undefined()) continue;
    INGOT_CHECK(key.is_string() && key.string().find_first_of(" \t\n\v\f\r/>=") == std::string::npos,
                TemplateError(0, "xmlattr: not the name of an attribute"));
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "" : " ", escape_html(key.string(), call.budget),
                       escape_html(to_text(value, call.budget), call.budget));
    call.budget.check_size(out.size());
  }
  return call.flag(0, "autospace", true) && !out.empty() ? " " + out : out;
}

Value word_wrap(const Call& call) {
  const std::int64_t width = call.integer(0, "width", 79);
  INGOT_CHECK(width > 0, TemplateError(0, "wordwrap needs a positive width"));
  const Value* given = call.find(2, "wrapstring");
  const std::string separator = given != nullptr && !given->is_none() ? to_text(*given, call.budget) : "\n";
  const WrapStyle style{.width = static_cast<std::size_t>(width),
                        .break_long_words = call.flag(1, "break_long_words", true),
                        .break_on_hyphens = call.flag(3, "break_on_hyphens", true)};
  INGOT_CHECK(call.value.is_string(), TemplateError(0, "wordwrap needs a string"));
  const Value lines =
      bound_method(to_text(call.value, call.budget), "splitlines", call.budget).function().call({});
  std::string out;
  for (const Value& line : lines.list()) {
    if (&line != &lines.list().front()) out += separator;
    out += wrap_line(line.string(), style, separator, call.budget);
    call.budget.check_size(out.size());
  }
  return out;
}

Value word_count(const Call& call) {
  std::int64_t count = 0;
  bool inside = false;
  const std::string text = to_text(call.value, call.budget);
  for (std::size_t at = 0; at < text.size();) {
    const bool word = is_word_character(decode_utf8(text, at));
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return count;
}

// What may stand in an address as it is.
Value url_encode(const Call& call) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  const std::string text = to_text(call.value, call.budget);
  call.budget.spend(3 * text.size());
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (std::isalnum(byte) != 0 ||
                                       std::string_view("_.-~/").find(c) != std::string_view::npos);
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
  return out;
}

Value truncate(const Call& call) {
  const std::string all = to_text(call.value, call.budget);
  const std::int64_t length = call.integer(0, "length", 255), leeway = call.integer(3, "leeway", 5);
  const std::string end = call.text(2, "end", "...");
  const auto size = static_cast<std::int64_t>(count_characters(all)),
             tail = static_cast<std::int64_t>(count_characters(end));
  INGOT_CHECK(length >= tail,
              TemplateError(0, fmt::format("truncate to {} is shorter than its end", length)));
  // As leeway may be anything, so may be their sum.
  if (size <= length || size - length <= std::max<std::int64_t>(leeway, 0)) return all;
  std::string kept = all.substr(0, character_offset(all, static_cast<std::size_t>(length - tail)));
  if (!call.flag(1, "killwords", false)) kept = kept.substr(0, kept.rfind(' '));
  return kept + end;
}

Value file_size(const Call& call) {
  INGOT_CHECK(call.value.is_number(), TemplateError(0, "filesizeformat needs a number"));
  const double bytes = call.value.number(), base = call.flag(0, "binary", false) ? 1024 : 1000;
  if (bytes == 1) return "1 Byte";
  if (bytes < base) return fmt::format("{:.0f} Bytes", std::trunc(bytes));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  std::size_t i = 0;
  for (; i + 1 < kPrefixes.size() && bytes >= unit * base; ++i) unit *= base;
  const bool binary = base == 1024;
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  return fmt::format("{:.1f} {}{}B", bytes / unit, prefix, binary ? "i" : "");
}

// Without comments and tags, runs of white space as one space, entities as their characters.
Value strip_tags(const Call& call) {
  std::string text = to_text(call.value, call.budget);
  const auto cut = [&](std::string_view open, std::string_view close) {
    std::string kept;
    std::size_t at = 0;
    while (true) {
      const std::size_t begin = text.find(open, at);
      const std::size_t end = begin == std::string::npos ? begin : text.find(close, begin);
      kept.append(text, at, end == std::string::npos ? std::string::npos : begin - at);
      if (end == std::string::npos) break;
      at = end + close.size();
    }
    text = std::move(kept);
  };
  cut("<!--", "-->");
  cut("<", ">");
  std::string out;
  for (const Value& word : split(text, nullptr, -1, false, call.budget)) {
    if (!out.empty()) out += ' ';
    out += word.string();
  }
  for (const auto& [entity, character] : {std::pair<const char*, const char*>{"&lt;", "<"},
                                          {"&gt;", ">"},
                                          {"&#34;", "\""},
                                          {"&quot;", "\""},
                                          {"&#39;", "'"},
                                          {"&amp;", "&"}})
    out = replace(out, entity, character, -1, call.budget);
  return out;
}

}  // namespace ingot::text::jinja
