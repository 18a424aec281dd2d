// A graph from a stranger, run on zeros. Where it has no inputs, what is said of it beforehand is what its
// run says.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/graph_trial.h"
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

constexpr std::int64_t kIterations = 100;

/// Limits of memory decide otherwise in each run.
bool is_limit(const std::string& error) { return error.find("memory") != error.npos; }

/// What the graph's run refuses it for; "" where it runs.
std::string run_error(const ingot::onnx::Graph& graph) {
  std::map<std::string, ingot::onnx::Value> inputs;
  for (const ingot::onnx::ValueInfo& input : graph.inputs()) inputs[input.name] = zeros_for(input);
  ingot::onnx::Texts texts = graph.texts();
  try {
    const ingot::onnx::Values results = graph.run_values(inputs, texts, kIterations);
    for (const ingot::onnx::Value& value : results) {
      if (value.tensor.defined() && value.tensor.numel() < (1 << 24)) [[maybe_unused]]
        const auto read = ingot::contiguous(value.tensor);
    }
  } catch (const ingot::Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const bool kReady = (ingot::initialize(), true);
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  try {
    const auto graph =
        ingot::onnx::Graph::open(ingot::OnnxFile::open(ingot::memory_blob("input", {bytes, bytes + size})));
    const std::string error = run_error(graph);
    const ingot::onnx::TrialResult trial = ingot::onnx::try_graph(graph, 2, kIterations);
    const std::string problem = trial.problems.empty() ? "" : trial.problems.front();
    const bool comparable = graph.inputs().empty() && !is_limit(error) && !is_limit(problem) &&
                            (trial.untried.empty() || !problem.empty());
    if (comparable && error.empty() != problem.empty()) {
      std::fprintf(stderr, "a run says '%s', a trial '%s'\n", error.c_str(), problem.c_str());
      std::abort();
    }
  } catch (const ingot::Error&) {
  }
  return 0;
}
