#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "tests/kernels/cuda/device.h"
#include "tests/support/source_dir.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/kernels/launch_profile.h"
#include "ingot/onnx/graph.h"
#include "ingot/onnx/node_tests.h"
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

// Whether kernels that work on floats alone all ran on the device. Others may run on the CPU, too: on shapes.
void expect_on_device(const kernels::LaunchProfile& profile) {
  const std::set<std::string> of_floats{"gemm", "conv", "pool", "softmax", "layer_norm", "unary", "reduce"},
      of_the_device{"cublaslt", "cuda", "cudnn", "generated", "tensor_cores", "tiled"};
  std::int64_t launches = 0;
  for (const auto& entry : profile.entries()) {
    if (!of_floats.contains(entry.kernel)) continue;
    launches += entry.launches;
    EXPECT_TRUE(of_the_device.contains(entry.implementation)) << entry.kernel << " " << entry.implementation;
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
    EXPECT_NE(test.end, TestEnd::wrong) << test.name << ": " << test.detail;
    passed += test.end == TestEnd::passed ? 1 : 0;
  }
  EXPECT_GE(passed, 819);
}

}  // namespace
}  // namespace ingot::onnx
