#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/grammar/grammar.h"
#include "ingot/grammar/matcher.h"
#include "ingot/grammar/token_trie.h"

namespace ingot::grammar::test {

/// A vocabulary of every byte and of pieces as tokenizers have them. The last token is special: "<end>".
inline const Vocabulary& small_vocabulary() {
  static const Vocabulary kVocabulary = [] {
    std::vector<std::string> spellings;
    for (int b = 0; b < 256; ++b) spellings.push_back(std::string(1, static_cast<char>(b)));
    spellings[0xFF].clear();
    for (const char* piece :
         {"{\"",     "\": ",  "\":",   "\",",  "\", \"", "\"}",  "\"]",  "}}",   "],",   "[]",       "{}",
          "[\"",     "true",  "false", "null", "12",     "123",  "00",   "0.",   "-1",   " \"",      ",\n",
          "\n  ",    "  ",    "name",  "na",   "me\"",   "ab",   "abc",  "é",    "\xC3", "\xE2\x82", "日本",
          "a\",\"b", "\\u00", "\\n",   "://",  "2024-",  "-01-", "T00:", "http", ".com", "@",        "value"})
      spellings.emplace_back(piece);
    spellings.push_back(kSpecialMark + std::string("<end>"));
    return Vocabulary(std::move(spellings));
  }();
  return kVocabulary;
}

/// Whether a grammar takes a text whole, byte by byte.
inline bool accepts(const GrammarPtr& grammar, std::string_view text) {
  Matcher matcher(grammar);
  if (!text.empty() && !matcher.accept_text(text)) return false;
  return matcher.finished();
}

/// A text drawn token by token by the masks; "" where it does not end within `most` tokens. Short tokens that
/// end something are a little more likely, so that texts end.
inline std::string sample(const GrammarPtr& grammar, const Vocabulary& vocabulary, std::mt19937_64& random,
                          int most = 400) {
  Matcher matcher(grammar);
  TokenMask mask(vocabulary.trie().vocab_size());
  std::string text;
  for (int i = 0; i < most; ++i) {
    if (matcher.finished() && (!matcher.extends() || random() % 4 == 0)) return text;
    matcher.fill(mask);
    std::vector<std::int32_t> allowed;
    for (std::int32_t id = 0; id < mask.size(); ++id)
      if (mask.has(id)) allowed.push_back(id);
    if (allowed.empty()) return matcher.finished() ? text : "<stuck> " + text;
    std::int32_t token = allowed[random() % allowed.size()];
    if (random() % 2 == 0) {
      for (const char* end : {"\"", "}", "]", "\"}", "\"]"}) {
        const auto id = static_cast<std::int32_t>(static_cast<unsigned char>(end[0]));
        if (end[1] == '\0' && mask.has(id)) token = id;
      }
    }
    if (!matcher.accept(token)) return "<refused> " + text;
    text += vocabulary.trie().bytes(token);
  }
  return {};
}

}  // namespace ingot::grammar::test
