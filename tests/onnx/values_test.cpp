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

TEST(WholeNumbers, UnsignedOnesWrapAndAreOrderedAsTheirOwnTypeIs) {
  constexpr std::int64_t kLargest = -1;  // 2^64 - 1 in its carrier
  EXPECT_EQ(of_node("Max", kU64, {kLargest}, {5}), (std::vector{kLargest}));
  EXPECT_EQ(of_node("Div", kU64, {kLargest}, {2}), (std::vector{INT64_MAX}));
  EXPECT_EQ(of_node("Add", kU16, {65535}, {2}, DType::i32), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(of_node("Sub", kU16, {0}, {1}, DType::i32), (std::vector<std::int64_t>{65535}));
}

TEST(WholeNumbers, AnOperatorThatDoesNotKnowATypeSaysSo) {
  const std::string said = test::message_of<NotImplemented>([] { of_node("MatMul", kU64, {1}, {1}); });
  EXPECT_NE(said.find("MatMul: element type UINT64"), std::string::npos) << said;
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

// The outputs are those of ONNX' reference evaluator and, for com.microsoft, of ONNX Runtime:
// tools/goldens/onnx_operators.py.
TEST(Operators, AgreeWithTheReferenceEvaluator) {
  const std::vector<NodeTest> tests = run_node_tests(test::source_dir() + "/tests/onnx/goldens/operators");
  EXPECT_GE(tests.size(), 55);
  for (const NodeTest& test : tests) EXPECT_EQ(test.end, TestEnd::passed) << test.name << ": " << test.detail;
}

}  // namespace
}  // namespace ingot::onnx
