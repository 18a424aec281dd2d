// tokenizer.json from a stranger: refused with an Error, or a tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = ingot::text::Tokenizer::from_json(bytes, "fuzz");
    // The end of the input is also text to encode, whatever bytes it holds.
    const auto ids = tokenizer.encode(bytes.substr(size > 64 ? size - 64 : 0));
    tokenizer.decode(ids, false);
    tokenizer.encode("Hello <s>, naïve 你好 👍\n\n 123");
    ingot::text::Tokenizer::from_json(tokenizer.to_json(), "saved");
  } catch (const ingot::Error&) {
  }
  return 0;
}
