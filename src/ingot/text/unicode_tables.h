#pragma once

#include <span>

namespace ingot::text {

/// What the Unicode tables of Debian's libraries and those of the `tokenizers` library say differently; see
/// unicode_tables.cpp.
struct CodePointRange {
  char32_t first, last;
};

/// Characters that Unicode 15 and 16 added, by general category.
struct NewerCharacters {
  enum Kind { lu, ll, lm, lo, mark, nd, number, punctuation, symbol, none };
  char32_t first, last;
  Kind kind;
};
std::span<const NewerCharacters> newer_characters();
/// The kind of `c` when it is one of them.
NewerCharacters::Kind newer_kind(char32_t c);

bool became_punctuation_after_unicode_8(char32_t c);
bool became_control_after_unicode_8(char32_t c);
bool became_nonspacing_after_unicode_8(char32_t c);
bool became_mark_after_unicode_9(char32_t c);
bool became_decomposable_after_unicode_9(char32_t c);

}  // namespace ingot::text
