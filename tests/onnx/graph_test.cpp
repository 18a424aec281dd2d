#include "ingot/onnx/graph.h"

#include <cmath>
#include <complex>
#include <filesystem>
#include <numbers>
#include <thread>

#include "onnx.pb.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph_trial.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/node_tests.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::onnx {
namespace {

using test::message_of;

const std::string kGoldens = test::source_dir() + "/tests/onnx/goldens/";

/// A model in protobuf's text form, from operator set 17.
Graph graph_of(const std::string& graph, int opset = 17) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: " + std::to_string(opset) + " } graph { " + graph + " }",
      &model));
  const std::string bytes = model.SerializeAsString();
  const auto view = std::as_bytes(std::span(bytes));
  return Graph::open(OnnxFile::open(memory_blob("test.onnx", {view.begin(), view.end()})));
}

std::string value(const std::string& kind, const std::string& name, const std::string& dims, int type = 1) {
  std::string shape;
  for (const char c : dims)
    shape += c == '?' ? "dim { dim_param: 'n' } " : std::string("dim { dim_value: ") + c + " } ";
  return kind + " { name: '" + name + "' type { tensor_type { elem_type: " + std::to_string(type) +
         " shape { " + shape + "} } } } ";
}

const std::string kAdd = "node { op_type: 'Add' name: 'sum' input: ['x', 'x'] output: 'y' } " +
                         value("input", "x", "?2") + value("output", "y", "?2");

class ExportedModel : public ::testing::TestWithParam<const char*> {};

// The outputs are PyTorch's; onnxruntime is as far from them as we may be.
TEST_P(ExportedModel, GivesPyTorchsOutputs) {
  const std::string directory = kGoldens + GetParam();
  const Graph graph = Graph::open(directory + "/model.onnx");
  std::map<std::string, Tensor> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    inputs[graph.inputs()[i].name] =
        OnnxFile::read_tensor(directory + "/test_data_set_0/input_" + std::to_string(i) + ".pb");
  }
  const std::vector<Tensor> outputs = graph.run(inputs);
  ASSERT_FALSE(outputs.empty());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor expected =
        OnnxFile::read_tensor(directory + "/test_data_set_0/output_" + std::to_string(i) + ".pb");
    EXPECT_EQ(difference(outputs[i], expected, 1e-5, 1e-5), "") << graph.outputs()[i].name;
  }
}
INSTANTIATE_TEST_SUITE_P(All, ExportedModel,
                         ::testing::Values("mlp_torchscript", "mlp_dynamo", "mlp_external",
                                           "resnet_torchscript", "resnet_dynamo", "blocks_dynamo",
                                           "bert_torchscript", "bert_dynamo", "gpt2_dynamo",
                                           "recurrent_torchscript", "control_torchscript"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Graph, OpenAxesTakeAnySizeAndThreadsShareAGraph) {
  const Graph graph = Graph::open(kGoldens + "mlp_dynamo/model.onnx");
  const Tensor x = ingot::testing::randn({6, 7}, 1);
  const Tensor all = graph.run({{"x", x}})[0];
  EXPECT_EQ(all.shape(), (Shape{6, 3}));
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(difference(graph.run({{"x", x}})[0], all, 0, 0), ""); });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Whether what is said of a test's graph beforehand is what its run said. Data that cannot be read is none
/// of the graph's.
void expect_trial_agrees(const NodeTest& test, const std::string& directory) {
  if (test.end == TestEnd::wrong || test.detail.find(directory) != std::string::npos ||
      test.detail.starts_with("data of"))
    return;
  const TrialResult trial = try_graph(Graph::open(directory + "/model.onnx"));
  EXPECT_EQ(!trial.problems.empty(), test.end == TestEnd::unsupported)
      << test.name << ": " << (trial.problems.empty() ? "" : trial.problems[0]) << " / " << test.detail;
}

