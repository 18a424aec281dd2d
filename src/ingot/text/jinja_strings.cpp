#include "ingot/text/jinja_strings.h"

#include <algorithm>
#include <cstring>

#include <utf8proc.h>

#include "ingot/base/utf8.h"
#include "ingot/text/jinja_eval.h"
#include "ingot/text/unicode.h"

namespace ingot::text::jinja {

namespace {

/// White space to str.strip(): the property, and the four separators among the control characters.
bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

/// `sharp_s`: what becomes of the common letter whose upper case is two characters, where it changes.
template <class Change>
std::string change(std::string_view text, Change change_character, std::string_view sharp_s) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = decode_utf8(text, i);
    const char32_t changed = change_character(c);
    if (c == 0xDF && changed != c)
      out += sharp_s;
    else
      append_utf8(out, changed);
  }
  return out;
}

char32_t upper_of(char32_t c) {
  return c == 0xDF ? U'S' : static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t title_of(char32_t c) {
  return c == 0xDF ? U'S' : static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}
char32_t lower_of(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::size_t character_offset(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  for (; count > 0 && at < text.size(); --count) at += utf8_length(text[at]);
  return std::min(at, text.size());
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return text.npos;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? text.npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_text_from_end(std::string_view text, std::string_view part) {
  const std::string backwards(text.rbegin(), text.rend()), wanted(part.rbegin(), part.rend());
  const std::size_t found = find_text(backwards, wanted);
  return found == text.npos ? text.npos : text.size() - found - part.size();
}

std::string upper(std::string_view text) { return change(text, upper_of, "SS"); }

namespace {

bool is_cased(char32_t c) { return lower_of(c) != c || upper_of(c) != c; }

std::size_t character_before(std::string_view text, std::size_t at) {
  while (--at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) {
  }
  return at;
}

// Behind a letter and before none, a sigma has a form of its own (Unicode's Final_Sigma).
std::string with_final_sigmas(std::string_view text) {
  constexpr std::string_view kSigma = "\u03A3";
  const auto cased = [&](std::size_t at) { return at < text.size() && is_cased(decode_utf8(text, at)); };
  std::string out, part;
  for (std::size_t done = 0; done <= text.size();) {
    const std::size_t at = std::min(text.find(kSigma, done), text.size());
    part = text.substr(done, at - done);
    lower_case(part);
    out += part;
    if (at == text.size()) break;
    done = at + kSigma.size();
    const bool last = at > 0 && cased(character_before(text, at)) && !cased(done);
    out += last ? "\u03C2" : "\u03C3";
  }
  return out;
}

}  // namespace

std::string lower(std::string_view text) {
  if (text.find("\u03A3") != text.npos) return with_final_sigmas(text);
  std::string out(text);
  lower_case(out);
  return out;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t first = utf8_length(text[0]);
  return change(text.substr(0, first), title_of, "Ss") + lower(text.substr(first));
}

std::string title(std::string_view text) {
  bool inside = false;
  return change(
      text,
      [&](char32_t c) {
        const bool letter = is_word_character(c) && c != '_' && !is_numeric(c);
        const char32_t out = inside ? lower_of(c) : title_of(c);
        inside = letter;
        return out;
      },
      "Ss");
}

namespace {

/// Characters, of which there may be many: each is looked for in no time.
class CharacterSet {
 public:
  explicit CharacterSet(std::string_view characters) {
    if (characters.size() <= kFew) {
      few_ = to_utf32(characters);
      return;
    }
    many_.resize(0x110000);
    for (std::size_t at = 0; at < characters.size();) many_[decode_utf8(characters, at)] = true;
  }
  bool contains(char32_t c) const {
    return many_.empty() ? few_.find(c) != std::u32string::npos : c < many_.size() && many_[c];
  }

 private:
  static constexpr std::size_t kFew = 64;
  std::u32string few_;
  std::vector<bool> many_;
};

}  // namespace

std::string strip(const std::string& text, std::string_view characters, bool left, bool right) {
  const CharacterSet set(characters);
  const auto goes = [&](std::size_t& at) {
    const char32_t c = decode_utf8(text, at);
    return characters.empty() ? is_python_space(c) : set.contains(c);
  };
  std::size_t begin = 0, end = text.size();
  for (std::size_t at = begin; left && begin < end && goes(at);) begin = at;
  while (right && end > begin) {
    std::size_t at = character_before(text, end);
    const std::size_t last = at;
    if (!goes(at)) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

std::string replace(const std::string& text, const std::string& from, const std::string& to,
                    std::int64_t count, Budget& budget) {
  std::string out;
  std::size_t at = 0;
  std::int64_t left = count < 0 ? INT64_MAX : count;
  const auto put = [&](std::string_view part) {
    budget.spend(part.size());
    budget.check_size(out.size() + part.size());
    out += part;
  };
  while (left-- > 0) {
    if (from.empty()) {
      put(to);
      if (at >= text.size()) return out;
      const std::size_t n = utf8_length(text[at]);
      put(std::string_view(text).substr(at, n));
      at += n;
      continue;
    }
    const std::size_t found = find_text(text, from, at);
    if (found == std::string::npos) break;
    put(std::string_view(text).substr(at, found - at));
    put(to);
    at = found + from.size();
  }
  put(std::string_view(text).substr(at));
  return out;
}

namespace {

List split_at_spaces(const std::string& text, std::int64_t limit, bool from_right, Budget& budget) {
  // Words as [begin, end), with the rest left as it is once the limit is reached.
  std::vector<std::pair<std::size_t, std::size_t>> words;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    if (is_python_space(decode_utf8(text, i))) {
      inside = false;
      continue;
    }
    if (!inside) {
      budget.spend_strings(1);
      words.emplace_back(begin, i);
    }
    inside = true;
    words.back().second = i;
  }
  if (limit >= 0 && words.size() > static_cast<std::size_t>(limit) + 1) {
    const auto keep = static_cast<std::size_t>(limit);
    if (from_right) {
      words[words.size() - keep - 1].first = words[0].first;
      words.erase(words.begin(), words.end() - static_cast<std::ptrdiff_t>(keep) - 1);
    } else {
      words[keep].second = words.back().second;  // Python keeps the spaces at the end here
      if (limit >= 0) words[keep].second = text.size();
      words.resize(keep + 1);
    }
  }
  List out;
  out.reserve(words.size());
  for (const auto& [begin, end] : words) out.emplace_back(text.substr(begin, end - begin));
  return out;
}

}  // namespace

List split(const std::string& text, const std::string* separator, std::int64_t limit, bool from_right,
           Budget& budget) {
  if (separator == nullptr) return split_at_spaces(text, limit, from_right, budget);
  INGOT_CHECK(!separator->empty(), TemplateError(0, "split needs a separator that is not empty"));
  List out;
  std::int64_t left = limit < 0 ? INT64_MAX : limit;
  budget.spend(text.size());
  if (from_right && limit >= 0) {
    std::size_t end = text.size();
    while (left-- > 0 && end >= separator->size()) {
      budget.spend(end);
      budget.spend_strings(1);
      const std::size_t found = find_text_from_end(std::string_view(text).substr(0, end), *separator);
      if (found == std::string::npos) break;
      out.push_back(text.substr(found + separator->size(), end - found - separator->size()));
      end = found;
    }
    out.push_back(text.substr(0, end));
    std::reverse(out.begin(), out.end());
    return out;
  }
  std::size_t begin = 0;
  while (left-- > 0) {
    const std::size_t found = find_text(text, *separator, begin);
    if (found == std::string::npos) break;
    budget.spend_strings(1);
    out.push_back(text.substr(begin, found - begin));
    begin = found + separator->size();
  }
  out.push_back(text.substr(begin));
  return out;
}

std::string escape_html(std::string_view text, Budget& budget) {
  constexpr std::string_view kFrom = "&<>\"'";
  constexpr std::string_view kTo[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  std::size_t size = 0;
  for (const char c : text) {
    const std::size_t found = kFrom.find(c);
    size += found == std::string_view::npos ? 1 : kTo[found].size();
  }
  budget.check_size(size);
  budget.spend(size);
  std::string out;
  out.reserve(size);
  for (const char c : text) {
    const std::size_t found = kFrom.find(c);
    if (found == std::string_view::npos)
      out += c;
    else
      out += kTo[found];
  }
  return out;
}

std::string title_words(const std::string& text) {
  std::string out, word;
  const auto flush = [&] {
    const std::size_t head = word.empty() ? 0 : utf8_length(word[0]);
    out += upper(word.substr(0, head)) + lower(word.substr(head));
    word.clear();
  };
  for (const char32_t c : to_utf32(text)) {
    const bool begins =
        is_white_space(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
    if (begins) flush();
    append_utf8(begins ? out : word, c);
  }
  flush();
  return out;
}

}  // namespace ingot::text::jinja
