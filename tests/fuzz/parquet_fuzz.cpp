#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/data/parquet.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ingot::data;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  int rows = 0;
  try {
    for_each_parquet_row("fuzz.parquet", file,
                         [&](const Record&, const RecordLocation&) { return ++rows < 20000; });
  } catch (const ingot::Error&) {
  }
  try {
    if (parquet_rows("fuzz.parquet", file) < 20000) read_parquet_table("fuzz.parquet", file);
  } catch (const ingot::Error&) {
  }
  return 0;
}
