#include "ingot/onnx/node_tests.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "onnx.pb.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/unknown_field_set.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/host.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::onnx {
namespace {

namespace fs = std::filesystem;

Value load_message(const std::string& path, const std::string& bytes, Texts& texts) {
  const std::shared_ptr<const OnnxFile> file = OnnxFile::of_tensor(path, bytes);
  return load_value(*file, file->model().graph().initializer(0), texts);
}

/// SequenceProto and OptionalProto, which the description of an ONNX file does not have: both hold what they
/// hold in field 3 where it is a tensor, and an optional a sequence in field 5.
Value read_message(const std::string& path, const std::string& bytes, const ValueInfo& declared,
                   Texts& texts) {
  if (declared.is_tensor) return load_message(path, bytes, texts);
  google::protobuf::UnknownFieldSet fields;
  INGOT_CHECK(fields.ParseFromString(bytes), FormatError(path, 0, "value", "is not a protobuf message"));
  auto items = std::make_shared<Values>();
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == 3) items->push_back(load_message(path, field.length_delimited(), texts));
    if (field.number() == 5 && declared.stored_as == "optional")
      return read_message(path, field.length_delimited(), {.is_tensor = false, .stored_as = "sequence"},
                          texts);
  }
  if (declared.stored_as == "optional") return items->empty() ? Value() : items->front();
  Value value;
  value.items = std::move(items);
  return value;
}

Values read_set(const std::string& directory, const std::string& kind, const std::vector<ValueInfo>& declared,
                Texts& texts) {
  Values values;
  for (std::size_t i = 0;; ++i) {
    const std::string path = fmt::format("{}/{}_{}.pb", directory, kind, i);
    if (!fs::exists(path)) return values;
    INGOT_CHECK(i < declared.size(), FormatError(directory, -1, kind, "there are more than the graph has"));
    const Value& value = values.emplace_back(read_message(path, read_file(path), declared[i], texts));
    // Tests of ONNX 1.12 keep bf16 as UINT16.
    INGOT_CHECK(!value.tensor.defined() || !declared[i].type || type_of(value) == *declared[i].type,
                NotImplemented(fmt::format("data of type {}, where the model has {}", name_of(type_of(value)),
                                           declared[i].stored_as)));
  }
}

/// "" where both are tensors of one shape and type, or sequences of as many values, or nothing.
std::string kind_difference(const Value& actual, const Value& expected) {
  const auto kind = [](const Value& value) {
    return value.is_sequence() ? fmt::format("a sequence of {}", value.items->size())
           : value.tensor.defined()
               ? fmt::format("{} {}", name_of(type_of(value)), to_string(value.tensor.shape()))
               : "nothing";
  };
  return kind(actual) == kind(expected) ? ""
                                        : fmt::format("is {}, expected {}", kind(actual), kind(expected));
}

std::string value_difference(const Value& actual, const Value& expected) {
  std::string problem = kind_difference(actual, expected);
  if (!problem.empty()) return problem;
  if (actual.is_sequence()) {
    for (std::size_t i = 0; i < actual.items->size() && problem.empty(); ++i)
      problem = value_difference((*actual.items)[i], (*expected.items)[i]);
    return problem;
  }
  if (!actual.tensor.defined()) return {};
  const DType dtype = expected.tensor.dtype();
  constexpr double kRelative = 1e-3;
  // Two units in the last place of fp16 and bf16, which ONNX' own runner also allows bf16.
  const double relative = dtype == DType::bf16 ? 0x1p-6 : dtype == DType::f16 ? 0x1p-9 : kRelative;
  // A sum of numbers that cancel out is not closer to zero than one unit of the largest of them.
  double largest = 0;
  if (dtype == DType::f32) {
    for (const double v : as_doubles(expected.tensor))
      largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  }
  return onnx::difference(actual.tensor, expected.tensor, relative, std::max(1e-7, largest * 0x1p-23));
}

/// Of nodes that draw random numbers only the shapes and types can be told.
bool draws(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return node.op == "Bernoulli" || node.op == "Multinomial" || node.op.starts_with("Random") ||
           (node.op == "Dropout" && node.inputs.size() > 2);
  });
}

std::string first_difference(const Graph& graph, const std::string& data) {
  Texts texts = graph.texts();
  const Values given = read_set(data, "input", graph.inputs(), texts),
               expected = read_set(data, "output", graph.outputs(), texts);
  std::map<std::string, Value> inputs;
  for (std::size_t i = 0; i < given.size(); ++i) inputs[graph.inputs()[i].name] = given[i];
  const Values actual = graph.run_values(inputs, texts);
  INGOT_CHECK(expected.size() == actual.size(),
              FormatError(data, -1, "output", "there are not as many as the graph has"));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::string problem =
        draws(graph) ? kind_difference(actual[i], expected[i]) : value_difference(actual[i], expected[i]);
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
  if (!is_floating_point(actual.dtype())) {
    const std::vector<std::int64_t> a = as_integers(actual), b = as_integers(expected);
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
    return at == a.size() ? "" : fmt::format("element {} is {}, expected {}", at, a[at], b[at]);
  }
  const std::vector<double> a = as_doubles(actual), b = as_doubles(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (!same && !(std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i])))
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
      INGOT_CHECK(value.type || !value.is_tensor, NotImplemented("element type " + value.stored_as));
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
