// What `ingot onnx check` says beforehand is what a run says: attributes, types and inputs included.
// (graph_test.cpp compares both for ONNX' node tests, the fuzz target onnx_run for random graphs.)
#include "onnx.pb.h"
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph_trial.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::onnx {
namespace {

Graph tried_graph(const std::string& graph) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString("ir_version: 9 opset_import { version: 19 } opset_import "
                                                    "{ domain: 'com.microsoft' version: 1 } graph { " +
                                                        graph + " output { name: 'y' } }",
                                                    &model));
  const std::string bytes = model.SerializeAsString();
  const auto view = std::as_bytes(std::span(bytes));
  return Graph::open(OnnxFile::open(memory_blob("test.onnx", {view.begin(), view.end()})));
}
TrialResult trial_of(const std::string& graph) { return try_graph(tried_graph(graph)); }

/// An input; '?' is an open axis.
std::string input(const std::string& name, const std::string& dims, int type = 1) {
  std::string shape;
  for (const char c : dims)
    shape += c == '?' ? "dim { dim_param: 'n' } " : std::string("dim { dim_value: ") + c + " } ";
  return "input { name: '" + name + "' type { tensor_type { elem_type: " + std::to_string(type) +
         " shape { " + shape + "} } } } ";
}
std::string node(const std::string& op, const std::string& inputs, const std::string& attributes = {}) {
  return "node { op_type: '" + op + "' name: 'it' " + inputs + " output: 'y' " + attributes + "} ";
}
std::string weight(const std::vector<std::int64_t>& shape) {
  std::string text = "initializer { name: 'w' data_type: 1 ";
  std::int64_t count = 1;
  for (const std::int64_t size : shape) text += "dims: " + std::to_string(size) + " ", count *= size;
  for (std::int64_t i = 0; i < count; ++i) text += "float_data: 1 ";
  return text + "} ";
}

std::string first_problem(const TrialResult& trial) {
  return trial.problems.empty() ? "" : trial.problems[0];
}

TEST(Trial, FindsWhatOperatorsRefuse) {
  const auto problem = [](const std::string& graph) { return first_problem(trial_of(graph)); };
  EXPECT_NE(
      problem(node("LSTM", "input: ['x', 'x', 'x']", "attribute { name: 'input_forget' type: INT i: 1 } ") +
              input("x", "122"))
          .find("input_forget"),
      std::string::npos);
  EXPECT_NE(problem(node("Softmax", "input: 'x'") + input("x", "?2", 4)).find("UINT16"), std::string::npos);
  EXPECT_NE(problem(node("Einsum", "input: 'x'") + input("x", "2")).find("equation"), std::string::npos);
  EXPECT_NE(problem(node("Add", "input: 'x'") + input("x", "2")).find("1 is missing"), std::string::npos);
  EXPECT_NE(problem(node("Relu", "input: 'x'") + input("x", "2", 14)).find("COMPLEX64"), std::string::npos);
  EXPECT_NE(problem(node("Whirl", "input: 'x'") + input("x", "2")).find("operator Whirl"), std::string::npos);
}

TEST(Trial, EntersBranchesThatThisRunDoesNotTake) {
  const auto branch = [](const std::string& name, const std::string& op, const std::string& attributes) {
    return "attribute { name: '" + name + "' type: GRAPH g { node { op_type: '" + op +
           "' input: 'x' output: 'b' " + attributes + "} output { name: 'b' } } } ";
  };
  const std::string bad = branch("then_branch", "LpNormalization", "attribute { name: 'p' type: INT i: 3 } "),
                    good = branch("else_branch", "Relu", "");
  const TrialResult trial =
      trial_of(node("If", "input: 'c'", bad + good) + input("x", "22") + input("c", "", 9));
  EXPECT_NE(first_problem(trial).find("p = 3"), std::string::npos);
}

TEST(Trial, DoesNotBlameAGraphForWhatWasMadeUp) {
  // Filters larger than the first guess of an open size; a shape that is an input.
  const TrialResult image =
      trial_of(node("Conv", "input: ['x', 'w']") + input("x", "11??") + weight({1, 1, 7, 7}));
  EXPECT_TRUE(image.problems.empty() && image.untried.empty()) << first_problem(image);
  const TrialResult shape =
      trial_of(node("Reshape", "input: ['x', 's']") + input("x", "23") + input("s", "1", 7));
  EXPECT_TRUE(shape.problems.empty());
  EXPECT_EQ(shape.untried.size(), 1);
  // Where nothing is made up, an error is one that every run meets.
  const TrialResult sizes = trial_of("node { op_type: 'MatMul' input: ['w', 'w'] output: 'h' } " +
                                     node("Add", "input: ['h', 'x']") + input("x", "2") + weight({2, 3}));
  EXPECT_EQ(sizes.problems.size(), 1);
}

// With its inputs given, what is said of a graph is what its run says.
TEST(Trial, TriesGivenInputs) {
  const Graph graph =
      tried_graph(node("Reshape", "input: ['x', 's']") + input("x", "23") + input("s", "1", 7));
  const auto tried = [&](std::int64_t size) {
    return try_graph(
        graph, 20, Graph::kMaxIterations,
        {{"s", Tensor::from(std::vector<std::int64_t>{size}, {1})}, {"x", Tensor::zeros({2, 3})}});
  };
  EXPECT_TRUE(tried(6).problems.empty() && tried(6).untried.empty()) << first_problem(tried(6));
  EXPECT_EQ(first_problem(tried(5)).find("Reshape 'it'"), 0) << first_problem(tried(5));
  const TrialResult other = try_graph(graph, 20, Graph::kMaxIterations, {{"x", Tensor::zeros({3, 3})}});
  EXPECT_NE(first_problem(other).find("shape mismatch"), std::string::npos) << first_problem(other);
}

// Axes, scales and sequences that inputs hold.
TEST(Trial, MakesUpNumbersThatNameAxesAndScale) {
  const auto is_tried = [](const std::string& graph) {
    const TrialResult trial = trial_of(graph);
    return trial.problems.empty() && trial.untried.empty();
  };
  EXPECT_TRUE(is_tried(node("Unsqueeze", "input: ['x', 'a']") + input("x", "23") + input("a", "2", 7)));
  EXPECT_TRUE(is_tried(node("Resize", "input: ['x', '', 's']") + input("x", "1144") + input("s", "4")));
  EXPECT_TRUE(is_tried(node("SequenceAt", "input: ['q', 'i']") + input("i", "", 7) +
                       "input { name: 'q' type { sequence_type { elem_type { tensor_type { elem_type: 1 "
                       "shape { } } } } } } "));
}

TEST(Trial, EndsInTime) {
  const std::string loop =
      "node { op_type: 'Loop' name: 'it' input: ['', 'w', 'x'] output: 'y' attribute { name: 'body' type: "
      "GRAPH g "
      "{ node { op_type: 'Identity' input: 'go' output: 'on' } node { op_type: 'Relu' input: 'v' output: 'u' "
      "} "
      "input { name: 'i' } input { name: 'go' } input { name: 'v' } output { name: 'on' } output { name: 'u' "
      "} } "
      "} } initializer { name: 'w' data_type: 9 int32_data: 1 } ";
  const TrialResult trial = trial_of(loop + input("x", "2"));
  EXPECT_TRUE(trial.problems.empty()) << first_problem(trial);
  EXPECT_FALSE(trial.untried.empty());
}

}  // namespace
}  // namespace ingot::onnx
