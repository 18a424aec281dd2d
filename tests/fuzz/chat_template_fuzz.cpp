// A chat template from a stranger: it stops at its limits, and with an Error when it does not work.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ingot::text::ChatInput input;
  input.messages =
      R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "é"}]}])";
  input.now = 1'700'000'000;
  ingot::text::ChatTemplateLimits limits;
  limits.steps = 100'000;
  limits.output_bytes = 1 << 20;
  limits.depth = 200;
  try {
    ingot::text::ChatTemplate({reinterpret_cast<const char*>(data), size}, limits).render(input);
  } catch (const ingot::Error&) {
  }
  return 0;
}
