#include <algorithm>
#include <cmath>

#include "onnx.pb.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/node_tests.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/pool.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/weights/onnx_file.h"

// What a graph's nodes become when it runs: folded, fused, on images in blocks of channels.

namespace ingot::onnx {
namespace {

using ingot::testing::max_error;
using ingot::testing::randn;

void add_initializer(::onnx::GraphProto& graph, const std::string& name, const Tensor& x) {
  ::onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(1);
  for (const std::int64_t size : x.dims()) tensor.add_dims(size);
  for (const float value : x.to_vector<float>()) tensor.add_float_data(value);
}

/// A graph of nodes in protobuf's text form, from x [1, 16, ?, ?] to `outputs`, with weights.
Graph graph_with(const std::string& nodes, const std::vector<std::string>& outputs,
                 const std::map<std::string, Tensor>& weights) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: 17 } graph { " + nodes +
          "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: 1 } dim { dim_value: "
          "16 } dim { dim_param: 'h' } dim { dim_param: 'w' } } } } } }",
      &model));
  for (const std::string& name : outputs) model.mutable_graph()->add_output()->set_name(name);
  for (const auto& [name, x] : weights) add_initializer(*model.mutable_graph(), name, x);
  const std::string bytes = model.SerializeAsString();
  const auto view = std::as_bytes(std::span(bytes));
  return Graph::open(OnnxFile::open(memory_blob("test.onnx", {view.begin(), view.end()})));
}

// ONNX Runtime computes the same sums; of what it rounds otherwise nothing may be further than a step.
TEST(Program, QuantizedGraphIsNoStepFromOnnxRuntime) {
  const std::string directory = test::source_dir() + "/tests/onnx/goldens/quantized/";
  const Graph graph = Graph::open(directory + "model.onnx");
  const std::vector<Tensor> outputs =
      graph.run({{"x", OnnxFile::read_tensor(directory + "test_data_set_0/input_0.pb")}});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor expected =
        OnnxFile::read_tensor(directory + "test_data_set_0/output_" + std::to_string(i) + ".pb");
    const std::vector<float> a = outputs[i].to_vector<float>(), b = expected.to_vector<float>();
    ASSERT_EQ(a.size(), b.size());
    std::vector<float> levels = b;
    std::ranges::sort(levels);
    float step = INFINITY;  // of the codes that the output stands for
    for (std::size_t k = 1; k < levels.size(); ++k) {
      if (levels[k] > levels[k - 1] + 1e-6F) step = std::min(step, levels[k] - levels[k - 1]);
    }
    std::size_t off = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      EXPECT_LE(std::abs(a[k] - b[k]), step * 1.01F) << "output " << i << " at " << k;
      off += std::abs(a[k] - b[k]) > step / 2 ? 1 : 0;
    }
    EXPECT_LE(off, a.size() / 50) << "output " << i;
  }
}

constexpr const char* kConvolved =
    "node { op_type: 'Conv' name: 'c' input: ['x', 'w'] output: 'y' attribute { name: 'pads' type: INTS "
    "ints: "
    "[1, 1, 1, 1] } } ";

// A value is there in blocks, plainly, as an output, and for a residual that broadcasts.
TEST(Program, ValuesAreThereForWhoeverReadsThem) {
  const Tensor w = randn({16, 16, 3, 3}, 1), x = randn({1, 16, 5, 6}, 2), v = randn({16, 16, 1, 1}, 3);
  const Graph graph = graph_with(std::string(kConvolved) +
                                     "node { op_type: 'GlobalAveragePool' input: 'y' output: 'm' } "
                                     "node { op_type: 'Conv' input: ['m', 'v'] output: 'g' } "
                                     "node { op_type: 'Conv' input: ['y', 'v'] output: 'p' } "
                                     "node { op_type: 'Add' input: ['p', 'g'] output: 's' } "
                                     "node { op_type: 'Relu' input: 's' output: 'z' } "
                                     "node { op_type: 'Softmax' input: 'z' output: 'last' } ",
                                 {"y", "z", "last"}, {{"w", w}, {"v", v}});
  const Tensor y = conv2d(x, w, {}, {.padding = {1, 1}});
  const Tensor g = conv2d(mean(y, {2, 3}, true), v), z = relu(add(conv2d(y, v), g));
  const std::vector<Tensor> outputs = graph.run({{"x", x}});
  EXPECT_LT(max_error(outputs[0], y), 1e-4);
  EXPECT_LT(max_error(outputs[1], z), 1e-4);
  EXPECT_LT(max_error(outputs[2], softmax(z)), 1e-4);
}