// ONNX' own tests, as Debian has them. What Ingot lacks it says; what it has must be right.
TEST(NodeTests, AllPassThatNeedOnlyWhatIngotHas) {
  const std::string data = "/usr/share/libonnx-testdata/data/node";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "the Debian package libonnx-testdata is not installed";
  int passed = 0;
  for (const NodeTest& test : run_node_tests(data)) {
    // ONNX 1.12 computed its expected values with an epsilon that its model does not have.
    if (test.name != "test_adam_multiple")
      EXPECT_NE(test.end, TestEnd::wrong) << test.name << ": " << test.detail;
    passed += test.end == TestEnd::passed ? 1 : 0;
    expect_trial_agrees(test, data + "/" + test.name);
  }
  EXPECT_GE(passed, 912);
}

TEST(NodeTests, SeeADifference) {
  const Tensor a = Tensor::from(std::vector<float>{1, 2}, {2});
  EXPECT_EQ(difference(a, Tensor::from(std::vector<float>{1, 2.001F}, {2})), "");
  EXPECT_NE(difference(a, Tensor::from(std::vector<float>{1, 2.01F}, {2})), "");
  EXPECT_NE(difference(a, Tensor::from(std::vector<float>{1, NAN}, {2})), "");
  EXPECT_NE(difference(a, Tensor::from(std::vector<float>{1, 2}, {1, 2})), "");
  EXPECT_NE(difference(a, Tensor::from(std::vector<double>{1, 2}, {2})), "");
}

/// One node of x and whole numbers that the graph holds.
Graph graph_of_node(const std::string& op, const std::vector<std::vector<std::int64_t>>& constants,
                    const std::string& attributes, const std::string& dims, int type = 1, int opset = 19) {
  std::string inputs = "input: 'x' ", held;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const std::string name = "c" + std::to_string(i);
    inputs += "input: '" + name + "' ";
    held +=
        "initializer { name: '" + name + "' data_type: 7 dims: " + std::to_string(constants[i].size()) + " ";
    for (const std::int64_t v : constants[i]) held += "int64_data: " + std::to_string(v) + " ";
    held += "} ";
  }
  return graph_of("node { op_type: '" + op + "' name: 'it' " + inputs + "output: 'y' " + attributes + "} " +
                      held + value("input", "x", dims, type) +
                      "output { name: 'y' type { tensor_type { elem_type: " + std::to_string(type) +
                      " } } } ",
                  opset);
}

std::vector<float> floats_of(const Graph& graph, const Tensor& x) {
  return contiguous(graph.run({{"x", x}})[0]).to_vector<float>();
}

const Tensor kFive = Tensor::from(std::vector<float>{1, 2, 3, 4, 5}, {5});

TEST(Pad, TakesItsBordersFromEveryMode) {
  const auto padded = [](const std::string& mode, std::int64_t before, std::int64_t after) {
    return floats_of(graph_of_node("Pad", {{before, after}},
                                   "attribute { name: 'mode' type: STRING s: '" + mode + "' } ", "5"),
                     kFive);
  };
  EXPECT_EQ(padded("constant", 2, 1), (std::vector<float>{0, 0, 1, 2, 3, 4, 5, 0}));
  EXPECT_EQ(padded("edge", 2, 1), (std::vector<float>{1, 1, 1, 2, 3, 4, 5, 5}));
  EXPECT_EQ(padded("reflect", 2, 1), (std::vector<float>{3, 2, 1, 2, 3, 4, 5, 4}));
  EXPECT_EQ(padded("wrap", 2, 1), (std::vector<float>{4, 5, 1, 2, 3, 4, 5, 1}));
  EXPECT_EQ(padded("reflect", -2, 3), (std::vector<float>{3, 4, 5, 4, 3, 4}));
  EXPECT_EQ(padded("constant", -2, -1), (std::vector<float>{3, 4}));
}

