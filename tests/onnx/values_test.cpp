// Values that are not tensors of a dtype of ours, whole numbers that f64 cannot hold, nodes in any order.
#include <cmath>

#include "onnx.pb.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/node_tests.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::onnx {
namespace {

enum : int { kF32 = 1, kU16 = 4, kI64 = 7, kString = 8, kU64 = 13 };

Graph parsed(const std::string& graph) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: 25 } graph { " + graph + " }", &model));
  const std::string bytes = model.SerializeAsString();
  const auto view = std::as_bytes(std::span(bytes));
  return Graph::open(OnnxFile::open(memory_blob("test.onnx", {view.begin(), view.end()})));
}

std::string declared(const std::string& kind, const std::string& name, int type) {
  return kind + " { name: '" + name + "' type { tensor_type { elem_type: " + std::to_string(type) + " } } } ";
}

Tensor whole(const std::vector<std::int64_t>& values, DType dtype = DType::i64) {
  return from_integers(values, {static_cast<std::int64_t>(values.size())}, dtype);
}

/// y of one node of x and, if there, z.
std::vector<std::int64_t> of_node(const std::string& op, int type, const std::vector<std::int64_t>& x,
                                  const std::vector<std::int64_t>& z, DType carrier = DType::i64) {
  const Graph graph =
      parsed("node { op_type: '" + op + "' input: ['x', 'z'] output: 'y' } " + declared("input", "x", type) +
             declared("input", "z", type) + declared("output", "y", type));
  return as_integers(graph.run({{"x", whole(x, carrier)}, {"z", whole(z, carrier)}})[0]);
}

constexpr std::int64_t kBig = (std::int64_t{1} << 60) + 1;  // which f64 rounds

TEST(WholeNumbers, AreExactBeyondTheMantissaOfF64) {
  EXPECT_EQ(of_node("Max", kI64, {kBig}, {kBig - 1}), (std::vector{kBig}));
  EXPECT_EQ(of_node("Min", kI64, {kBig}, {kBig + 1}), (std::vector{kBig}));
  EXPECT_EQ(of_node("Mod", kI64, {kBig}, {10}), (std::vector{kBig % 10}));
  EXPECT_EQ(of_node("Clip", kI64, {kBig}, {0}), (std::vector{kBig}));
  EXPECT_EQ(of_node("Pow", kI64, {3}, {39}), (std::vector<std::int64_t>{4052555153018976267}));
}

/// All outputs of one node of x and whole numbers that the graph holds, of operator set 25.
std::vector<Tensor> of_whole_node(const std::string& op, const Tensor& x,
                                  const std::vector<std::vector<std::int64_t>>& constants,
                                  const std::string& attributes = {}, int outputs = 1) {
  std::string inputs = "input: 'x' ", held, made;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const std::string name = "c" + std::to_string(i);
    inputs += "input: '" + name + "' ";
    held +=
        "initializer { name: '" + name + "' data_type: 7 dims: " + std::to_string(constants[i].size()) + " ";
    for (const std::int64_t v : constants[i]) held += "int64_data: " + std::to_string(v) + " ";
    held += "} ";
  }
  std::string declares = declared("input", "x", kI64);
  for (int i = 0; i < outputs; ++i) {
    made += "output: 'y" + std::to_string(i) + "' ";
    declares += "output { name: 'y" + std::to_string(i) + "' } ";
  }
  return parsed("node { op_type: '" + op + "' " + inputs + made + attributes + "} " + held + declares)
      .run({{"x", x}});
}