std::string conv_node(const std::string& x, const std::string& weight, const std::string& y) {
  return "node { op_type: 'Conv' name: '" + y + "' input: ['" + x + "', '" + weight + "'] output: '" + y +
         "' attribute { name: 'pads' type: INTS ints: [1, 1, 1, 1] } } ";
}
std::string named_node(const std::string& op, const std::string& inputs, const std::string& y,
                       const std::string& attributes = {}) {
  return "node { op_type: '" + op + "' name: '" + y + "' input: [" + inputs + "] output: '" + y + "' " +
         attributes + "} ";
}

// A U-Net's step: spread over twice the positions, beside what was there, convolved.
TEST(Program, SpreadsAndConvolvesPartsOfAConcat) {
  const std::string axis = "attribute { name: 'axis' type: INT i: 1 } ",
                    strides = "attribute { name: 'strides' type: INTS ints: [2, 2] } ";
  const Tensor w = randn({16, 16, 3, 3}, 1), both = randn({16, 32, 3, 3}, 2), up = randn({16, 16, 2, 2}, 3),
               bias = randn({16}, 4), last = randn({16}, 5), x = randn({1, 16, 6, 4}, 6);
  const std::string nodes =
      conv_node("x", "w", "kept") +
      named_node("MaxPool", "'kept'", "small",
                 strides + "attribute { name: 'kernel_shape' type: INTS ints: [2, 2] } ") +
      named_node("ConvTranspose", "'small', 'up', 'b'", "spread", strides) +
      named_node("Concat", "'kept', 'spread'", "all", axis) + conv_node("all", "both', 'l", "joined") +
      named_node("Relu", "'joined'", "y");
  const std::map<std::string, Tensor> weights{{"w", w}, {"both", both}, {"up", up}, {"b", bias}, {"l", last}};
  const Tensor kept = conv2d(x, w, {}, {.padding = {1, 1}}),
               spread = conv_transpose2d(max_pool2d(kept, {.window = {2, 2}, .stride = {2, 2}}), up, bias,
                                         {.stride = {2, 2}}),
               y = relu(
                   conv2d(concat(std::vector<Tensor>{kept, spread}, 1), both, last, {.padding = {1, 1}}));
  const Graph apart = graph_with(nodes, {"y"}, weights), whole = graph_with(nodes, {"y", "all"}, weights);
  EXPECT_LT(max_error(apart.run({{"x", x}})[0], y), 2e-4);
  EXPECT_LT(max_error(whole.run({{"x", x}})[0], y), 2e-4);
  // An odd size is a row less when it comes back: the parts do not fit.
  const std::string message = test::message_of<Error>([&] { apart.run({{"x", randn({1, 16, 5, 4}, 7)}}); });
  EXPECT_EQ(message.find("Conv 'joined'"), 0) << message;
}