TEST(Pad, RefusesToRepeatNothing) {
  const Graph graph =
      graph_of_node("Pad", {{-5, 2}}, "attribute { name: 'mode' type: STRING s: 'reflect' } ", "5");
  EXPECT_THROW(graph.run({{"x", kFive}}), DimensionMismatch);
}

TEST(Slice, StartsAtTheFirstPositionWhereItsStartLiesBeforeThat) {
  EXPECT_EQ(floats_of(graph_of_node("Slice", {{-9}, {-10}, {0}, {-1}}, "", "5"), kFive),
            (std::vector<float>{1}));
  EXPECT_EQ(floats_of(graph_of_node("Slice", {{9}, {-9}, {0}, {-2}}, "", "5"), kFive),
            (std::vector<float>{5, 3, 1}));
}

TEST(ScatterElements, CopiesWholeNumbersAsTheyAre) {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;  // no double
  const Graph graph = graph_of_node("ScatterElements", {{2}, {large}}, "", "3", 7);
  const Tensor x = Tensor::from(std::vector<std::int64_t>{large, 7, 8}, {3});
  EXPECT_EQ(graph.run({{"x", x}})[0].to_vector<std::int64_t>(), (std::vector<std::int64_t>{large, 7, large}));
}

TEST(TopK, TakesTheFirstOfEqualWholeNumbers) {
  const Graph graph = graph_of(
      "node { op_type: 'TopK' input: 'x' input: 'k' output: 'y' output: 'i' attribute { name: 'largest' "
      "type: INT i: "
      "0 } } initializer { name: 'k' data_type: 7 dims: 1 int64_data: 3 } " +
      value("input", "x", "5", 7) + value("output", "y", "3", 7) + value("output", "i", "3", 7));
  const std::vector<Tensor> found =
      graph.run({{"x", Tensor::from(std::vector<std::int64_t>{4, 1, 3, 1, 9}, {5})}});
  EXPECT_EQ(found[0].to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 1, 3}));
  EXPECT_EQ(found[1].to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 3, 2}));
}

TEST(Graph, WrongInputsAreNamed) {
  const Graph graph = graph_of(kAdd);
  EXPECT_EQ(graph.run({{"x", Tensor::zeros({3, 2})}})[0].shape(), (Shape{3, 2}));
  EXPECT_NE(message_of<InvalidConfig>([&] { graph.run({}); }).find("not given"), std::string::npos);
  EXPECT_NE(message_of<InvalidConfig>([&] {
              graph.run({{"x", Tensor::zeros({3, 2}, DType::i64)}});
            }).find("takes FLOAT"),
            std::string::npos);
  EXPECT_THROW(graph.run({{"x", Tensor::zeros({3, 4})}}), ShapeMismatch);
  EXPECT_THROW(graph.run({{"x", Tensor::zeros({3})}}), ShapeMismatch);
  EXPECT_NE(message_of<InvalidConfig>([&] {
              graph.run({{"x", Tensor::zeros({3, 2})}, {"z", Tensor::zeros({1})}});
            }).find("it has: x"),
            std::string::npos);
}

TEST(Graph, OperatorsThatAreLackingAreAllNamedBeforeAnythingRuns) {
  const Graph graph = graph_of(
      "node { op_type: 'Whirl' input: 'x' output: 'a' } node { op_type: 'FusedThing' domain: 'com.example' "
      "input: 'a' "
      "output: 'y' } " +
      value("input", "x", "2") + value("output", "y", "2"));
  EXPECT_EQ(graph.unsupported(), (std::set<std::string>{"Whirl", "com.example.FusedThing"}));
  const std::string message = message_of<NotImplemented>([&] { graph.run({{"x", Tensor::zeros({2})}}); });
  EXPECT_NE(message.find("Whirl, com.example.FusedThing"), std::string::npos) << message;
}

