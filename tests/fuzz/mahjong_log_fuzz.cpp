// libFuzzer target: any bytes as a game log (Tenhou XML, tenhou.net/6, mjai), replayed as far as they go.
#include <cstdint>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/mahjong/log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    ingot::mahjong::replay(ingot::mahjong::parse_log({reinterpret_cast<const char*>(data), size}, "fuzz"));
  } catch (const ingot::Error&) {
  }
  return 0;
}