// One weight in two layouts: at stride 1 transformed, at stride 2 as it is.
TEST(Program, ConvolvesByTheFormOfAWeightThatIsFast) {
  const Tensor first = randn({64, 16, 1, 1}, 1), w = scale(randn({64, 64, 3, 3}, 2), 0.1F),
               x = randn({1, 16, 5, 6}, 3);
  const std::string strided =
      "node { op_type: 'Conv' name: 's' input: ['a', 'w'] output: 's' attribute { name: 'strides' type: INTS "
      "ints: [2, "
      "2] } attribute { name: 'pads' type: INTS ints: [1, 1, 1, 1] } } ";
  const Graph graph = graph_with(
      named_node("Conv", "'x', 'first'", "a") + conv_node("a", "w", "b") + strided + conv_node("s", "w", "t"),
      {"b", "t"}, {{"first", first}, {"w", w}});
  const Tensor a = conv2d(x, first), s = conv2d(a, w, {}, {.stride = {2, 2}, .padding = {1, 1}});
  const std::vector<Tensor> outputs = graph.run({{"x", x}});
  EXPECT_LT(max_error(outputs[0], conv2d(a, w, {}, {.padding = {1, 1}})), 1e-3);
  EXPECT_LT(max_error(outputs[1], conv2d(s, w, {}, {.padding = {1, 1}})), 1e-3);
}

// A sum may take the memory of what it adds to only where nothing reads that any more.
TEST(Program, SumsLeaveWhatIsReadLater) {
  const Tensor w = randn({16, 16, 3, 3}, 1), x = randn({1, 16, 5, 6}, 2);
  const auto convolved = [&](const Tensor& t) { return conv2d(t, w, {}, {.padding = {1, 1}}); };
  const Tensor a = convolved(x), s = add(convolved(a), a), t = add(convolved(s), s);
  const std::string sums = conv_node("x", "w", "a") + conv_node("a", "w", "b") +
                           named_node("Add", "'b', 'a'", "s") + conv_node("s", "w", "c") +
                           named_node("Add", "'s', 'c'", "t");
  EXPECT_LT(max_error(graph_with(sums, {"t"}, {{"w", w}}).run({{"x", x}})[0], t), 1e-2);
  const std::vector<Tensor> kept = graph_with(sums, {"t", "s", "a"}, {{"w", w}}).run({{"x", x}});
  EXPECT_LT(max_error(kept[1], s), 1e-3);
  EXPECT_EQ(max_error(kept[2], a), 0);
  const std::string later = sums + named_node("Mul", "'a', 'a'", "m") + named_node("Mul", "'s', 'm'", "p");
  EXPECT_LT(max_error(graph_with(later, {"p"}, {{"w", w}}).run({{"x", x}})[0], mul(s, mul(a, a))), 1e-2);
}

std::string quantized(const std::string& op, const std::string& x, const std::string& which,
                      const std::string& y) {
  return "node { op_type: '" + op + "' name: '" + y + "' input: ['" + x + "', 's" + which + "', 'z" + which +
         "'] output: '" + y + "' } ";
}
std::string code_scale(const std::string& which, const std::string& value, const std::string& zero) {
  return "initializer { name: 's" + which + "' data_type: 1 float_data: " + value +
         " } initializer { name: 'z" + which + "' data_type: 2 int32_data: " + zero + " } ";
}

// The sum of codes is the same where its value is there for others, and so no part of the addition.
TEST(Program, SumsOfCodesAreThoseOfTheirValues) {
  const std::string scales =
      code_scale("a", "0.05", "120") + code_scale("b", "0.02", "0") + code_scale("y", "0.03", "0");
  const std::string nodes =
      scales + quantized("QuantizeLinear", "x", "a", "qa") + quantized("QuantizeLinear", "v", "b", "qb") +
      quantized("DequantizeLinear", "qa", "a", "a") + quantized("DequantizeLinear", "qb", "b", "b") +
      named_node("Add", "'a', 'b'", "sum") + named_node("Relu", "'sum'", "r") +
      quantized("QuantizeLinear", "r", "y", "q") + quantized("DequantizeLinear", "q", "y", "y");
  for (const Shape& other : {Shape{1, 16, 5, 6}, Shape{1, 16, 1, 1}}) {
    const std::map<std::string, Tensor> weights{{"v", abs(randn(other, 3))}};
    const Tensor x = scale(randn({1, 16, 5, 6}, 2), 3);
    const Graph fused = graph_with(nodes, {"y"}, weights), parts = graph_with(nodes, {"y", "sum"}, weights);
    EXPECT_EQ(max_error(fused.run({{"x", x}})[0], parts.run({{"x", x}})[0]), 0) << to_string(other);
  }
}