TEST(Graph, ErrorsNameTheNode) {
  const Graph graph =
      graph_of("node { op_type: 'Gather' name: 'look_up' input: ['x', 'i'] output: 'y' } " +
               value("input", "x", "3") + value("input", "i", "1", 7) + value("output", "y", "1"));
  const Tensor x = Tensor::zeros({3});
  const std::string message = message_of<DimensionMismatch>([&] {
    graph.run({{"x", x}, {"i", Tensor::from(std::vector<std::int64_t>{3}, {1})}});
  });
  EXPECT_NE(message.find("look_up"), std::string::npos) << message;
}

TEST(Graph, BrokenGraphsAreRefused) {
  const std::string out = value("output", "y", "2");
  EXPECT_NE(message_of<FormatError>([&] {
              graph_of("node { op_type: 'Relu' input: 'nobody' output: 'y' } " + out);
            }).find("nothing before makes it"),
            std::string::npos);
  EXPECT_THROW(graph_of("node { op_type: 'Relu' input: 'y' output: 'y' } " + out),
               FormatError);  // reads itself
  EXPECT_THROW(graph_of(out), FormatError);
  EXPECT_THROW(
      graph_of(
          "node { op_type: 'Relu' input: 'x' output: 'y' } node { op_type: 'Relu' input: 'x' output: 'y' } " +
          value("input", "x", "2") + out),
      FormatError);
  EXPECT_THROW(graph_of(kAdd, 99), NotImplemented);
}

/// A node whose body doubles x as often as `times` says, and keeps what x was in each iteration.
std::string doubling_loop(const std::string& read = "v", const std::string& op = "Add") {
  return "node { op_type: 'Loop' name: 'twice' input: ['times', '', 'x'] output: ['y', 'all'] "
         "attribute { name: 'body' type: GRAPH g { "
         "node { op_type: 'Identity' input: 'go' output: 'on' } "
         "node { op_type: '" +
         op + "' input: ['" + read +
         "', 'v'] output: 'w' } node { op_type: 'Identity' input: 'w' output: 'kept' } " +
         value("input", "i", "", 7) + value("input", "go", "", 9) + value("input", "v", "2") +
         value("output", "on", "", 9) + value("output", "w", "2") + value("output", "kept", "2") + "} } } " +
         value("input", "x", "2") + value("input", "times", "", 7) + value("output", "y", "2") +
         value("output", "all", "?2");
}

TEST(Graph, LoopsCarryValuesAndCollectWhatTheyMake) {
  const Graph graph = graph_of(doubling_loop());
  const Tensor x = Tensor::from(std::vector<float>{1, 3}, {2});
  const auto times = [](std::int64_t n) { return Tensor::from(std::vector<std::int64_t>{n}, {}); };
  std::vector<Tensor> results = graph.run({{"x", x}, {"times", times(3)}});
  EXPECT_EQ(as_doubles(results[0]), (std::vector<double>{8, 24}));
  EXPECT_EQ(results[1].shape(), (Shape{3, 2}));
  EXPECT_EQ(as_doubles(results[1]), (std::vector<double>{2, 6, 4, 12, 8, 24}));
  results = graph.run({{"x", x}, {"times", times(0)}});
  EXPECT_EQ(as_doubles(results[0]), (std::vector<double>{1, 3}));
  EXPECT_EQ(results[1].shape(), (Shape{0, 2}));
}

TEST(Graph, BodiesReadTheGraphAroundThemAndNothingElse) {
  const Tensor x = Tensor::from(std::vector<float>{1, 3}, {2});
  const Tensor twice = Tensor::from(std::vector<std::int64_t>{2}, {});
  const Graph graph = graph_of(doubling_loop("x"));  // adds x itself each time
  EXPECT_EQ(as_doubles(graph.run({{"x", x}, {"times", twice}})[0]), (std::vector<double>{3, 9}));
  const std::string message = message_of<FormatError>([&] { graph_of(doubling_loop("nobody")); });
  EXPECT_NE(message.find("'twice'"), std::string::npos) << message;
  EXPECT_EQ(graph_of(doubling_loop("v", "Whirl")).unsupported(), (std::set<std::string>{"Whirl"}));
}

