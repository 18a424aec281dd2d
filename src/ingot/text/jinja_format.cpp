// Python's "%s %05.2f" % values.
#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/utf8.h"
#include "ingot/text/jinja_eval.h"
#include "ingot/text/jinja_strings.h"

namespace ingot::text::jinja {
namespace {

// One conversion: %[(key)][flags][width][.precision]kind
struct Conversion {
  std::string key, flags;
  bool has_key = false;
  std::int64_t width = 0, precision = -1;
  char kind = 's';
};

constexpr std::int64_t kMostWidth = 100'000;

// Reads values one after another, or by their keys.
class Formatter {
 public:
  Formatter(const std::string& pattern, const Value& argument, Budget& budget)
      : pattern_(pattern), argument_(argument), budget_(budget) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_++];
      if (c != '%') {
        out_ += c;
        continue;
      }
      const Conversion conversion = read();
      if (conversion.kind == '%') {
        out_ += '%';
        continue;
      }
      const std::string piece = padded(conversion, converted(conversion, next(conversion)));
      budget_.spend(piece.size());
      out_ += piece;
      budget_.check_size(out_.size());
    }
    return std::move(out_);
  }

 private:
  char peek() const {
    INGOT_CHECK(at_ < pattern_.size(), TemplateError(0, "a format ends after \"%\""));
    return pattern_[at_];
  }

  std::int64_t number() {
    std::int64_t value = 0;
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      value = std::min(value * 10 + (pattern_[at_++] - '0'), kMostWidth + 1);
    }
    INGOT_CHECK(value <= kMostWidth, TemplateError(0, fmt::format("a width of more than {}", kMostWidth)));
    return value;
  }

  Conversion read() {
    Conversion c;
    if (peek() == '(') {
      const std::size_t end = pattern_.find(')', at_);
      INGOT_CHECK(end != std::string::npos, TemplateError(0, "a format lacks \")\""));
      c.key = pattern_.substr(at_ + 1, end - at_ - 1);
      c.has_key = true;
      at_ = end + 1;
    }
    while (std::string_view("-+ #0").find(peek()) != std::string_view::npos) c.flags += pattern_[at_++];
    c.width = number();
    if (peek() == '.') {
      ++at_;
      c.precision = number();
    }
    c.kind = peek();
    ++at_;
    return c;
  }

  Value next(const Conversion& c) {
    if (c.has_key) {
      INGOT_CHECK(argument_.is_dict(), TemplateError(0, "a format with names needs a mapping"));
      budget_.spend(argument_.dict().entries.size());
      const Value* found = argument_.dict().find(c.key, budget_);
      INGOT_CHECK(found != nullptr, TemplateError(0, fmt::format("the format's \"{}\" is not there", c.key)));
      return *found;
    }
    if (!argument_.is_tuple()) {
      INGOT_CHECK(used_++ == 0, TemplateError(0, "a format needs more values"));
      return argument_;
    }
    INGOT_CHECK(used_ < argument_.list().size(), TemplateError(0, "a format needs more values"));
    return argument_.list()[used_++];
  }

  bool has(const Conversion& c, char flag) const { return c.flags.find(flag) != std::string::npos; }

  std::string signed_text(const Conversion& c, bool negative, std::string digits) const {
    return (negative ? "-" : has(c, '+') ? "+" : has(c, ' ') ? " " : "") + std::move(digits);
  }

  std::string converted(const Conversion& c, const Value& value) {
    switch (c.kind) {
      case 's':
      case 'r':
      case 'a': {
        const std::string text = c.kind == 's' ? to_text(value, budget_) : python_repr(value, budget_);
        if (c.precision < 0) return text;
        return get_slice(text, Value(), c.precision, Value(), budget_).string();
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer(c, value);
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
        return real(c, value);
      case 'c':
        return character(value);
      default:
        throw TemplateError(0, fmt::format("unsupported format character '{}'", c.kind));
    }
  }

  static std::string character(const Value& value) {
    if (value.is_string() && count_characters(value.string()) == 1) return value.string();
    INGOT_CHECK(value.is_integer() && value.integer() >= 0 && value.integer() <= 0x10FFFF,
                TemplateError(0, "%c requires a character or its number"));
    return to_utf8(std::u32string(1, static_cast<char32_t>(value.integer())));
  }

  std::string integer(const Conversion& c, const Value& value) {
    INGOT_CHECK(value.is_number(), TemplateError(0, fmt::format("%{} format: a number is required, not {}",
                                                                c.kind, value.type_name())));
    const bool whole = !value.is_float();
    INGOT_CHECK(whole || c.kind == 'd' || c.kind == 'i' || c.kind == 'u',
                TemplateError(0, fmt::format("%{} format: an integer is required", c.kind)));
    INGOT_CHECK(whole || (value.number() > -9e18 && value.number() < 9e18),
                TemplateError(0, "a number is too large for %d"));
    const std::int64_t n = whole ? value.integer() : static_cast<std::int64_t>(value.number());
    const std::uint64_t size = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
    const bool marked = has(c, '#');
    std::string digits = c.kind == 'x'   ? fmt::format("{:x}", size)
                         : c.kind == 'X' ? fmt::format("{:X}", size)
                         : c.kind == 'o' ? fmt::format("{:o}", size)
                                         : fmt::format("{}", size);
    if (static_cast<std::int64_t>(digits.size()) < c.precision)
      digits.insert(0, static_cast<std::size_t>(c.precision) - digits.size(), '0');
    if (marked && c.kind == 'x') digits.insert(0, "0x");
    if (marked && c.kind == 'X') digits.insert(0, "0X");
    if (marked && c.kind == 'o') digits.insert(0, "0o");
    return signed_text(c, n < 0, std::move(digits));
  }

  std::string real(const Conversion& c, const Value& value) {
    INGOT_CHECK(value.is_number(), TemplateError(0, fmt::format("%{} format: a number is required, not {}",
                                                                c.kind, value.type_name())));
    INGOT_CHECK(c.precision <= 350, TemplateError(0, "a precision of more than 350"));
    const std::string spec =
        fmt::format("{{:{}.{}{}}}", has(c, '#') ? "#" : "", c.precision < 0 ? 6 : c.precision, c.kind);
    const double v = value.number();
    return signed_text(c, std::signbit(v), fmt::format(fmt::runtime(spec), std::fabs(v)));
  }

  std::string padded(const Conversion& c, std::string text) const {
    const auto missing = c.width - static_cast<std::int64_t>(count_characters(text));
    if (missing <= 0) return text;
    const auto count = static_cast<std::size_t>(missing);
    if (has(c, '-')) return text + std::string(count, ' ');
    const bool number = std::string_view("sra").find(c.kind) == std::string_view::npos;
    if (!has(c, '0') || !number) return std::string(count, ' ') + text;
    const std::size_t sign = text.starts_with('-') || text.starts_with('+') || text.starts_with(' ') ? 1 : 0;
    return text.insert(sign, count, '0');
  }

  const std::string& pattern_;
  const Value& argument_;
  Budget& budget_;
  std::size_t at_ = 0, used_ = 0;
  std::string out_;
};

}  // namespace

Value format_text(const std::string& pattern, const Value& argument, Budget& budget) {
  budget.spend(pattern.size());
  return Formatter(pattern, argument, budget).run();
}

}  // namespace ingot::text::jinja
