// What `ingot onnx check` says beforehand is what a run says: attributes, types and inputs included.
// (graph_test.cpp compares both for ONNX' node tests, the fuzz target onnx_run for random graphs.)
#include "onnx.pb.h"
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph_trial.h"
#include "ingot/weights/onnx_file.h"

// Where a sanitizer would end the process for a size that no machine has, malloc says no, as without one.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }  // NOLINT

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
  EXPECT_NE(problem(node("RNN", "input: ['x', 'x', 'x']",
                         "attribute { name: 'activations' type: STRINGS strings: 'Affine' } ") +
                    input("x", "122"))
                .find("activation Affine"),
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
  // An operator that is not there, in branches that the trial's run of the node takes.
  const std::string condition = "initializer { name: 'c' data_type: 9 int32_data: 1 } ";
  const TrialResult unknown = trial_of(node("If", "input: 'c'", branch("then_branch", "Whirl", "") + good) +
                                       input("x", "22") + condition);
  EXPECT_EQ(first_problem(unknown), "operator Whirl");
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
  EXPECT_NE(first_problem(trial).find("--max-iterations"), std::string::npos) << first_problem(trial);
}

std::string whole_number(const std::string& name, std::int64_t value, const std::string& dims = "dims: 1") {
  return "initializer { name: '" + name + "' data_type: 7 " + dims + " int64_data: " + std::to_string(value) +
         " } ";
}
std::string run_error(const Graph& graph, const std::map<std::string, Value>& inputs) {
  Texts texts = graph.texts();
  try {
    graph.run_values(inputs, texts);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// A view of one element that is an output of many: it is all there, or a check says that it cannot be.
TEST(Trial, SeesOutputsThatMemoryCannotHold) {
  const std::string size = whole_number("s", std::int64_t{1} << 55);
  const Graph given = tried_graph(node("Expand", "input: ['w', 's']") + weight({1}) + size);
  const std::string error = run_error(given, {});
  EXPECT_NE(error.find("Expand 'it'"), std::string::npos) << error;
  EXPECT_NE(first_problem(try_graph(given)).find(error), std::string::npos);
  // Whatever the input holds: it has one element.
  const Graph open = tried_graph(node("Expand", "input: ['x', 's']") + input("x", "1") + size);
  EXPECT_NE(first_problem(try_graph(open)).find("--max-memory"), std::string::npos);
  const Graph listed = tried_graph("node { op_type: 'Expand' input: ['w', 's'] output: 'e' } " +
                                   node("SequenceConstruct", "input: ['e', 'w']") + weight({1}) + size);
  EXPECT_NE(run_error(listed, {}).find("SequenceConstruct 'it'"), std::string::npos);
  EXPECT_FALSE(try_graph(listed).problems.empty());
}

TEST(Trial, HandsOutOutputsThatAreContiguous) {
  const Graph graph = tried_graph(node("Expand", "input: ['w', 's']") + weight({1}) + whole_number("s", 3));
  const TrialResult trial = try_graph(graph);
  ASSERT_EQ(trial.outputs.size(), 1);
  EXPECT_TRUE(trial.outputs[0].tensor.is_contiguous());
  EXPECT_EQ(trial.outputs[0].tensor.shape(), (Shape{3}));
}

/// A Loop over 'x' that runs `count` times, or as long as its body says.
std::string loop_of(std::int64_t count, const std::string& condition) {
  return "node { op_type: 'Loop' name: 'it' input: ['m', '', 'x'] output: 'y' attribute { name: 'body' type: "
         "GRAPH g { " +
         condition +
         " node { op_type: 'Neg' input: 'v' output: 'u' } input { name: 'i' } input { name: 'go' } input { "
         "name: 'v' } output { name: 'on' } output { name: 'u' } } } } " +
         whole_number("m", count, "") + input("x", "2");
}

TEST(Trial, SeesLoopsThatAlwaysTakeTooLong) {
  const std::string kept = "node { op_type: 'Identity' input: 'go' output: 'on' }";
  EXPECT_NE(first_problem(trial_of(loop_of(std::int64_t{1} << 62, kept))).find("--max-iterations"),
            std::string::npos);
  EXPECT_TRUE(trial_of(loop_of(10, kept)).problems.empty());
  // It may end, with other inputs.
  const std::string asked =
      "node { op_type: 'ReduceSum' input: 'v' output: 's' attribute { name: 'keepdims' type: INT i: 0 } } "
      "node { op_type: 'Cast' input: 's' output: 'on' attribute { name: 'to' type: INT i: 9 } }";
  EXPECT_TRUE(trial_of(loop_of(std::int64_t{1} << 62, asked)).problems.empty());
}

}  // namespace
}  // namespace ingot::onnx
