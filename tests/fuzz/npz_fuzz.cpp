#include <cstddef>
#include <cstdint>

#include "tests/fuzz/weights_target.h"

#include "ingot/weights/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  ingot::test::read_all_weights(ingot::open_npz, {bytes, bytes + size});
  return 0;
}
