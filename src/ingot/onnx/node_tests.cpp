#include "ingot/onnx/node_tests.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/host.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::onnx {
namespace {

namespace fs = std::filesystem;

std::vector<Tensor> read_set(const std::string& directory, const std::string& kind) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    const std::string path = fmt::format("{}/{}_{}.pb", directory, kind, i);
    if (!fs::exists(path)) return tensors;
    tensors.push_back(OnnxFile::read_tensor(path));
  }
}

std::string first_difference(const Graph& graph, const std::string& data) {
  const std::vector<Tensor> given = read_set(data, "input");
  INGOT_CHECK(given.size() <= graph.inputs().size(),
              FormatError(data, -1, "input", "there are more than the graph takes"));
  std::map<std::string, Tensor> inputs;
  for (std::size_t i = 0; i < given.size(); ++i) inputs[graph.inputs()[i].name] = given[i];
  const std::vector<Tensor> actual = graph.run(inputs), expected = read_set(data, "output");
  INGOT_CHECK(expected.size() == actual.size(),
              FormatError(data, -1, "output", "there are not as many as the graph has"));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::string problem = difference(actual[i], expected[i]);
    if (!problem.empty()) return fmt::format("output '{}': {}", graph.outputs()[i].name, problem);
  }
  return {};
}

}  // namespace

std::string difference(const Tensor& actual, const Tensor& expected, double relative, double absolute) {
  if (actual.shape() != expected.shape()) {
    return fmt::format("has shape {}, expected {}", to_string(actual.shape()), to_string(expected.shape()));
  }
  if (actual.dtype() != expected.dtype()) {
    return fmt::format("is {}, expected {}", name(actual.dtype()), name(expected.dtype()));
  }
  const std::vector<double> a = as_doubles(actual), b = as_doubles(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    const double allowed = is_floating_point(actual.dtype()) ? absolute + relative * std::abs(b[i]) : 0;
    if (!same && !(std::abs(a[i] - b[i]) <= allowed))
      return fmt::format("element {} is {}, expected {}", i, a[i], b[i]);
  }
  return {};
}

NodeTest run_node_test(const std::string& directory, Device device) {
  NodeTest test{.name = fs::path(directory).filename().string()};
  try {
    const Graph graph = Graph::open(directory + "/model.onnx", device);
    test.opset = graph.opset();
    test.operators = graph.unsupported();
    std::vector<ValueInfo> values = graph.inputs();
    values.insert(values.end(), graph.outputs().begin(), graph.outputs().end());
    if (!test.operators.empty())
      throw NotImplemented(fmt::format("operators {}", fmt::join(test.operators, ", ")));
    for (const ValueInfo& value : values) {
      INGOT_CHECK(value.dtype.has_value(), NotImplemented("element type " + value.stored_as));
    }
    for (int set = 0;; ++set) {
      const std::string data = fmt::format("{}/test_data_set_{}", directory, set);
      if (!fs::exists(data)) break;
      test.detail = first_difference(graph, data);
      if (!test.detail.empty()) return test;
    }
    test.end = TestEnd::passed;
  } catch (const NotImplemented& error) {
    test.end = TestEnd::unsupported;
    test.detail = error.feature;
  } catch (const Error& error) {
    test.detail = error.what();
  }
  return test;
}

std::vector<NodeTest> run_node_tests(const std::string& directory, Device device) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.path().filename() == "model.onnx") paths.push_back(entry.path().parent_path().string());
  }
  std::ranges::sort(paths);
  std::vector<NodeTest> tests;
  tests.reserve(paths.size());
  for (const std::string& path : paths) tests.push_back(run_node_test(path, device));
  return tests;
}

}  // namespace ingot::onnx
