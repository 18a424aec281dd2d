#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/kernels/launch_profile.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/node_tests.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/onnx_file.h"

// Graphs on a CUDA device, emulated or not: floats are there, whole numbers on the host.
namespace ingot::onnx {
namespace {

using test::kDevice;

std::vector<Tensor> read_all(const std::string& directory, const char* kind, std::size_t count) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i)
    tensors.push_back(OnnxFile::read_tensor(fmt::format("{}/{}_{}.pb", directory, kind, i)));
  return tensors;
}

bool is_of_the_device(const std::string& implementation) {
  const std::set<std::string> names{"cublaslt",  "cuda",         "cudnn", "gemv",
                                    "generated", "tensor_cores", "tiled"};
  return names.contains(implementation);
}

// Whether kernels that work on floats alone all ran on the device. Others may run on the CPU, too: on shapes.
void expect_on_device(const kernels::LaunchProfile& profile) {
  const std::set<std::string> of_floats{"gemm", "conv", "pool", "softmax", "layer_norm", "unary", "reduce"};
  std::int64_t launches = 0;
  for (const auto& entry : profile.entries()) {
    if (!of_floats.contains(entry.kernel)) continue;
    launches += entry.launches;
    EXPECT_TRUE(is_of_the_device(entry.implementation)) << entry.kernel << " " << entry.implementation;
  }
  EXPECT_GT(launches, 0);
}

class DeviceGraph : public ::testing::TestWithParam<const char*> {};

TEST_P(DeviceGraph, GivesPyTorchsOutputsFromTheDevice) {
  const std::string directory = test::source_dir() + "/tests/onnx/goldens/" + GetParam();
  if (!std::filesystem::exists(directory)) GTEST_SKIP() << directory << " is absent, as in a bundle";
  const Graph graph = Graph::open(directory + "/model.onnx", kDevice);
  const std::string data = directory + "/test_data_set_0";
  const std::vector<Tensor> given = read_all(data, "input", graph.inputs().size()),
                            expected = read_all(data, "output", graph.outputs().size());
  std::map<std::string, Tensor> inputs;
  for (std::size_t i = 0; i < given.size(); ++i) inputs[graph.inputs()[i].name] = given[i];
  const kernels::LaunchProfile profile;
  const std::vector<Tensor> outputs = graph.run(inputs);
  expect_on_device(profile);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].device(), kCpu);
    EXPECT_EQ(difference(outputs[i], expected[i], 1e-5, 1e-5), "") << graph.outputs()[i].name;
  }
}
INSTANTIATE_TEST_SUITE_P(All, DeviceGraph,
                         ::testing::Values("mlp_torchscript", "mlp_dynamo", "mlp_external",
                                           "resnet_torchscript", "resnet_dynamo", "bert_torchscript",
                                           "bert_dynamo", "gpt2_dynamo", "recurrent_torchscript",
                                           "control_torchscript"),
                         [](const auto& info) { return std::string(info.param); });

// ONNX' own tests, as Debian has them: an operator that works on the device has to be right there.
TEST(DeviceNodeTests, PassWhereTheyPassOnTheCpu) {
  const std::string data = "/usr/share/libonnx-testdata/data/node";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "the Debian package libonnx-testdata is not installed";
  int passed = 0;
  for (const NodeTest& test : run_node_tests(data, kDevice)) {
    // ONNX 1.12 computed its expected values with an epsilon that its model does not have.
    if (test.name != "test_adam_multiple")
      EXPECT_NE(test.end, TestEnd::wrong) << test.name << ": " << test.detail;
    passed += test.end == TestEnd::passed ? 1 : 0;
  }
  EXPECT_GE(passed, 830);
}

// Operators whose floats need not leave the device: their kernels run there, and none of them on the CPU.
TEST(DeviceNodeTests, FloatsStayOnTheDevice) {
  const std::string data = "/usr/share/libonnx-testdata/data/node/";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "the Debian package libonnx-testdata is not installed";
  const std::map<std::string, std::string> kernel_of{{"maxpool_2d_same_upper", "pool"},
                                                     {"averagepool_2d_pads", "pool"},
                                                     {"averagepool_3d_default", "pool"},
                                                     {"resize_upsample_scales_nearest", "copy"},
                                                     {"resize_downsample_scales_nearest", "gather"},
                                                     {"resize_upsample_scales_linear", "resample"},
                                                     {"resize_upsample_scales_cubic", "resample"},
                                                     {"constant_pad", "copy"},
                                                     {"convtranspose", "conv_backward_data"},
                                                     {"tile", "copy"},
                                                     {"top_k", "topk"},
                                                     {"argmax_default_axis_example", "argmax"},
                                                     {"floor", "unary"},
                                                     {"ceil", "unary"},
                                                     {"round", "unary"},
                                                     {"sign", "unary"},
                                                     {"depthtospace_example", "copy"},
                                                     {"quantizelinear", "affine_quantize"},
                                                     {"dequantizelinear", "affine_dequantize"},
                                                     {"scatternd", "copy"},
                                                     {"gather_elements_0", "gather"}};
  for (const auto& [test, kernel] : kernel_of) {
    const std::string directory = data + "test_" + test;
    const Graph graph = Graph::open(directory + "/model.onnx", kDevice);
    const std::vector<Tensor> given =
        read_all(directory + "/test_data_set_0", "input", graph.inputs().size());
    std::map<std::string, Tensor> inputs;
    for (std::size_t i = 0; i < given.size(); ++i) inputs[graph.inputs()[i].name] = given[i];
    const kernels::LaunchProfile profile;
    graph.run(inputs);
    std::int64_t there = 0;
    for (const auto& entry : profile.entries()) {
      if (entry.kernel != kernel) continue;
      const bool on_device = is_of_the_device(entry.implementation);
      EXPECT_TRUE(on_device || kernel == "copy")
          << test << " " << entry.implementation;  // sizes are copied here
      there += on_device ? entry.launches : 0;
    }
    EXPECT_GT(there, 0) << test << ": " << kernel << " did not run on the device";
  }
}

// What Pad, Tile and Resize are made of.
TEST(DeviceRearrangements, EqualThoseOfTheCpu) {
  const Tensor x = testing::randn({2, 3, 5, 7}, 1);
  const Padding padding{{0, -1, 2, 3}, {1, 0, 2, -1}};
  const auto mirrored = [](std::int64_t place, std::int64_t size) {
    return place < 0 ? -place - 1 : 2 * size - place - 1;
  };
  const auto expect_equal = [&](const char* name, const auto& f) {
    const Tensor there = f(to(x, kDevice));
    EXPECT_EQ(there.device(), kDevice) << name;
    EXPECT_EQ(difference(to(there, kCpu), f(x), 0, 0), "") << name;
  };
  expect_equal("pad_with", [&](const Tensor& t) { return pad_with(t, padding, Tensor::scalar(3)); });
  expect_equal("pad_from", [&](const Tensor& t) { return pad_from(t, padding, mirrored); });
  expect_equal("pick", [&](const Tensor& t) { return pick(t, 3, {6, 0, 0, 3}); });
  expect_equal("tile", [&](const Tensor& t) { return tile(t, {1, 2, 1, 3}); });
  expect_equal("repeat_each", [&](const Tensor& t) { return repeat_each(t, {2, 1, 2, 2}); });
}

}  // namespace
}  // namespace ingot::onnx
