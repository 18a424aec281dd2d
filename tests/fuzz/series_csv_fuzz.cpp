#include <cstddef>
#include <cstdint>

#include "ingot/forecast/table/series_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    ingot::forecast::read_series(
        ingot::data::CsvTable::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz.csv",
                                     ingot::data::LabelLines::passed_over));
  } catch (const ingot::Error&) {
  }
  return 0;
}
