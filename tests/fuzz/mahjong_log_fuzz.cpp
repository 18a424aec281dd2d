// libFuzzer target: any bytes as a game log (Tenhou XML, tenhou.net/6, mjai), replayed as far as they go, and
// as what an mjai server sends to a player.
#include <cstdint>
#include <sstream>
#include <string>

#include "ingot/base/error.h"
#include "ingot/mahjong/log.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/tracker.h"

using namespace ingot::mahjong;

// With sanitizers the tables take seconds, which would count as the first input's.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  prepare_shanten_tables();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    replay(parse_log(text, "fuzz"));
  } catch (const ingot::Error&) {
  }
  try {
    std::istringstream in(text);
    std::ostringstream out;
    run_mjai_client(in, out, {}, player_named("simple"), 1);
  } catch (const ingot::Error&) {
  }
  return 0;
}
