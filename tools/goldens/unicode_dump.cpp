// Prints, as JSON, what PCRE2 and utf8proc know about every code point: input of
// tools/goldens/unicode_tables.py. Not part of the tests; compile by hand: c++ -std=c++20 unicode_dump.cpp
// -lpcre2-8 -lutf8proc
#define PCRE2_CODE_UNIT_WIDTH 32
#include <cstdio>
#include <functional>
#include <string>

#include <pcre2.h>
#include <utf8proc.h>

namespace {

void print(const char* name, const std::function<bool(int)>& holds) {
  std::printf("%s\"%s\": [", name[0] == 'c' ? "{" : ",\n", name);
  for (int c = 0, separator = 0; c < 0x110000; ++c) {
    if (!holds(c)) continue;
    int last = c;
    while (last + 1 < 0x110000 && holds(last + 1)) ++last;
    std::printf("%s[%d, %d]", separator++ != 0 ? ", " : "", c, last);
    c = last;
  }
  std::printf("]");
}

bool in(int c, int first, int last) {
  const int category = utf8proc_category(c);
  return category >= first && category <= last;
}

}  // namespace

int main() {
  print("control", [](int c) {
    return in(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO) && (c < 0xD800 || c > 0xDFFF);
  });
  print("punctuation", [](int c) { return in(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO); });
  print("mark", [](int c) { return in(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); });
  print("nonspacing", [](int c) { return in(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN); });
  print("decomposed", [](int c) {
    if (c >= 0xD800 && c <= 0xDFFF) return false;
    utf8proc_int32_t out[32];
    const auto flags = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE);
    return utf8proc_decompose_char(c, out, 32, flags, nullptr) != 1 || out[0] != c;
  });
  for (const std::string pattern : {"\\p{Lu}", "\\p{Ll}", "\\p{Lm}", "\\p{Lo}", "\\p{M}", "\\p{Nd}",
                                    "[\\p{Nl}\\p{No}]", "\\p{P}", "\\p{S}"}) {
    const std::u32string wide(pattern.begin(), pattern.end());
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(wide.data()), wide.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    std::string name;
    for (const char c : pattern) name += c == '\\' ? "\\\\" : std::string(1, c);
    print(name.c_str(), [&](int c) {
      if (c >= 0xD800 && c <= 0xDFFF) return false;
      const auto unit = static_cast<PCRE2_UCHAR>(c);
      return pcre2_match(code, &unit, 1, 0, 0, data, nullptr) >= 0;
    });
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }
  std::printf("}\n");
}
