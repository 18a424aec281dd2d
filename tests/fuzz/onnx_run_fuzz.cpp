// A graph from a stranger, run on zeros.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/host.h"
#include "ingot/ops/cast.h"
#include "ingot/runtime/initialize.h"
#include "ingot/weights/onnx_file.h"

namespace {

/// Zeros of what an input declares; 2 where its size is open.
ingot::onnx::Value zeros_for(const ingot::onnx::ValueInfo& input) {
  if (!input.is_tensor || !input.type) return {};
  std::vector<std::int64_t> dims = input.shape;
  for (std::int64_t& size : dims) size = size < 0 ? 2 : size;
  const ingot::Shape shape = ingot::onnx::to_shape(dims);
  if (shape.numel() > (1 << 16)) throw ingot::Error("an input is large");
  return {ingot::Tensor::zeros(shape, input.type->dtype), input.type->element};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const bool kReady = (ingot::initialize(), true);
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  try {
    const auto graph =
        ingot::onnx::Graph::open(ingot::OnnxFile::open(ingot::memory_blob("input", {bytes, bytes + size})));
    std::map<std::string, ingot::onnx::Value> inputs;
    for (const ingot::onnx::ValueInfo& input : graph.inputs()) inputs[input.name] = zeros_for(input);
    ingot::onnx::Texts texts = graph.texts();
    for (const ingot::onnx::Value& value : graph.run_values(inputs, texts, 100)) {
      if (value.tensor.defined()) [[maybe_unused]]
        const auto read = ingot::contiguous(value.tensor);
    }
  } catch (const ingot::Error&) {
  }
  return 0;
}
