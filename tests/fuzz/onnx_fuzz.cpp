#include <cstddef>
#include <cstdint>

#include "tests/fuzz/weights_target.h"

#include "ingot/onnx/graph.h"
#include "ingot/weights/onnx.h"
#include "ingot/weights/onnx_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  ingot::test::read_all_weights(ingot::open_onnx, {bytes, bytes + size});
  try {
    const auto graph =
        ingot::onnx::Graph::open(ingot::OnnxFile::open(ingot::memory_blob("input", {bytes, bytes + size})));
    [[maybe_unused]] const auto missing = graph.unsupported();
  } catch (const ingot::Error&) {  // refused, as it should be
  }
  return 0;
}
