#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ingot/base/parallel.h"

namespace ingot::text {

/// Unicode's White_Space property.
bool is_white_space(char32_t c);
/// \w: letters, marks, decimal digits, connectors (UTS #18, annex C).
bool is_word_character(char32_t c);
/// General category P, or ASCII punctuation in the wider sense ($ + < = > ^ ` | ~).
bool is_punctuation(char32_t c);
/// General category N.
bool is_numeric(char32_t c);
/// General categories Cc, Cf, Co, Cs.
bool is_control(char32_t c);
/// General category Mn.
bool is_nonspacing_mark(char32_t c);
/// General category M.
bool is_mark(char32_t c);
/// The blocks of Chinese characters as BERT's tokenizer defines them.
bool is_chinese(char32_t c);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// `text` must be valid UTF-8.
void normalize_unicode(std::string& text, NormalForm form);

/// Character by character, without context (no final sigma), as in the `tokenizers` library.
void lower_case(std::string& text);
void upper_case(std::string& text);

/// Calls visit(begin, end) for each extended grapheme cluster (UAX #29).
void for_each_grapheme(std::string_view text, FunctionRef<void(std::size_t, std::size_t)> visit);

}  // namespace ingot::text
