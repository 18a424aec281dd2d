#include <cstddef>
#include <cstdint>

#include "tests/fuzz/weights_target.h"

#include "ingot/weights/tensorflow.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto open = [](ingot::Blob index) {
    return ingot::open_tensorflow(
        std::move(index), [](int, int) { return ingot::memory_blob("shard", std::vector<std::byte>(1024)); });
  };
  ingot::test::read_all_weights(open, {bytes, bytes + size});
  return 0;
}
