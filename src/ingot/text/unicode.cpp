#include "ingot/text/unicode.h"

#include <algorithm>

#include <utf8proc.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/unicode_tables.h"

namespace ingot::text {

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool in_category(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  const utf8proc_category_t here = category(c);
  return here >= first && here <= last;
}

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || c == ' ';
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      break;
  }
  // Join controls, the circled, squared and negative letters that are alphabetic symbols, and newer
  // characters.
  if (c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189))
    return true;
  return newer_kind(c) <= NewerCharacters::nd;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  if (c == 0x166D || c == 0x111C9) return true;  // were punctuation in Unicode 8
  return in_category(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) && !became_punctuation_after_unicode_8(c);
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  if (in_category(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO)) return true;
  const NewerCharacters::Kind kind = newer_kind(c);
  return kind == NewerCharacters::nd || kind == NewerCharacters::number;
}

bool is_control(char32_t c) {
  if (c < 0x80) return c < 0x20 || c == 0x7F;
  return in_category(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO) && !became_control_after_unicode_8(c);
}

bool is_nonspacing_mark(char32_t c) {
  return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN && !became_nonspacing_after_unicode_8(c);
}

bool is_mark(char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // were marks in Unicode 9
  return c >= 0x300 && in_category(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) &&
         !became_mark_after_unicode_9(c);
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

namespace {

std::string normalize_part(std::string_view text, NormalForm form) {
  int options = UTF8PROC_STABLE;
  if (form == NormalForm::nfc || form == NormalForm::nfkc) options |= UTF8PROC_COMPOSE;
  if (form == NormalForm::nfd || form == NormalForm::nfkd) options |= UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  const auto flags = static_cast<utf8proc_option_t>(options);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  // A character decomposes into at most 18; one pass usually does, the second call knows the size.
  std::u32string buffer(text.size() + 32, U'\0');
  static_assert(sizeof(char32_t) == sizeof(utf8proc_int32_t));
  const auto decompose = [&] {
    return utf8proc_decompose(bytes, size, reinterpret_cast<utf8proc_int32_t*>(buffer.data()),
                              static_cast<utf8proc_ssize_t>(buffer.size()), flags);
  };
  utf8proc_ssize_t n = decompose();
  if (n > static_cast<utf8proc_ssize_t>(buffer.size())) {
    buffer.resize(static_cast<std::size_t>(n));
    n = decompose();
  }
  INGOT_CHECK(n >= 0, Error(std::string("Unicode normalization failed: ") + utf8proc_errmsg(n)));
  n = utf8proc_normalize_utf32(reinterpret_cast<utf8proc_int32_t*>(buffer.data()), n, flags);
  INGOT_CHECK(n >= 0, Error(std::string("Unicode normalization failed: ") + utf8proc_errmsg(n)));
  return to_utf8(std::u32string_view(buffer).substr(0, static_cast<std::size_t>(n)));
}

}  // namespace

void normalize_unicode(std::string& text, NormalForm form) {
  if (is_ascii(text)) return;
  // Characters that had no decomposition yet stay as they are; they compose with nothing either.
  std::string out;
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size() && form != NormalForm::nfc;) {
    const std::size_t begin = i;
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    if (!became_decomposable_after_unicode_9(decode_utf8(text, i))) continue;
    out += normalize_part(std::string_view(text).substr(done, begin - done), form);
    out.append(text, begin, i - begin);
    done = i;
  }
  out += normalize_part(std::string_view(text).substr(done), form);
  text = std::move(out);
}

void lower_case(std::string& text) {
  if (is_ascii(text)) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
    return;
  }
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = decode_utf8(text, i);
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    if (c == 0x130) append_utf8(out, 0x307);  // the one letter whose lower case is two characters
  }
  text = std::move(out);
}

void upper_case(std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = decode_utf8(text, i);
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
  text = std::move(out);
}

void for_each_grapheme(std::string_view text, FunctionRef<void(std::size_t, std::size_t)> visit) {
  utf8proc_int32_t state = 0;
  std::size_t begin = 0;
  char32_t before = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t here = i;
    const char32_t c = decode_utf8(text, i);
    if (here > 0 && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                                     static_cast<utf8proc_int32_t>(c), &state)) {
      visit(begin, here);
      begin = here;
    }
    before = c;
  }
  if (begin < text.size()) visit(begin, text.size());
}

}  // namespace ingot::text
