#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/grammar/grammar.h"
#include "ingot/grammar/matcher.h"
#include "ingot/grammar/token_trie.h"

namespace ingot::test {

/// Tokens of one byte each, and some of several.
inline const grammar::Vocabulary& grammar_vocabulary() {
  static const grammar::Vocabulary kVocabulary = [] {
    std::vector<std::string> spellings{"{\"", "\":", "ab", "12", "\xC3\xA9", "\", \""};
    for (int b = 0; b < 0xF8; ++b) spellings.push_back(std::string(1, static_cast<char>(b)));
    return grammar::Vocabulary(std::move(spellings));
  }();
  return kVocabulary;
}

/// Compiles a source from a stranger by `compile(vocabulary, source)`, or sees it refused with an Error.
/// Whatever compiles can be written to its end, or at least begun.
template <class Compile>
int fuzz_grammar(const std::uint8_t* data, std::size_t size, const Compile& compile) {
  using namespace grammar;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  try {
    const GrammarPtr compiled = compile(grammar_vocabulary(), source);
    Matcher matcher(compiled);
    TokenMask mask(matcher.vocab_size());
    for (std::uint32_t step = 0; step < 20 && matcher.extends(); ++step) {
      matcher.fill(mask);
      std::int32_t token = 0;
      const auto skip = static_cast<std::int64_t>((step * 2654435761U) % 7);
      for (std::int64_t seen = 0; token < mask.size() && (!mask.has(token) || seen++ < skip % mask.count());
           ++token) {
      }
      if (!mask.any() || !matcher.accept(token)) __builtin_trap();
    }
  } catch (const ingot::Error&) {
  }
  return 0;
}

}  // namespace ingot::test