TEST(Einsum, RefusesEquationsThatDoNotFit) {
  const auto run = [](const std::string& equation) {
    const Graph graph = graph_of(
        "node { op_type: 'Einsum' input: ['x', 'z'] output: 'y' attribute { name: "
        "'equation' type: STRING s: '" +
        equation + "' } } " + value("input", "x", "23") + value("input", "z", "34") +
        value("output", "y", "??"));
    return graph.run({{"x", Tensor::from(std::vector<float>(6, 1), {2, 3})},
                      {"z", Tensor::from(std::vector<float>(12, 1), {3, 4})}})[0];
  };
  EXPECT_EQ(as_doubles(run("ij,jk->ki")), std::vector<double>(8, 3.0));
  EXPECT_EQ(as_doubles(run("ij, jk")), std::vector<double>(8, 3.0));
  EXPECT_EQ(as_doubles(run("ij,kl->")), std::vector<double>{72});
  EXPECT_EQ(run("...j,jk->...k").shape(), (Shape{2, 4}));
  for (const char* bad : {"ij,kj->ik", "ij->ij", "ijk,jk->i", "ij,jk->iz", "i1,jk->i", "ii,jk->ik"})
    EXPECT_THROW(run(bad), FormatError) << bad;
}

TEST(Spectra, TheInverseGivesTheSignalBackForEveryLength) {
  const Graph graph = graph_of(
      "node { op_type: 'DFT' input: 'x' output: 'f' } node { op_type: 'DFT' input: 'f' output: 'y' attribute "
      "{ "
      "name: 'inverse' type: INT i: 1 } } " +
      value("input", "x", "2?2") + value("output", "f", "2?2") + value("output", "y", "2?2"));
  for (const std::int64_t n : {1, 2, 6, 7, 8, 16}) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < 4 * n; ++i) x.push_back(std::sin(static_cast<float>(3 * i * i + i)));
    const std::vector<Tensor> results = graph.run({{"x", Tensor::from(x, {2, n, 2})}});
    EXPECT_EQ(difference(results[1], Tensor::from(x, {2, n, 2}), 1e-6, 1e-6), "") << n;
    std::complex<double> sum;  // of the first row, for frequency 1, as it is defined
    for (std::int64_t t = 0; t < n; ++t) {
      const auto at = static_cast<std::size_t>(2 * t);
      sum += std::complex<double>(x[at], x[at + 1]) *
             std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(t) / static_cast<double>(n));
    }
    if (n > 1) {
      EXPECT_NEAR(as_doubles(results[0])[2], sum.real(), 1e-5) << n;
      EXPECT_NEAR(as_doubles(results[0])[3], sum.imag(), 1e-5) << n;
    }
  }
}

TEST(Spectra, NothingHasASpectrumOfNothing) {
  const Graph graph = graph_of("node { op_type: 'DFT' input: 'x' output: 'y' } " +
                               value("input", "x", "2??2") + value("output", "y", "2??2"));
  EXPECT_EQ(graph.run({{"x", Tensor::zeros({2, 3, 0, 2})}})[0].shape(), (Shape{2, 3, 0, 2}));
  EXPECT_THROW(graph.run({{"x", Tensor::zeros({2, 0, 3, 2})}}), DimensionMismatch);
}

