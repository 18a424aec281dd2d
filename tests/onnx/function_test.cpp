// Functions that a model brings along, and nodes that call them.
#include "onnx.pb.h"
#include "tests/support/temporary_directory.h"
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/host.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::onnx {
namespace {

using test::message_of;

::onnx::ModelProto model_of(const std::string& functions, const std::string& nodes) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 9 opset_import { version: 18 } opset_import { domain: 'my' version: 1 } " + functions +
          " graph { " + nodes +
          " input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: 3 } } } } } output "
          "{ "
          "name: 'y' } }",
      &model));
  return model;
}

Graph opened(const ::onnx::ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  const auto view = std::as_bytes(std::span(bytes));
  return Graph::open(OnnxFile::open(memory_blob("test.onnx", {view.begin(), view.end()})));
}

std::vector<double> result_of(const ::onnx::ModelProto& model) {
  return as_doubles(opened(model).run({{"x", Tensor::from(std::vector<float>{-2, 0, 3}, {3})}})[0]);
}

/// A function: LeakyRelu with the slope alpha.
std::string leaky(const std::string& name = "Leaky") {
  return "functions { domain: 'my' name: '" + name +
         "' input: 'a' output: 'r' attribute: 'alpha' opset_import { version: 16 } node { op_type: "
         "'LeakyRelu' input: 'a' output: 'r' attribute { name: 'alpha' type: FLOAT ref_attr_name: 'alpha' } "
         "} "
         "} ";
}
std::string call(const std::string& name, const std::string& input, const std::string& output,
                 const std::string& attributes = {}) {
  return "node { op_type: '" + name + "' domain: 'my' name: 'of_" + output + "' input: '" + input +
         "' output: '" + output + "' " + attributes + "} ";
}
std::string alpha(float value) {
  return "attribute { name: 'alpha' type: FLOAT f: " + std::to_string(value) + " } ";
}

TEST(LocalFunction, RunsWithTheAttributesOfItsCall) {
  EXPECT_EQ(result_of(model_of(leaky(), call("Leaky", "x", "y", alpha(0.5F)))),
            (std::vector<double>{-1, 0, 3}));
  // One that is left out is the operator's own default.
  EXPECT_EQ(result_of(model_of(leaky(), call("Leaky", "x", "y"))),
            (std::vector<double>{-2 * static_cast<double>(0.01F), 0, 3}));
}

TEST(LocalFunction, PassesItsAttributesOnToFunctionsThatItCalls) {
  const std::string outer =
      "functions { domain: 'my' name: 'Outer' input: 'a' output: 'r' attribute: 'slope' opset_import { "
      "version: 16 } opset_import { domain: 'my' version: 1 } node { op_type: 'Leaky' domain: 'my' input: "
      "'a' output: 'r' attribute { name: 'alpha' type: FLOAT ref_attr_name: 'slope' } } } ";
  EXPECT_EQ(result_of(model_of(leaky() + outer,
                               call("Outer", "x", "y", "attribute { name: 'slope' type: FLOAT f: 0.25 } "))),
            (std::vector<double>{-0.5, 0, 3}));
}

TEST(LocalFunction, TakesDefaultsAndOverloadsThatAreYoungerThanTheDescription) {
  ::onnx::ModelProto model = model_of(leaky() + leaky(), call("Leaky", "x", "h") + call("Leaky", "h", "y"));
  ::onnx::AttributeProto half, quarter;
  half.set_name("alpha"), half.set_type(::onnx::AttributeProto::FLOAT), half.set_f(0.5F);
  quarter = half;
  quarter.set_f(0.25F);
  for (int i = 0; i < 2; ++i) {
    ::onnx::FunctionProto& function = *model.mutable_functions(i);
    function.clear_attribute();
    function.mutable_unknown_fields()->AddLengthDelimited(11, (i == 0 ? half : quarter).SerializeAsString());
    if (i == 0) continue;
    function.mutable_unknown_fields()->AddLengthDelimited(13, "steeper");
    model.mutable_graph()->mutable_node(1)->mutable_unknown_fields()->AddLengthDelimited(8, "steeper");
  }
  EXPECT_EQ(result_of(model), (std::vector<double>{-0.25, 0, 3}));
}

TEST(LocalFunction, LeavesOutInputsAndKeepsItsOwnOperatorSetAndNames) {
  // ReduceSum of operator set 11 has its axes as an attribute; 'x' inside is not the graph's.
  const std::string sum =
      "functions { domain: 'my' name: 'Sum' input: ['x', 'low'] output: 'r' opset_import { version: 11 } "
      "node { "
      "op_type: 'ReduceSum' input: 'x' output: 'h' attribute { name: 'axes' type: INTS ints: 0 } } node { "
      "op_type: 'Clip' input: ['h', 'low'] output: 'r' } } ";
  EXPECT_EQ(result_of(model_of(sum, call("Sum", "x", "y"))), std::vector<double>{1});
}

TEST(LocalFunction, NamesWhatIsLackingInsideOfIt) {
  const std::string odd =
      "functions { domain: 'my' name: 'Odd' input: 'a' output: 'r' opset_import { version: 16 } node { "
      "op_type: 'Whirl' input: 'a' output: 'r' } } ";
  EXPECT_EQ(opened(model_of(odd, call("Odd", "x", "y"))).unsupported(), std::set<std::string>{"Whirl"});
}

TEST(LocalFunction, RefusesToCallItselfOrToGrowWithoutEnd) {
  const auto function = [](const std::string& name, const std::string& nodes) {
    return "functions { domain: 'my' name: '" + name +
           "' input: 'a' output: 'r' opset_import { version: 16 } " + nodes + "} ";
  };
  const std::string itself = message_of<FormatError>(
      [&] { opened(model_of(function("F", call("F", "a", "r")), call("F", "x", "y"))); });
  EXPECT_NE(itself.find("does it call itself"), std::string::npos) << itself;
  std::string doubling = function("F0", "node { op_type: 'Neg' input: 'a' output: 'r' } ");
  for (int i = 1; i < 40; ++i) {
    const std::string inner = "F" + std::to_string(i - 1);
    doubling += function("F" + std::to_string(i), call(inner, "a", "h") + call(inner, "h", "r"));
  }
  const std::string grows =
      message_of<FormatError>([&] { opened(model_of(doubling, call("F39", "x", "y"))); });
  EXPECT_NE(grows.find("counted once for each call"), std::string::npos) << grows;
  EXPECT_THROW(
      opened(model_of(leaky(), "node { op_type: 'Leaky' domain: 'my' input: ['x', 'x'] output: 'y' } ")),
      FormatError);
  EXPECT_THROW(opened(model_of(leaky() + leaky(), call("Leaky", "x", "y"))), FormatError);
  EXPECT_THROW(opened(model_of("",
                               "node { op_type: 'LeakyRelu' input: 'x' output: 'y' attribute { name: "
                               "'alpha' ref_attr_name: 'alpha' } } ")),
               FormatError);
}

}  // namespace
}  // namespace ingot::onnx