TEST(WholeNumbers, AreReducedExactly) {
  const Tensor x = whole({kBig, 2, -kBig, 1});
  const auto reduced = [&](const std::string& op, const Tensor& values) {
    return as_integers(of_whole_node(op, values, {})[0]);
  };
  EXPECT_EQ(reduced("ReduceSum", x), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(reduced("ReduceProd", whole({kBig, 3})), (std::vector{3 * kBig}));
  EXPECT_EQ(reduced("ReduceL1", x), (std::vector{2 * kBig + 3}));
  EXPECT_EQ(reduced("ReduceSumSquare", whole({2147483647, 1})),
            (std::vector<std::int64_t>{4611686014132420610}));
  EXPECT_EQ(reduced("ReduceMax", x), (std::vector{kBig}));
  EXPECT_EQ(reduced("ReduceMin", x), (std::vector{-kBig}));
  EXPECT_EQ(reduced("ReduceMean", whole({INT64_MAX, INT64_MAX, INT64_MAX - 3})),
            (std::vector{INT64_MAX - 1}));
  EXPECT_EQ(reduced("ReduceMean", whole({-3, -4, 1, 1})), (std::vector<std::int64_t>{-1}));
  const Tensor table = from_integers({kBig, kBig + 1, kBig + 2, 1}, {2, 2}, DType::i64);
  EXPECT_EQ(as_integers(of_whole_node("ReduceMax", table, {{0}},
                                      "attribute { name: 'keepdims' type: INT i: 0 } ")[0]),
            (std::vector{kBig + 2, kBig + 1}));
}

TEST(WholeNumbers, AreOrderedExactly) {
  const Tensor x = whole({kBig, kBig + 2, kBig + 1, kBig + 2});
  const std::string last = "attribute { name: 'select_last_index' type: INT i: 1 } ";
  EXPECT_EQ(as_integers(of_whole_node("ArgMax", x, {})[0]), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(as_integers(of_whole_node("ArgMax", x, {}, last)[0]), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(as_integers(of_whole_node("ArgMin", x, {})[0]), (std::vector<std::int64_t>{0}));
  const Tensor table = from_integers({kBig, kBig + 1, kBig + 2, 1, 5, 5}, {2, 3}, DType::i64);
  EXPECT_EQ(as_integers(of_whole_node("ArgMax", table, {})[0]), (std::vector<std::int64_t>{0, 0, 0}));
  const std::vector<Tensor> top = of_whole_node("TopK", x, {{3}}, "", 2);
  EXPECT_EQ(as_integers(top[0]), (std::vector{kBig + 2, kBig + 2, kBig + 1}));
  EXPECT_EQ(as_integers(top[1]), (std::vector<std::int64_t>{1, 3, 2}));
  EXPECT_EQ(of_node("Greater", kI64, {kBig + 1}, {kBig}), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(of_node("Equal", kI64, {kBig + 1}, {kBig}), (std::vector<std::int64_t>{0}));
}

TEST(WholeNumbers, AreMultipliedAndScatteredExactly) {
  const Tensor x = from_integers({kBig, 1, 2, 3}, {2, 2}, DType::i64);
  EXPECT_EQ(as_integers(of_whole_node("MatMul", x, {{1, 1}})[0]), (std::vector{kBig + 1, std::int64_t{5}}));
  EXPECT_EQ(as_integers(of_whole_node("Einsum", x, {{1, 1}},
                                      "attribute { name: 'equation' type: STRING s: 'ij,j->i' } ")[0]),
            (std::vector{kBig + 1, std::int64_t{5}}));
  EXPECT_EQ(as_integers(
                of_whole_node("Einsum", x, {}, "attribute { name: 'equation' type: STRING s: 'ij->j' } ")[0]),
            (std::vector{kBig + 2, std::int64_t{4}}));
  EXPECT_EQ(as_integers(of_whole_node("CumSum", whole({kBig, 1, 1}), {{0}})[0]),
            (std::vector{kBig, kBig + 1, kBig + 2}));
  const auto scattered = [](const std::string& reduction) {
    return as_integers(
        of_whole_node("ScatterElements", whole({kBig, 7}), {{0, 0}, {1, 2}},
                      "attribute { name: 'reduction' type: STRING s: '" + reduction + "' } ")[0]);
  };
  EXPECT_EQ(scattered("add"), (std::vector{kBig + 3, std::int64_t{7}}));
  EXPECT_EQ(scattered("mul"), (std::vector{2 * kBig, std::int64_t{7}}));
  EXPECT_EQ(scattered("max"), (std::vector{kBig, std::int64_t{7}}));
}

TEST(WholeNumbers, UnsignedOnesWrapAndAreOrderedAsTheirOwnTypeIs) {
  constexpr std::int64_t kLargest = -1;  // 2^64 - 1 in its carrier
  EXPECT_EQ(of_node("Max", kU64, {kLargest}, {5}), (std::vector{kLargest}));
  EXPECT_EQ(of_node("Div", kU64, {kLargest}, {2}), (std::vector{INT64_MAX}));
  EXPECT_EQ(of_node("Add", kU16, {65535}, {2}, DType::i32), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(of_node("Sub", kU16, {0}, {1}, DType::i32), (std::vector<std::int64_t>{65535}));
}

TEST(WholeNumbers, AnOperatorThatDoesNotKnowATypeSaysSo) {
  const std::string said = test::message_of<NotImplemented>([] { of_node("PRelu", kU64, {1}, {1}); });
  EXPECT_NE(said.find("PRelu (output 'y'): input 0 ('x') of element type UINT64"), std::string::npos) << said;
}

TEST(Graph, NodesMayStandBeforeThoseThatMakeWhatTheyRead) {
  const Graph graph = parsed(
      "node { op_type: 'Neg' input: 'a' output: 'y' } "
      "node { op_type: 'Abs' input: 'x' output: 'a' } " +
      declared("input", "x", kF32) + declared("output", "y", kF32));
  EXPECT_EQ(as_doubles(graph.run({{"x", Tensor::from(std::vector<float>{-2, 3}, {2})}})[0]),
            (std::vector<double>{-2, -3}));
}

TEST(Strings, AreJoinedSplitAndLabelled) {
  const Graph graph = parsed(
      "node { op_type: 'StringConcat' input: ['x', 'end'] output: 'y' } "
      "node { op_type: 'LabelEncoder' domain: 'ai.onnx.ml' input: 'y' output: 'n' "
      "attribute { name: 'keys_strings' type: STRINGS strings: ['a!', 'b!'] } "
      "attribute { name: 'values_int64s' type: INTS ints: [7, 9] } } "
      "initializer { name: 'end' data_type: 8 string_data: '!' } " +
      declared("input", "x", kString) + declared("output", "y", kString) + declared("output", "n", kI64));
  Texts texts = graph.texts();
  const Value x{whole({texts.number_of("b"), texts.number_of("c")}), ElementType::text};
  const Values made = graph.run_values({{"x", x}}, texts);
  EXPECT_EQ(made[0].type, ElementType::text);
  EXPECT_EQ(texts.text_of(as_integers(made[0].tensor)[1]), "c!");
  EXPECT_EQ(as_integers(made[1].tensor), (std::vector<std::int64_t>{9, -1}));
}

TEST(Strings, AreInTheirOwnOrderWhereOnlyDistinctOnesAreKept) {
  const Graph graph = parsed("node { op_type: 'Unique' input: 'x' output: 'y' output: 'first' } " +
                             declared("input", "x", kString) + declared("output", "y", kString) +
                             declared("output", "first", kI64));
  Texts texts = graph.texts();
  const std::int64_t c = texts.number_of("c"), a = texts.number_of("a"), b = texts.number_of("b");
  const Values made = graph.run_values({{"x", {whole({c, a, b, a}), ElementType::text}}}, texts);
  EXPECT_EQ(as_integers(made[0].tensor), (std::vector<std::int64_t>{a, b, c}));
  EXPECT_EQ(as_integers(made[1].tensor), (std::vector<std::int64_t>{1, 2, 0}));
}

// What computes would take the numbers that stand for them.
TEST(Strings, AreRefusedByOperatorsOfNumbers) {
  const auto run = [](const std::string& op, const std::string& inputs, const std::string& attributes = "") {
    parsed("node { op_type: '" + op + "' name: 'it' input: " + inputs + " output: 'y' " + attributes +
           "} initializer { name: 's' data_type: 8 dims: 1 dims: 1 string_data: 'a' } "
           "initializer { name: 'x' data_type: 1 dims: 1 dims: 1 float_data: 1 } output { name: 'y' }")
        .run({});
  };
  for (const char* op : {"Add", "Greater", "Max", "ArgMax", "NonZero", "TopK", "CumSum", "Mod"}) {
    const std::string said = test::message_of<NotImplemented>([&] { run(op, "['s', 's']"); });
    EXPECT_NE(said.find(std::string(op) + " 'it': input 0 ('s') of strings"), std::string::npos) << said;
  }
  for (const char* inputs : {"['s', 'x']", "['x', 's']", "['x', 'x', 's']"}) {
    EXPECT_THROW(run("QuantizeLinear", inputs), NotImplemented) << inputs;
    EXPECT_THROW(run("DequantizeLinear", inputs), NotImplemented) << inputs;
  }
  const auto to_strings = [](const std::string& name) {
    return "attribute { name: '" + name + "' type: INT i: 8 } ";
  };
  EXPECT_THROW(run("QuantizeLinear", "['x', 'x']", to_strings("output_dtype")), NotImplemented);
  EXPECT_THROW(run("DequantizeLinear", "['x', 'x']", to_strings("output_dtype")), NotImplemented);
  EXPECT_THROW(run("EyeLike", "'x'", to_strings("dtype")), NotImplemented);
  EXPECT_THROW(run("RandomUniformLike", "'x'", to_strings("dtype")), NotImplemented);
  EXPECT_THROW(run("BitCast", "'x'", to_strings("to")), Error);
}

TEST(Sequences, CarryTensorsOfDifferentShapes) {
  const Graph graph = parsed(
      "node { op_type: 'SequenceConstruct' input: ['x', 'x'] output: 's' } "
      "node { op_type: 'SequenceAt' input: ['s', 'i'] output: 'y' } "
      "node { op_type: 'SequenceLength' input: 's' output: 'n' } " +
      declared("input", "x", kF32) + declared("input", "i", kI64) + declared("output", "y", kF32) +
      declared("output", "n", kI64));
  const auto run = [&](std::int64_t i) {
    return graph.run({{"x", Tensor::from(std::vector<float>{4}, {1})},
                      {"i", Tensor::from(std::vector<std::int64_t>{i}, {})}});
  };
  EXPECT_EQ(as_doubles(run(-1)[0]), (std::vector<double>{4}));
  EXPECT_EQ(as_integers(run(0)[1]), (std::vector<std::int64_t>{2}));
  EXPECT_THROW(run(2), DimensionMismatch);
}

// Where ONNX Runtime reads the number that a string begins with, this is an error.
TEST(Cast, RefusesStringsThatAreNoNumbers) {
  const auto cast = [](const std::string& text, int to) {
    const Graph graph = parsed(
        "node { op_type: 'Cast' name: 'it' input: 's' output: 'y' attribute { name: 'to' type: INT i: " +
        std::to_string(to) + " } } initializer { name: 's' data_type: 8 string_data: '" + text +
        "' } output { name: 'y' }");
    return as_doubles(graph.run({})[0]).front();
  };
  EXPECT_EQ(cast(" 12 ", kI64), 12);
  EXPECT_EQ(cast("-1e-2", 11), -0.01);
  for (const char* text : {"", "abc", "12 apples", "--1", "+-1", "1.5", "1e3", "18446744073709551616"})
    EXPECT_THROW(cast(text, kI64), Error) << text;
  for (const char* text : {"", "1_0", "- 1", "1.5f", "1e999", "0x"})
    EXPECT_THROW(cast(text, 11), Error) << text;
}

TEST(Cast, WritesFloatsInTheFewestDigitsThatGiveThemBack) {
  const Graph graph =
      parsed("node { op_type: 'Cast' input: 'x' output: 'y' attribute { name: 'to' type: INT i: 8 } } " +
             declared("input", "x", kF32) + declared("output", "y", kString));
  const std::vector<float> numbers{0.1F, 1e-5F, -1.5F, 1e20F, 3, NAN, -INFINITY};
  Texts texts = graph.texts();
  const Value y = graph.run_values({{"x", Tensor::from(numbers, {7})}}, texts)[0];
  std::string all;
  for (const std::int64_t number : as_integers(y.tensor)) all += texts.text_of(number) + " ";
  EXPECT_EQ(all, "0.1 1e-05 -1.5 1e+20 3 NaN -INF ");
}

TEST(Windows, PaddingIsNotNegativeAndOutputPaddingIsLessThanAStride) {
  const auto error = [](const std::string& op, const std::string& attribute) {
    const Graph graph = parsed(
        "node { op_type: '" + op +
        "' name: 'it' input: ['x', 'w'] output: 'y' attribute { name: " + attribute +
        " type: INTS } } input { name: 'x' type { tensor_type { elem_type: 1 } } } initializer { name: 'w' "
        "data_type: 1 dims: 1 dims: 1 dims: 1 float_data: 1 } output { name: 'y' }");
    try {
      graph.run({{"x", Tensor::zeros({1, 1, 4})}});
    } catch (const FormatError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error("Conv", "'pads' ints: [-1, 0]").find("Conv 'it'"), std::string::npos);
  EXPECT_NE(error("ConvTranspose", "'pads' ints: [0, -1]").find("pads"), std::string::npos);
  EXPECT_NE(error("ConvTranspose", "'output_padding' ints: 1").find("output_padding"), std::string::npos);
  EXPECT_EQ(error("ConvTranspose", "'dilations' ints: 2"), "");
}

// The outputs are those of ONNX' reference evaluator and, for com.microsoft and where both differ, of ONNX
// Runtime:
// tools/goldens/onnx_operators.py.
TEST(Operators, AgreeWithTheReferenceEvaluator) {
  const std::vector<NodeTest> tests = run_node_tests(test::source_dir() + "/tests/onnx/goldens/operators");
  EXPECT_GE(tests.size(), 90);
  for (const NodeTest& test : tests) EXPECT_EQ(test.end, TestEnd::passed) << test.name << ": " << test.detail;
}

// Its weights are codes, its inputs are not rounded: the bits of an LSTM with the weights that the codes
// stand for.
TEST(Operators, DynamicQuantizeLstmIsAnLstmOfItsWeights) {
  const auto codes = [](const std::string& name, const std::string& dims, int count, int type, int start,
                        int step) {
    std::string text = "initializer { name: '" + name + "' data_type: " + std::to_string(type) + " " + dims;
    for (int i = 0; i < count; ++i) text += "int32_data: " + std::to_string((start + i * step) % 251) + " ";
    return text + "} ";
  };
  const auto scale = [](const std::string& name, int count) {
    std::string text =
        "initializer { name: '" + name + "' data_type: 1 dims: 1 dims: " + std::to_string(count) + " ";
    for (int i = 0; i < count; ++i) text += "float_data: " + std::to_string(0.005 + 0.001 * i) + " ";
    return text + "} ";
  };
  const std::string matrix = "dims: 1 dims: 2 dims: 8 ",
                    hidden = "attribute { name: 'hidden_size' type: INT i: 2 } ";
  const auto weight = [](const std::string& name) {  // [1, 8, 2]
    const std::string n = "'" + name;
    return "node { op_type: 'Cast' input: " + n + "' output: " + n +
           "_f' attribute { name: 'to' type: INT i: 1 } } node { op_type: 'Cast' input: " + n +
           "_z' output: " + n +
           "_zf' attribute { name: 'to' type: INT i: 1 } } node { op_type: 'Sub' input: [" + n + "_f', " + n +
           "_zf'] output: " + n + "_d' } node { op_type: 'Mul' input: [" + n + "_d', " + n +
           "_s'] output: " + n + "_w' } node { op_type: 'Transpose' input: " + n + "_w' output: " + n +
           "_t' attribute { name: 'perm' type: INTS ints: [0, 2, 1] } } ";
  };
  ::onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: 22 } opset_import { domain: 'com.microsoft' version: 1 } graph "
      "{ " +
          weight("w") + weight("r") + "node { op_type: 'LSTM' input: ['x', 'w_t', 'r_t'] output: 'plain' " +
          hidden +
          "} node { op_type: 'DynamicQuantizeLSTM' domain: 'com.microsoft' input: ['x', 'w', 'r', '', '', "
          "'', '', '', "
          "'w_s', 'w_z', 'r_s', 'r_z'] output: 'y' " +
          hidden + "} " + codes("w", matrix, 16, 2, 7, 37) + codes("r", matrix, 16, 2, 91, 53) +
          codes("w_z", "dims: 1 dims: 8 ", 8, 2, 120, 3) + codes("r_z", "dims: 1 dims: 8 ", 8, 2, 125, 2) +
          scale("w_s", 8) + scale("r_s", 8) + declared("input", "x", kF32) +
          "output { name: 'plain' } output { name: 'y' } }",
      &model));
  const std::string bytes = model.SerializeAsString();
  const auto view = std::as_bytes(std::span(bytes));
  const Graph graph = Graph::open(OnnxFile::open(memory_blob("test.onnx", {view.begin(), view.end()})));
  const Tensor x = Tensor::from(std::vector<float>{1, -2, 0.5F, 3, -1, 2}, {3, 1, 2});
  const std::vector<Tensor> outputs = graph.run({{"x", x}});
  EXPECT_EQ(outputs[1].shape(), (Shape{3, 1, 1, 2}));
  EXPECT_EQ(difference(outputs[1], outputs[0], 0, 1e-7), "");
  EXPECT_GT(std::abs(as_doubles(outputs[1])[0]), 0.01);
}

}  // namespace
}  // namespace ingot::onnx
