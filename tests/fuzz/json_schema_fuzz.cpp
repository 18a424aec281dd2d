// A JSON Schema from a stranger: a grammar or an Error, in bounded time and memory.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/grammar/grammar.h"
#include "ingot/grammar/matcher.h"
#include "ingot/grammar/token_trie.h"

namespace {

const ingot::grammar::Vocabulary& json_schema_vocabulary() {
  static const ingot::grammar::Vocabulary kVocabulary = [] {
    std::vector<std::string> spellings{"{\"", "\":", "ab", "12", "\xC3\xA9", "\", \""};
    for (int b = 0; b < 0xF8; ++b) spellings.push_back(std::string(1, static_cast<char>(b)));
    return ingot::grammar::Vocabulary(std::move(spellings));
  }();
  return kVocabulary;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ingot::grammar;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  try {
    const GrammarPtr grammar = from_json_schema(json_schema_vocabulary(), source);
    // Whatever compiles can be written to its end, or at least begun.
    Matcher matcher(grammar);
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
