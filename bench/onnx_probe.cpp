// onnx_probe MODEL...: runs graphs with one input of floats, and prints for each its path and the shortest of
// 15 runs in milliseconds, for tools/bench/onnx_operators.py.
#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <string>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/runtime/initialize.h"

namespace {

double shortest_run(const std::string& path) {
  using namespace ingot;
  const onnx::Graph graph = onnx::Graph::open(path, kCpu);
  INGOT_CHECK(graph.inputs().size() == 1, Error(path + ": takes one input"));
  const Shape shape{std::span<const std::int64_t>(graph.inputs()[0].shape)};
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = normal(random);
  const Tensor x = Tensor::from(values, shape);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    graph.run({{graph.inputs()[0].name, x}});
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ingot::initialize();
    for (int i = 1; i < argc; ++i) fmt::print("{} {:.3f}\n", argv[i], shortest_run(argv[i]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "onnx_probe: {}\n", error.what());
    return 1;
  }
}
