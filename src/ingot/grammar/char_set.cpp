#include "ingot/grammar/char_set.h"

#include <algorithm>
#include <array>

#include <utf8proc.h>

#include "ingot/base/utf8.h"
#include "ingot/text/unicode.h"

namespace ingot::grammar {
namespace {

constexpr char32_t kLast = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

template <class Has>
CharSet set_where(Has has) {
  CharSet set;
  for (char32_t c = 0; c <= kLast;) {
    if (!has(c)) {
      ++c;
      continue;
    }
    const char32_t first = c;
    while (c <= kLast && has(c)) ++c;
    set.add(first, c - 1);
  }
  return set;
}

// Sequences of byte ranges that cover first..last, all characters of which take so many bytes.
void add_sequences(Expressions& to, std::vector<ExprId>& choices, char32_t first, char32_t last,
                   std::size_t length) {
  for (std::size_t i = 1; i < length; ++i) {
    const char32_t mask = (char32_t{1} << (6 * i)) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      add_sequences(to, choices, first, first | mask, length);
      return add_sequences(to, choices, (first | mask) + 1, last, length);
    }
    if ((last & mask) != mask) {
      add_sequences(to, choices, first, (last & ~mask) - 1, length);
      return add_sequences(to, choices, last & ~mask, last, length);
    }
  }
  std::string a, b;
  append_utf8(a, first);
  append_utf8(b, last);
  std::vector<ExprId> parts;
  for (std::size_t i = 0; i < a.size(); ++i)
    parts.push_back(
        to.bytes(ByteSet::range(static_cast<unsigned char>(a[i]), static_cast<unsigned char>(b[i]))));
  choices.push_back(to.concat(parts));
}

}  // namespace

CharSet::CharSet(std::initializer_list<Range> ranges) {
  for (const auto& [first, last] : ranges) add(first, last);
}

void CharSet::add(char32_t first, char32_t last) {
  last = std::min(last, kLast);
  if (first > last) return;
  if (first <= kLastSurrogate && last >= kFirstSurrogate) {
    if (first < kFirstSurrogate) add(first, kFirstSurrogate - 1);
    if (last > kLastSurrogate) add(kLastSurrogate + 1, last);
    return;
  }
  ranges_.emplace_back(first, last);
  if (ranges_.size() == 1 || ranges_[ranges_.size() - 2].second + 1 < first) return;
  std::ranges::sort(ranges_);
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, range.second);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

void CharSet::add(const CharSet& other) {
  for (const auto& [first, last] : std::vector(other.ranges_)) add(first, last);
}

CharSet CharSet::complement() const {
  CharSet rest;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) rest.add(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) rest.add(next, kLast);
  return rest;
}

bool CharSet::has(char32_t c) const {
  return std::ranges::any_of(ranges_, [c](const Range& r) { return c >= r.first && c <= r.second; });
}

std::int64_t CharSet::single() const {
  const bool one = ranges_.size() == 1 && ranges_.front().first == ranges_.front().second;
  return one ? static_cast<std::int64_t>(ranges_.front().first) : -1;
}

const CharSet& digits(bool unicode) {
  static const CharSet kAscii{{'0', '9'}};
  static const CharSet kAll = set_where(text::is_numeric);
  return unicode ? kAll : kAscii;
}

const CharSet& white_space(bool unicode) {
  static const CharSet kAscii{{'\t', '\r'}, {' ', ' '}};
  static const CharSet kAll = [] {
    CharSet set = set_where(text::is_white_space);
    set.add(0x1C, 0x1F);      // Python's
    set.add(0xFEFF, 0xFEFF);  // JavaScript's
    return set;
  }();
  return unicode ? kAll : kAscii;
}

const CharSet& word_characters(bool unicode) {
  static const CharSet kAscii{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  static const CharSet kAll =
      set_where([](char32_t c) { return text::is_word_character(c) || text::is_numeric(c); });
  return unicode ? kAll : kAscii;
}

bool category(std::string_view name, CharSet& set) {
  if (name == "Any") {
    set = CharSet::all();
    return true;
  }
  if (name.empty() || name.size() > 2) return false;
  set = set_where([&](char32_t c) {
    const std::string_view of = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
    return of.starts_with(name);
  });
  return !set.empty();
}

CharSet ignoring_case(const CharSet& set) {
  CharSet both = set;
  for (char32_t c = 'a'; c <= 'z'; ++c) {
    const char32_t upper = c - 'a' + 'A';
    if (set.has(c) || set.has(upper)) {
      both.add(c, c);
      both.add(upper, upper);
    }
  }
  return both;
}

ExprId utf8(Expressions& to, const CharSet& set) {
  constexpr std::array<char32_t, 4> kEnds{0x7F, 0x7FF, 0xFFFF, kLast};
  std::vector<ExprId> choices;
  for (auto [first, last] : set.ranges()) {
    for (std::size_t i = 0; i < kEnds.size() && first <= last; ++i) {
      if (first > kEnds[i]) continue;
      add_sequences(to, choices, first, std::min(last, kEnds[i]), i + 1);
      first = kEnds[i] + 1;
    }
  }
  return to.either(std::move(choices));
}

ExprId json_char(Expressions& to, const CharSet& set) {
  constexpr std::string_view kHex = "0123456789abcdef", kUpper = "0123456789ABCDEF";
  CharSet plain;
  std::vector<std::string> escapes;
  for (const auto& [first, last] : set.ranges()) {
    plain.add(std::max<char32_t>(first, ' '), last);
    for (char32_t c = first; c <= last && c < ' '; ++c) {
      constexpr std::string_view kControls = "\b\f\n\r\t", kLetters = "bfnrt";
      const std::size_t at = kControls.find(static_cast<char>(c));
      if (at != kControls.npos) escapes.push_back({'\\', kLetters[at]});
      for (const std::string_view hex : {kHex, kUpper})
        escapes.push_back(std::string("\\u00") + (c < 16 ? '0' : '1') + hex[c % 16]);
    }
  }
  if (plain.has('"')) escapes.emplace_back("\\\"");
  if (plain.has('\\')) escapes.emplace_back("\\\\");
  CharSet excluded = plain.complement();
  excluded.add('"', '"');
  excluded.add('\\', '\\');
  const ExprId raw = utf8(to, excluded.complement());
  return escapes.empty() ? raw : to.either(raw, to.one_of(std::move(escapes)));
}

}  // namespace ingot::grammar
