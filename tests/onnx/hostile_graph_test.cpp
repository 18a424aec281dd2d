#include <chrono>

#include "onnx.pb.h"
#include "tests/support/temporary_directory.h"
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/onnx_file.h"

// Graphs that nobody would export, made to wrap sizes, to reach beyond a tensor, or to run for ever.

namespace ingot::onnx {
namespace {

struct Hostile {
  std::string op;
  std::vector<std::int64_t> x;                       ///< shape of the first input, all ones
  std::vector<std::vector<std::int64_t>> constants;  ///< further inputs
  std::string attributes;
  int opset = 21;
};

std::string ints(const std::string& name, const std::vector<std::int64_t>& values) {
  std::string text = "attribute { name: '" + name + "' type: INTS ";
  for (const std::int64_t v : values) text += "ints: " + std::to_string(v) + " ";
  return text + "} ";
}
std::string integer(const std::string& name, std::int64_t value) {
  return "attribute { name: '" + name + "' type: INT i: " + std::to_string(value) + " } ";
}

void run(const std::string& graph, std::int64_t opset, std::int64_t max_iterations = Graph::kMaxIterations) {
  ::onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: " + std::to_string(opset) + " } graph { " + graph + " }",
      &model));
  const std::string bytes = model.SerializeAsString();
  const auto view = std::as_bytes(std::span(bytes));
  for (Tensor& result : Graph::open(OnnxFile::open(memory_blob("test.onnx", {view.begin(), view.end()})))
                            .run({}, max_iterations))
    result = contiguous(result);
}

std::string floats(const std::string& name, const std::vector<std::int64_t>& shape) {
  std::string text = "initializer { name: '" + name + "' data_type: 1 ";
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    text += "dims: " + std::to_string(size) + " ";
    count *= size;
  }
  for (std::int64_t i = 0; i < count; ++i) text += "float_data: 1 ";
  return text + "} ";
}

std::string whole_numbers(const std::string& name, const std::vector<std::int64_t>& values) {
  std::string text =
      "initializer { name: '" + name + "' data_type: 7 dims: " + std::to_string(values.size()) + " ";
  for (const std::int64_t v : values) text += "int64_data: " + std::to_string(v) + " ";
  return text + "} ";
}

// The result is read by another node: a size that wrapped would let that write anywhere.
std::string graph_of(const Hostile& h) {
  std::string inputs = "input: 'x' ", held = floats("x", h.x);
  for (std::size_t i = 0; i < h.constants.size(); ++i) {
    inputs += "input: 'c" + std::to_string(i) + "' ";
    held += whole_numbers("c" + std::to_string(i), h.constants[i]);
  }
  return "node { op_type: '" + h.op + "' name: 'it' " + inputs + "output: 'y' " + h.attributes +
         "} node { op_type: 'Abs' input: 'y' output: 'z' } " + held + "output { name: 'z' }";
}

constexpr std::int64_t kHuge = std::int64_t{1} << 62, kLeast = INT64_MIN, kMost = INT64_MAX,
                       kAxis = std::int64_t{1} << 32;  // 0 where it is cut to 32 bits

class HostileNode : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileNode, IsRefusedByNameAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    run(graph_of(GetParam()), GetParam().opset);
    ADD_FAILURE() << "it ran";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().op), std::string::npos) << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

const std::vector<std::int64_t> kImage{1, 4, 8, 8};

