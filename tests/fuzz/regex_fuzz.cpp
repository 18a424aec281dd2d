// A regular expression from a stranger: compiled, or refused with an Error.
#include "tests/fuzz/grammar_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ingot::test::fuzz_grammar(data, size, [](const auto& vocabulary, std::string_view source) {
    return ingot::grammar::from_regex(vocabulary, source);
  });
}
