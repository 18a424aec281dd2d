// A configuration from a stranger.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ingot/base/config.h"
#include "ingot/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    ingot::Config::parse({reinterpret_cast<const char*>(data), size});
  } catch (const ingot::Error&) {
  }
  return 0;
}
