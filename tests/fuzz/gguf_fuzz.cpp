#include <cstddef>
#include <cstdint>

#include "tests/fuzz/weights_target.h"

#include "ingot/weights/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto open = [](ingot::Blob blob) -> std::unique_ptr<ingot::WeightSource> {
    return ingot::open_gguf(std::move(blob));
  };
  ingot::test::read_all_weights(open, {bytes, bytes + size});
  return 0;
}