TEST(Program, BiasesAreWhereSumsBegin) {
  const Tensor m = randn({6, 7}, 1), bias = randn({7}, 2), x = randn({1, 16, 5, 6}, 3);
  const Tensor y = add(matmul(x, m), bias);
  const std::map<std::string, Tensor> weights{{"m", m}, {"b", bias}};
  const std::string nodes = named_node("MatMul", "'x', 'm'", "p") + named_node("Add", "'b', 'p'", "y");
  EXPECT_LT(max_error(graph_with(nodes, {"y"}, weights).run({{"x", x}})[0], y), 1e-5);
  EXPECT_LT(max_error(graph_with(nodes, {"p", "y"}, weights).run({{"x", x}})[1], y), 1e-5);
  const Graph graph = graph_with(nodes, {"y"}, weights);
  const std::string message = test::message_of<Error>([&] { graph.run({{"x", randn({1, 16, 5, 5}, 4)}}); });
  EXPECT_EQ(message.find("MatMul 'p'"), 0) << message;
}

/// The same graph, with `weights` that no pass takes for constants.
Graph graph_with_made(std::string nodes, const std::vector<std::string>& outputs,
                      const std::map<std::string, Tensor>& weights) {
  std::string made;
  std::map<std::string, Tensor> given;
  for (const auto& [name, x] : weights) {
    made += named_node("Max", "'given " + name + "'", name);
    given["given " + name] = x;
  }
  return graph_with(made + nodes, outputs, given);
}

TEST(Program, PrepackedMatricesGiveTheSameSums) {
  const std::string transposed = "attribute { name: 'transB' type: INT i: 1 } ",
                    nodes = named_node("MatMul", "'x', 'm'", "p") + named_node("Add", "'p', 'b'", "q") +
                            named_node("MatMul", "'q', 'n'", "r") +
                            named_node("Flatten", "'r'", "s", "attribute { name: 'axis' type: INT i: 3 } ") +
                            named_node("Gemm", "'s', 'o'", "t") + named_node("Gemm", "'t', 'm', 'b'", "u") +
                            named_node("Gemm", "'u', 'm'", "y", transposed);
  const std::map<std::string, Tensor> weights{{"m", randn({130, 131}, 1)},
                                              {"b", randn({131}, 2)},
                                              {"n", randn({131, 140}, 3)},
                                              {"o", scale(randn({140, 130}, 4), 0.01F)}};
  const Graph graph = graph_with(nodes, {"y", "r"}, weights),
              made = graph_with_made(nodes, {"y", "r"}, weights);
  for (const std::int64_t rows : {1, 5}) {
    const Tensor x = scale(randn({1, 16, rows, 130}, 5), 0.1F);
    const std::vector<Tensor> a = graph.run({{"x", x}}), b = made.run({{"x", x}});
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(a[i].shape(), b[i].shape());
      EXPECT_LT(max_error(a[i], b[i]), 2e-4) << i << ", " << rows << " rows";
    }
  }
  const std::string message = test::message_of<Error>([&] { graph.run({{"x", randn({1, 16, 5, 5}, 4)}}); });
  EXPECT_EQ(message.find("MatMul 'p'"), 0) << message;
  EXPECT_EQ(message.find("tiles"), message.npos) << message;
}

