#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot::onnx {

enum class TestEnd : std::uint8_t {
  passed,
  unsupported,  ///< needs an operator, an attribute or an element type that Ingot lacks; says which
  wrong         ///< another result, or an error
};

struct NodeTest {
  std::string name;
  int opset = 0;
  TestEnd end = TestEnd::wrong;
  std::string detail;               ///< empty for one that passed
  std::set<std::string> operators;  ///< that Ingot lacks
};

/// Runs one of ONNX' backend tests: a directory with model.onnx and test_data_set_0/{input,output}_*.pb.
/// Results may differ as far as ONNX' own runner allows: 1e-3 relative and 1e-7 absolute, or two units in the
/// last place of fp16 and bf16, or one unit of the largest element. Random numbers are of the right shape and
/// type.
NodeTest run_node_test(const std::string& directory, Device device = kCpu);

/// All tests below a directory, by name.
std::vector<NodeTest> run_node_tests(const std::string& directory, Device device = kCpu);

/// "" where `actual` is `expected` within the tolerances, else what differs.
std::string difference(const Tensor& actual, const Tensor& expected, double relative = 1e-3,
                       double absolute = 1e-7);

}  // namespace ingot::onnx