TEST(Pooling, WhatIsTakenGoesBackToWhereItStood) {
  const std::string attributes =
      " attribute { name: 'kernel_shape' type: INTS ints: [2, 2] } attribute { name: 'strides' type: INTS "
      "ints: "
      "[2, 2] } ";
  const Graph pool =
      graph_of("node { op_type: 'MaxPool' input: 'x' output: ['v', 'i'] " + attributes + "} " +
               value("input", "x", "1124") + value("output", "v", "1112") + value("output", "i", "1112", 7));
  const Graph back =
      graph_of("node { op_type: 'MaxUnpool' name: 'back' input: ['v', 'i'] output: 'y' " + attributes + "} " +
               value("input", "v", "1112") + value("input", "i", "1112", 7) + value("output", "y", "1124"));
  const Tensor x = Tensor::from(std::vector<float>{1, 4, -2, -3, 3, 2, -1, -9}, {1, 1, 2, 4});
  const std::vector<Tensor> taken = pool.run({{"x", x}});
  EXPECT_EQ(as_doubles(taken[0]), (std::vector<double>{4, -1}));
  EXPECT_EQ(as_integers(taken[1]), (std::vector<std::int64_t>{1, 6}));
  EXPECT_EQ(as_doubles(back.run({{"v", taken[0]}, {"i", taken[1]}})[0]),
            (std::vector<double>{0, 4, 0, 0, 0, 0, -1, 0}));
  const Tensor outside = Tensor::from(std::vector<std::int64_t>{1, 8}, {1, 1, 1, 2});
  const std::string said = message_of<Error>([&] { back.run({{"v", taken[0]}, {"i", outside}}); });
  EXPECT_NE(said.find("'back': index 8"), std::string::npos) << said;
}

TEST(Quantized, AConvolutionHasScalesAndZeroPointsByChannelAndABias) {
  const Graph graph = graph_of(
      "node { op_type: 'QLinearConv' input: ['x', 'xs', 'xz', 'w', 'ws', 'wz', 'ys', 'yz', 'b'] output: 'y' "
      "} " +
      value("input", "x", "1112", 2) + value("input", "xs", "") + value("input", "xz", "", 2) +
      value("input", "w", "2111", 2) + value("input", "ws", "2") + value("input", "wz", "2", 2) +
      value("input", "ys", "") + value("input", "yz", "", 2) + value("input", "b", "2", 6) +
      value("output", "y", "1212", 2));
  const auto bytes = [](const std::vector<std::int64_t>& values, const Shape& shape) {
    return from_integers(values, shape, DType::u8);
  };
  const std::vector<Tensor> y = graph.run({{"x", bytes({3, 5}, {1, 1, 1, 2})},
                                           {"xs", Tensor::scalar(0.5F)},
                                           {"xz", bytes({1}, {})},
                                           {"w", bytes({2, 4}, {2, 1, 1, 1})},
                                           {"ws", Tensor::from(std::vector<float>{0.5F, 0.25F}, {2})},
                                           {"wz", bytes({0, 1}, {2})},
                                           {"ys", Tensor::scalar(0.25F)},
                                           {"yz", bytes({10}, {})},
                                           {"b", from_integers({4, -2}, {2}, DType::i32)}});
  // (x - 1)(w - zero) + bias, times 0.5 · scale / 0.25, plus 10
  EXPECT_EQ(as_integers(y[0]), (std::vector<std::int64_t>{18, 22, 12, 15}));
}

TEST(Graph, MeaningsFollowTheOperatorSet) {
  // Softmax: until 12 over all axes from 1 on together, then over the last one.
  const std::string graph = "node { op_type: 'Softmax' input: 'x' output: 'y' } " +
                            value("input", "x", "122") + value("output", "y", "122");
  const Tensor zeros = Tensor::zeros({1, 2, 2});
  EXPECT_EQ(as_doubles(graph_of(graph, 12).run({{"x", zeros}})[0])[0], 0.25);
  EXPECT_EQ(as_doubles(graph_of(graph, 13).run({{"x", zeros}})[0])[0], 0.5);
}

TEST(OpTable, IsSortedAndFindsEveryRow) {
  for (const std::string_view name : op_names()) EXPECT_NE(find_op(name), nullptr) << name;
  EXPECT_EQ(find_op("Whirl"), nullptr);
}

}  // namespace
}  // namespace ingot::onnx