TEST(Program, PrepackedRecurrentLayersGiveTheSameStates) {
  for (const auto& [op, gates] : {std::pair{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    const std::int64_t hidden = 128;
    const std::string both =
                          "attribute { name: 'direction' type: STRING s: 'bidirectional' } "
                          "attribute { name: 'hidden_size' type: INT i: 128 } ",
                      squeeze = "initializer { name: 'axis' data_type: 7 dims: 1 int64_data: 0 } " +
                                named_node("Squeeze", "'x', 'axis'", "steps"),
                      nodes = squeeze + named_node(op, "'steps', 'w', 'r', 'b'", "y", both);
    const std::map<std::string, Tensor> weights{{"w", scale(randn({2, gates * hidden, 132}, 1), 0.1F)},
                                                {"r", scale(randn({2, gates * hidden, hidden}, 2), 0.1F)},
                                                {"b", randn({2, 2 * gates * hidden}, 3)}};
    for (const std::int64_t batch : {1, 3}) {
      const Tensor x = randn({1, 16, batch, 132}, 4),
                   a = graph_with(nodes, {"y"}, weights).run({{"x", x}})[0],
                   b = graph_with_made(nodes, {"y"}, weights).run({{"x", x}})[0];
      ASSERT_EQ(a.shape(), b.shape());
      EXPECT_LT(max_error(a, b), 1e-5) << op << ", " << batch;
    }
  }
}

// Types that the fused operators do not take are an error, as they were before.
TEST(Program, RefusesBiasesOfOtherTypes) {
  const Graph graph = graph_with(
      "node { op_type: 'Conv' name: 'c' input: ['x', 'w', 'b'] output: 'y' } initializer { "
      "name: 'b' data_type: 2 dims: 16 raw_data: '0123456789012345' } ",
      {"y"}, {{"w", randn({16, 16, 1, 1}, 1)}});
  const std::string message = test::message_of<Error>([&] { graph.run({{"x", randn({1, 16, 5, 5}, 4)}}); });
  EXPECT_EQ(message.find("Conv 'c'"), 0) << message;
}

// What torch's exporter writes, with a row of queries that has no weights.
TEST(Program, AttentionIsThatOfItsParts) {
  const std::string nodes =
      "node { op_type: 'Mul' input: ['x', 'c'] output: 'q' } "
      "node { op_type: 'Transpose' input: 'x' output: 't' attribute { name: 'perm' type: INTS ints: [0, 1, "
      "3, 2] } "
      "} node { op_type: 'Mul' input: ['t', 'c'] output: 'k' } "
      "node { op_type: 'MatMul' input: ['q', 'k'] output: 's' } "
      "node { op_type: 'Add' input: ['s', 'mask'] output: 'm' } "
      "node { op_type: 'Softmax' input: 'm' output: 'p' attribute { name: 'axis' type: INT i: -1 } } "
      "node { op_type: 'IsNaN' input: 'p' output: 'n' } "
      "node { op_type: 'Where' input: ['n', 'zero', 'p'] output: 'w' } "
      "node { op_type: 'MatMul' input: ['w', 'x'] output: 'y' } ";
  const std::map<std::string, Tensor> weights{
      {"c", Tensor::scalar(0.6F)}, {"zero", Tensor::scalar(0)}, {"mask", Tensor::zeros({1, 1, 5, 5})}};
  const Graph graph = graph_with(nodes, {"y"}, weights), by_parts = graph_with(nodes, {"y", "w"}, weights);
  for (const float first : {1.0F, NAN}) {
    const Tensor x = randn({1, 16, 5, 6}, 1);
    x.data<float>()[6] = first;
    const std::vector<float> a = graph.run({{"x", x}})[0].to_vector<float>(),
                             b = by_parts.run({{"x", x}})[0].to_vector<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(std::isnan(a[i]), std::isnan(b[i])) << i;
      if (!std::isnan(a[i])) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
    }
  }
}

// Names that a program would give are a file's own.
TEST(Program, FilesMayUseAnyName) {
  const Tensor w = randn({16, 16, 3, 3}, 1), x = randn({1, 16, 5, 6}, 2);
  const Graph graph =
      graph_with(std::string(kConvolved) +
                     "node { op_type: 'Neg' input: 'y' output: 'y in blocks' } "
                     "node { op_type: 'Relu' input: 'y' output: 'r' } "
                     "node { op_type: 'Add' input: ['y in blocks', 'r'] output: 'w prepacked' } ",
                 {"w prepacked"}, {{"w", w}});
  const Tensor y = conv2d(x, w, {}, {.padding = {1, 1}});
  EXPECT_LT(max_error(graph.run({{"x", x}})[0], sub(relu(y), y)), 1e-4);
}

// A node's own error, when the graph runs.
TEST(Program, NodesThatAreFoldedOrFusedFailAsTheyWould) {
  const Tensor w = randn({16, 16, 3, 3}, 1);
  const Graph fused = graph_with(kConvolved, {"y"}, {{"w", randn({16, 16, 9, 9}, 1)}});
  const auto message_of = [](const Graph& graph) {
    return test::message_of<Error>([&] { graph.run({{"x", randn({1, 16, 5, 6}, 2)}}); });
  };
  EXPECT_NE(message_of(fused).find("Conv 'c'"), std::string::npos) << message_of(fused);
  const Graph narrow = graph_with(kConvolved, {"y"}, {{"w", randn({16, 32, 3, 3}, 1)}});
  EXPECT_NE(message_of(narrow).find("Conv 'c'"), std::string::npos) << message_of(narrow);
  const Graph folded = graph_with(std::string(kConvolved) +
                                      "node { op_type: 'Add' name: 'sum' input: ['a', 'b'] output: 'ab' } "
                                      "node { op_type: 'Add' input: ['y', 'ab'] output: 'z' } ",
                                  {"z"}, {{"w", w}, {"a", randn({3}, 1)}, {"b", randn({2}, 1)}});
  EXPECT_EQ(message_of(folded).find("Add 'sum': "), 0) << message_of(folded);
  EXPECT_NE(message_of(folded).find("'a' f32 [3], 'b' f32 [2]"), std::string::npos) << message_of(folded);
}

// The type of an error and its fields are still there when it names its node, with or without a name.
TEST(Program, ErrorsNameNodeAndInputs) {
  const Graph graph = graph_with("node { op_type: 'MatMul' input: ['x', 'm'] output: 'y' } ", {"y"},
                                 {{"m", randn({7, 2}, 1)}});
  try {
    graph.run({{"x", randn({1, 16, 5, 6}, 2)}});
    ADD_FAILURE() << "no error";
  } catch (const ShapeMismatch& error) {
    EXPECT_EQ(error.actual, (std::vector<std::int64_t>{7, 2}));
    const std::string message = error.what();
    EXPECT_EQ(message.find("MatMul (output 'y'): "), 0) << message;
    EXPECT_NE(message.find("(inputs: 'x' f32 [1, 16, 5, 6], 'm' f32 [7, 2])"), std::string::npos) << message;
  }
}

// What passes look at may not be there: inputs, outputs, names of them.
TEST(Program, TakesOperatorsWithAnyNumberOfInputsAndOutputs) {
  const std::map<std::string, Tensor> weights{{"w", randn({16, 16, 3, 3}, 1)}};
  const std::vector<std::string> shapes{"output: 'o'",
                                        "",
                                        "input: 'y'",
                                        "input: '' output: 'o'",
                                        "input: 'y' output: ''",
                                        "input: ['y', 'x'] output: ['o', 'p']",
                                        "input: ['y', 'y', 'w', '', 'x', 'w', 'x', 'y'] output: 'o'"};
  for (const std::string_view name : op_names()) {
    if (name.find('.') != name.npos) continue;
    for (const std::string& shape : shapes) {
      const std::string node = "node { op_type: '" + std::string(name) + "' name: 'it' " + shape + " } ";
      const Graph graph = graph_with(std::string(kConvolved) + node, {"y"}, weights);
      try {
        graph.run({{"x", Tensor::zeros({1, 16, 4, 4})}}, 10);
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(std::string(name) + " 'it'"), std::string::npos)
            << node << ": " << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace ingot::onnx