INSTANTIATE_TEST_SUITE_P(
    All, HostileNode,
    ::testing::Values(
        Hostile{"Reshape", {4}, {{1, kHuge, 4}}, ""}, Hostile{"Reshape", {4}, {{-1, kHuge, 4}}, ""},
        Hostile{"Expand", {1}, {{kLeast, kLeast}}, ""}, Hostile{"Expand", {1}, {{kHuge, kHuge}}, ""},
        Hostile{"Expand", {1}, {{kAxis, kAxis}}, ""}, Hostile{"Tile", {4}, {{kHuge}}, ""},
        Hostile{"Tile", {2, 2}, {{kAxis, kAxis}}, ""}, Hostile{"Tile", {4}, {{-1}}, ""},
        Hostile{"Pad", {4}, {{kHuge, kHuge}}, ""}, Hostile{"Pad", {4}, {{kMost, 1}}, ""},
        Hostile{"Pad", {4}, {{kLeast, 0}}, ""}, Hostile{"Pad", {4}, {{-3, -3}}, ""},
        Hostile{"Transpose", {2, 2}, {}, ints("perm", {kAxis, 1})},
        Hostile{"ReduceSum", {2, 2}, {{kAxis}}, ""}, Hostile{"ReduceSum", {2, 2}, {{kMost}}, ""},
        Hostile{"ReduceMax", {2, 2}, {}, ints("axes", {kAxis}), 13},
        Hostile{"Squeeze", {1, 2}, {{kAxis}}, ""}, Hostile{"Unsqueeze", {2}, {{kAxis}}, ""},
        Hostile{"Unsqueeze", {2}, {{0, 1, 2, 3, 4, 5, 6, 7}}, ""},
        Hostile{"Flatten", {2}, {}, integer("axis", kAxis)},
        Hostile{"Concat", {2}, {}, integer("axis", kAxis)}, Hostile{"CumSum", {2}, {{kAxis}}, ""},
        Hostile{"CumSum", {2}, {{}}, ""}, Hostile{"Slice", {4}, {{0}, {4}, {kAxis}}, ""},
        Hostile{"Slice", {4}, {{0}, {4}, {0}, {0}}, ""},
        Hostile{"Split", {4}, {}, integer("num_outputs", kHuge)}, Hostile{"Conv", kImage, {}, ""},
        Hostile{"MaxPool", kImage, {}, ints("kernel_shape", {kHuge, kHuge})},
        Hostile{"MaxPool", kImage, {}, ints("kernel_shape", {2, 2}) + ints("dilations", {kHuge, kHuge})},
        Hostile{"MaxPool", kImage, {}, ints("kernel_shape", {2, 2}) + ints("strides", {0, 1})},
        Hostile{"MaxPool", kImage, {}, ints("kernel_shape", {2, 2}) + ints("pads", {kMost, 0, kMost, 0})},
        Hostile{"AveragePool", kImage, {}, ""}, Hostile{"MaxPool", {}, {}, ints("kernel_shape", {})},
        Hostile{"DepthToSpace", kImage, {}, integer("blocksize", kAxis)},
        Hostile{"DepthToSpace", {4}, {}, integer("blocksize", 2)},
        Hostile{"SpaceToDepth", {4}, {}, integer("blocksize", 2)}, Hostile{"EyeLike", {}, {}, ""},
        Hostile{"EyeLike", {2}, {}, ""}, Hostile{"Trilu", {}, {}, ""}, Hostile{"Trilu", {3}, {}, ""},
        Hostile{"Trilu", {3, 3}, {{}}, ""}, Hostile{"LRN", {3}, {}, integer("size", 1)},
        Hostile{"LRN", kImage, {}, integer("size", 0)}, Hostile{"LRN", kImage, {}, integer("size", kLeast)},
        Hostile{"GlobalAveragePool", {3}, {}, ""}, Hostile{"Cast", {3}, {}, integer("to", kAxis + 1)},
        Hostile{"Resize", {2}, {{}, {}, {kHuge}}, ""}, Hostile{"TopK", {3}, {{}}, ""},
        Hostile{"TopK", {3}, {{kHuge}}, ""}, Hostile{"GatherND", {3}, {{}}, integer("batch_dims", kHuge)},
        Hostile{"Einsum", {2}, {}, "attribute { name: 'equation' type: STRING s: '......->' } "},
        Hostile{"DFT", {2, 2}, {{kHuge}}, ""}, Hostile{"Dropout", {2}, {{}}, ""},
        Hostile{"SoftmaxCrossEntropyLoss", {2}, {{0, 1}}, ""}, Hostile{"Gemm", {2}, {{1, 2}}, ""}),
    [](const auto& info) { return std::to_string(info.index) + info.param.op; });

TEST(HostileGraph, ConvolutionsFitTheirWeights) {
  const auto conv = [](const std::string& attributes) {
    run("node { op_type: 'Conv' name: 'it' input: ['x', 'w'] output: 'y' " + attributes + "} " +
            floats("x", {1, 4, 8, 8}) + floats("w", {4, 4, 3, 3}) + "output { name: 'y' }",
        21);
  };
  EXPECT_NO_THROW(conv(ints("kernel_shape", {3, 3})));
  EXPECT_THROW(conv(ints("kernel_shape", {2, 2})), ShapeMismatch);
  EXPECT_THROW(conv(ints("dilations", {kHuge, kHuge})), Error);
  EXPECT_THROW(conv(ints("pads", {kMost, kMost, kMost, kMost})), Error);
  EXPECT_THROW(conv(ints("strides", {-1, 1})), Error);
  EXPECT_THROW(conv(integer("group", 0)), Error);
}

TEST(HostileGraph, OperatorSetsAreNotCutTo32Bits) {
  EXPECT_THROW(run(floats("x", {1}) + "output { name: 'x' }", (std::int64_t{1} << 32) + 17), NotImplemented);
}

TEST(HostileGraph, LoopsWithoutEndStop) {
  const std::string body =
      "node { op_type: 'Identity' input: 'c' output: 'c2' } node { op_type: 'Add' input: ['v', 'v'] output: "
      "'v2' } "
      "name: 'b' input { name: 'i' } input { name: 'c' } input { name: 'v' } output { name: 'c2' } output { "
      "name: 'v2' }";
  const std::string graph =
      "node { op_type: 'Loop' name: 'it' input: ['', 't', 'x'] output: 'y' attribute { name: 'body' type: "
      "GRAPH "
      "g { " +
      body + " } } } initializer { name: 't' data_type: 9 int32_data: 1 } " + floats("x", {1}) +
      "output { name: 'y' }";
  const std::string message = ingot::test::message_of<Error>([&] { run(graph, 21, 1000); });
  EXPECT_NE(message.find("Loop 'it': the graph's loops take more iterations"), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot::onnx
