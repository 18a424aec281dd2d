#include <cmath>
#include <filesystem>

#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/files.h"
#include "ingot/models/policy/dual_pool_net.h"
#include "ingot/nn/init.h"
#include "ingot/onnx/graph.h"

namespace ingot::testing {
namespace {

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  const Tensor x = Tensor::empty(shape);
  fill_(x, init::Normal{}, RngKey{seed, 0});
  return x;
}

// Biases and norms too, which begin as zeros and ones.
std::unique_ptr<DualPoolNet> save_random_network(const std::string& directory, bool final_norm) {
  InitSource source(4);
  auto net = std::make_unique<DualPoolNet>(source, DualPoolNetConfig{.input_channels = 96,
                                                                     .channels = 16,
                                                                     .blocks = 2,
                                                                     .norm_groups = 4,
                                                                     .se_reduction = 4,
                                                                     .final_norm = final_norm});
  const NoGrad no_grad;
  std::uint64_t seed = 10;
  for (const auto& [name, parameter] : named_parameters(*net))
    if (parameter->value.rank() == 1) fill_(parameter->value, init::Normal{}, RngKey{++seed, 0});
  save_dual_pool_net(directory, *net);
  return net;
}

void expect_close(const Tensor& found, const Tensor& expected, const char* name) {
  ASSERT_EQ(found.shape(), expected.shape()) << name;
  const std::vector<float> a = found.to_vector<float>(), b = expected.to_vector<float>();
  float largest = 0;
  for (const float value : b) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5F * std::max(1.0F, largest)) << name;
}

TEST(OnnxExport, AMahjongNetworksGraphComputesWhatTheNetworkDoes) {
  const test::TemporaryDirectory directory;
  for (const bool final_norm : {true, false}) {
    const auto net = save_random_network(directory.at("net"), final_norm);
    const std::string file = directory.at("player.onnx");
    const Outcome outcome = run_ingot({"convert", directory.at("net"), file});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    const onnx::Graph graph = onnx::Graph::open(file);
    EXPECT_EQ(graph.opset(), 18);
    ASSERT_EQ(graph.inputs().size(), 2U);
    EXPECT_EQ(graph.inputs()[0].shape, (std::vector<std::int64_t>{-1, 96, 34}));
    const Tensor seen = random_tensor({5, 96, 34}, 1), context = random_tensor({5, 16}, 2);
    const std::vector<Tensor> found = graph.run({{"observation", seen}, {"rank_context", context}});
    const NoGrad no_grad;
    const DualPoolOutput expected = (*net)(seen, context);
    ASSERT_EQ(found.size(), 5U);
    expect_close(found[0], expected.policy, "policy");
    expect_close(found[1], expected.value, "value");
    expect_close(found[2], expected.rank, "rank");
    expect_close(found[3], expected.tenpai, "tenpai");
    expect_close(found[4], expected.danger, "danger");
  }
}

TEST(OnnxExport, OtherModelsAndNumberFormatsAreRefused) {
  const test::TemporaryDirectory directory;
  save_random_network(directory.at("net"), true);
  const Outcome half = run_ingot({"convert", directory.at("net"), directory.at("x.onnx"), "--dtype", "bf16"});
  EXPECT_EQ(half.exit_code, 2);
  EXPECT_NE(half.errors.find("ONNX graphs are written in f32"), std::string::npos) << half.errors;
  std::filesystem::create_directory(directory.at("other"));
  write_file_atomically(directory.at("other/config.json"), R"({"model_type": "llama"})");
  const Outcome other = run_ingot({"convert", directory.at("other"), directory.at("x.onnx")});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.errors.find("mahjong's networks alone"), std::string::npos) << other.errors;
  std::filesystem::remove(directory.at("net/model.safetensors"));
  const Outcome damaged = run_ingot({"convert", directory.at("net"), directory.at("x.onnx")});
  EXPECT_NE(damaged.exit_code, 0);
  EXPECT_NE(damaged.errors.find("model.safetensors"), std::string::npos) << damaged.errors;
  EXPECT_EQ(damaged.errors.find("alone"), std::string::npos) << damaged.errors;
  EXPECT_FALSE(std::filesystem::exists(directory.at("x.onnx")));
}

}  // namespace
}  // namespace ingot::testing
