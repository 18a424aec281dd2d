// A SentencePiece model from a stranger.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/text/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const ingot::text::Tokenizer tokenizer(
        ingot::text::parse_sentencepiece({reinterpret_cast<const char*>(data), size}, "fuzz"));
    tokenizer.decode(tokenizer.encode("Hello  wörld <s> 你好 "), false);
  } catch (const ingot::Error&) {
  }
  return 0;
}
