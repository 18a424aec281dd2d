// Python's "{} {name:>5}".format(...).
#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/utf8.h"
#include "ingot/text/jinja_eval.h"
#include "ingot/text/jinja_strings.h"
#include "ingot/text/unicode.h"

namespace ingot::text::jinja {
namespace {

constexpr std::int64_t kMostFormatWidth = 100'000;

/// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct FormatSpec {
  char32_t fill = U' ';
  char align = 0, sign = '-', grouping = 0, type = 0;
  bool alternate = false, empty = true;
  std::int64_t width = 0, precision = -1;
};

std::int64_t format_number(const std::u32string& text, std::size_t& at) {
  std::int64_t out = 0;
  for (; at < text.size() && text[at] >= U'0' && text[at] <= U'9'; ++at)
    out = std::min(out * 10 + static_cast<std::int64_t>(text[at] - U'0'), kMostFormatWidth + 1);
  INGOT_CHECK(out <= kMostFormatWidth,
              TemplateError(0, fmt::format("a format is wider than {} characters", kMostFormatWidth)));
  return out;
}

FormatSpec read_format(const std::string& given) {
  const std::u32string text = to_utf32(given);
  const auto one_of = [&](std::size_t at, std::u32string_view set) {
    return at < text.size() && set.find(text[at]) != std::u32string_view::npos;
  };
  FormatSpec spec;
  spec.empty = text.empty();
  std::size_t at = 0;
  if (one_of(1, U"<>=^")) spec.fill = text[at++];
  if (one_of(at, U"<>=^")) spec.align = static_cast<char>(text[at++]);
  if (one_of(at, U"+- ")) spec.sign = static_cast<char>(text[at++]);
  if (one_of(at, U"#")) spec.alternate = at++ < text.size();
  if (one_of(at, U"0")) {
    if (spec.align == 0) {
      spec.fill = U'0';
      spec.align = '=';
    }
    ++at;
  }
  spec.width = format_number(text, at);
  if (one_of(at, U",_")) spec.grouping = static_cast<char>(text[at++]);
  if (one_of(at, U".")) spec.precision = format_number(text, ++at);
  if (one_of(at, U"bcdeEfFgGnosxX%")) spec.type = static_cast<char>(text[at++]);
  INGOT_CHECK(at == text.size(), TemplateError(0, fmt::format("\"{}\" is not a format", given)));
  return spec;
}

std::string grouped(const std::string& digits, const FormatSpec& spec) {
  if (spec.grouping == 0) return digits;
  const std::size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  const bool decimal = spec.type == 0 || std::string_view("bcoxX").find(spec.type) == std::string_view::npos;
  const std::size_t size = decimal ? 3 : 4;
  std::string out;
  for (std::size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % size == 0) out += spec.grouping;
    out += digits[i];
  }
  return out + digits.substr(end);
}

