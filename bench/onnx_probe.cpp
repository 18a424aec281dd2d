// onnx_probe MODEL...: runs graphs on random inputs, and prints for each its path and the shortest of 15 runs
// in milliseconds, for tools/bench/onnx_operators.py. onnx_probe --turns MODEL: a run for each line of
// standard input, and its milliseconds, for tools/bench/onnx_models.py.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <map>
#include <random>
#include <string>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/ops/cast.h"
#include "ingot/runtime/initialize.h"

namespace {

using ingot::Tensor;
using Inputs = std::map<std::string, Tensor>;

/// Normal floats; whole numbers from 0 to 999, which serve as ids of tokens. Their shapes must be closed.
Inputs inputs_of(const ingot::onnx::Graph& graph) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 2);
  Inputs inputs;
  for (const ingot::onnx::ValueInfo& input : graph.inputs()) {
    INGOT_CHECK(input.is_tensor && input.type && std::ranges::find(input.shape, -1) == input.shape.end(),
                ingot::Error(input.name + ": has an open shape, or another type than one of ours"));
    const ingot::Shape shape{std::span<const std::int64_t>(input.shape)};
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    const bool whole = !ingot::is_floating_point(input.type->dtype);
    for (float& value : values) value = whole ? static_cast<float>(random() % 1000) : normal(random);
    inputs[input.name] = ingot::to(Tensor::from(values, shape), input.type->dtype);
  }
  return inputs;
}

double run_once(const ingot::onnx::Graph& graph, const Inputs& inputs) {
  const auto start = std::chrono::steady_clock::now();
  graph.run(inputs);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count();
}

void print_shortest(const std::string& path) {
  const ingot::onnx::Graph graph = ingot::onnx::Graph::open(path, ingot::kCpu);
  const Inputs inputs = inputs_of(graph);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 15; ++i) best = std::min(best, run_once(graph, inputs));
  fmt::print("{} {:.3f}\n", path, best);
}

void take_turns(const std::string& path) {
  const ingot::onnx::Graph graph = ingot::onnx::Graph::open(path, ingot::kCpu);
  const Inputs inputs = inputs_of(graph);
  for (std::string line; std::getline(std::cin, line);) {
    fmt::print("{:.3f}\n", run_once(graph, inputs));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ingot::initialize();
    if (argc == 3 && std::string(argv[1]) == "--turns") {
      take_turns(argv[2]);
      return 0;
    }
    for (int i = 1; i < argc; ++i) print_shortest(argv[i]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "onnx_probe: {}\n", error.what());
    return 1;
  }
}
