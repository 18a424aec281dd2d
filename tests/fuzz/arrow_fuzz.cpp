#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/data/arrow.h"
#include "ingot/data/record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ingot::data;
  int rows = 0;
  try {
    for_each_arrow_row("fuzz.arrow", {reinterpret_cast<const char*>(data), size},
                       [&](const Record&, const RecordLocation&) { return ++rows < 20000; });
  } catch (const ingot::Error&) {
  }
  return 0;
}