/// Without its sign.
std::string real_text(double v, const FormatSpec& spec, Budget& budget) {
  const auto precision =
      static_cast<int>(spec.precision < 0 ? 6 : std::min<std::int64_t>(spec.precision, 1000));
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", v, precision);
    case 'E':
      return fmt::format("{:.{}E}", v, precision);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", v, precision);
    case 'g':
    case 'n':
      return fmt::format("{:.{}g}", v, std::max(precision, 1));
    case 'G':
      return fmt::format("{:.{}G}", v, std::max(precision, 1));
    case '%':
      return fmt::format("{:.{}f}%", v * 100, precision);
    default:
      break;
  }
  if (spec.precision < 0) return to_text(Value(v), budget);
  std::string text = fmt::format("{:.{}g}", v, std::max(precision, 1));
  if (std::isfinite(v) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string integer_text(std::uint64_t v, const FormatSpec& spec) {
  const std::string_view prefix = spec.alternate ? "0" : "";
  switch (spec.type) {
    case 'b':
      return fmt::format("{}{}{:b}", prefix, spec.alternate ? "b" : "", v);
    case 'o':
      return fmt::format("{}{}{:o}", prefix, spec.alternate ? "o" : "", v);
    case 'x':
      return fmt::format("{}{}{}", prefix, spec.alternate ? "x" : "", grouped(fmt::format("{:x}", v), spec));
    case 'X':
      return fmt::format("{}{}{}", prefix, spec.alternate ? "X" : "", grouped(fmt::format("{:X}", v), spec));
    default:
      return grouped(fmt::format("{}", v), spec);
  }
}

std::string aligned(const std::string& sign, const std::string& text, char align, const FormatSpec& spec) {
  const std::int64_t missing = spec.width - static_cast<std::int64_t>(count_characters(text) + sign.size());
  if (missing <= 0) return sign + text;
  const auto fill = [&](std::int64_t count) {
    return to_utf8(std::u32string(static_cast<std::size_t>(count), spec.fill));
  };
  if (align == '=') return sign + fill(missing) + text;
  const std::int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  return fill(left) + sign + text + fill(missing - left);
}

std::string formatted_number(const Value& value, const FormatSpec& spec, Budget& budget) {
  const bool real = value.is_float() || std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  const bool fits =
      spec.type == 0 || spec.type == 'n' || spec.type == 'd' || real ||
      (!value.is_float() && std::string_view("bcoxX").find(spec.type) != std::string_view::npos);
  INGOT_CHECK(
      fits && !(value.is_float() && std::string_view("bcdoxX").find(spec.type) < 6),
      TemplateError(0, fmt::format("the format \"{}\" does not fit {}", spec.type, value.type_name())));
  const bool negative = real ? std::signbit(value.number()) : value.integer() < 0;
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  std::string text;
  if (real && (spec.type != 0 || value.is_float())) {
    text = grouped(real_text(std::fabs(value.number()), spec, budget), spec);
  } else if (spec.type == 'c') {
    INGOT_CHECK(value.integer() >= 0 && value.integer() <= 0x10FFFF, TemplateError(0, "not a character"));
    text = to_utf8(std::u32string(1, static_cast<char32_t>(value.integer())));
  } else {
    const auto bits = static_cast<std::uint64_t>(value.integer());
    text = integer_text(negative ? 0 - bits : bits, spec);
  }
  return aligned(sign, text, spec.align == 0 ? '>' : spec.align, spec);
}

std::string formatted_value(const Value& value, const std::string& given, Budget& budget) {
  const FormatSpec spec = read_format(given);
  if (spec.empty) return to_text(value, budget);
  if (value.is_bool() && spec.type == 0) return formatted_number(value.integer(), spec, budget);
  if (value.is_number()) return formatted_number(value, spec, budget);
  INGOT_CHECK(value.is_string() && (spec.type == 0 || spec.type == 's') && spec.align != '=',
              TemplateError(0, fmt::format("the format \"{}\" does not fit {}", given, value.type_name())));
  std::string text = value.string();
  if (spec.precision >= 0) text = to_utf8(to_utf32(text).substr(0, static_cast<std::size_t>(spec.precision)));
  return aligned("", text, spec.align == 0 ? '<' : spec.align, spec);
}

class FieldFormatter {
 public:
  FieldFormatter(const Arguments& arguments, Budget& budget) : arguments_(arguments), budget_(budget) {}

  std::string format(std::string_view pattern, int nesting) {
    INGOT_CHECK(nesting < 3, TemplateError(0, "the fields of a format nest too deep"));
    std::string out;
    for (std::size_t at = 0; at < pattern.size();) {
      const char c = pattern[at++];
      const bool doubled = at < pattern.size() && pattern[at] == c;
      if (c != '{' && c != '}') {
        out += c;
      } else if (doubled) {
        out += c;
        ++at;
      } else {
        INGOT_CHECK(c == '{', TemplateError(0, "a single \"}\" in a format"));
        const std::size_t end = field_end(pattern, at);
        out += field(pattern.substr(at, end - at), nesting);
        at = end + 1;
        budget_.check_size(out.size());
      }
    }
    budget_.spend(out.size());
    return out;
  }

 private:
  static std::size_t field_end(std::string_view pattern, std::size_t at) {
    for (int open = 0; at < pattern.size(); ++at) {
      if (pattern[at] == '{') ++open;
      if (pattern[at] == '}' && open-- == 0) return at;
    }
    throw TemplateError(0, "a field of a format is not closed");
  }

  std::string field(std::string_view text, int nesting) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    std::string_view name = text.substr(0, colon);
    const std::string spec = colon < text.size() ? format(text.substr(colon + 1), nesting + 1) : "";
    char conversion = 0;
    if (name.size() >= 2 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    Value value = look_up(name);
    if (conversion == 'r') value = python_repr(value, budget_);
    if (conversion == 's') value = to_text(value, budget_);
    INGOT_CHECK(conversion == 0 || conversion == 'r' || conversion == 's',
                TemplateError(0, fmt::format("the conversion \"!{}\" is not supported", conversion)));
    return formatted_value(value, spec, budget_);
  }

  /// name.attribute[key]
  Value look_up(std::string_view name) {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, at));
    while (at < name.size()) {
      budget_.spend();
      const bool attribute = name[at] == '.';
      const std::size_t begin = at + 1;
      const std::size_t end =
          std::min(attribute ? name.find_first_of(".[", begin) : name.find(']', begin), name.size());
      const std::string part(name.substr(begin, end - begin));
      std::int64_t index = 0;
      const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      const bool number = error == std::errc() && stop == part.data() + part.size();
      value = attribute ? get_attribute(value, part, budget_)
                        : get_item(value, number ? Value(index) : Value(part), budget_);
      INGOT_CHECK(!value.is_undefined(), TemplateError(0, fmt::format("a format finds no \"{}\"", part)));
      at = attribute ? end : end + 1;
    }
    return value;
  }

  Value first(std::string_view name) {
    std::size_t index = next_;
    budget_.spend(arguments_.named.size());
    if (name.empty()) {
      ++next_;
    } else {
      const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), index);
      if (error != std::errc() || stop != name.data() + name.size()) index = SIZE_MAX;
    }
    const Value* found = arguments_.find(index, name.empty() ? " " : name);
    INGOT_CHECK(found != nullptr, TemplateError(0, fmt::format("a format has no value for \"{}\"", name)));
    return *found;
  }

  const Arguments& arguments_;
  Budget& budget_;
  std::size_t next_ = 0;
};

}  // namespace

std::string format_fields(const std::string& pattern, const Arguments& arguments, Budget& budget) {
  return FieldFormatter(arguments, budget).format(pattern, 0);
}

}  // namespace ingot::text::jinja
