#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/kernel_executor.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"

// A second GPU beside the first: skipped where there is none, but for the emulator, which has two.
namespace ingot {
namespace {

using test::message_of;
using testing::max_error;
using testing::randn;

constexpr Device kFirst = test::kDevice, kSecond{DeviceType::cuda, 1};

class CudaTwoDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (BackendRegistry::instance().find(kSecond) == nullptr) GTEST_SKIP() << "there is no second device";
  }
};

struct Outcome {
  Tensor loss, gradient;
};

// Matmuls, norms, fused chains and sums, forward and backward.
Outcome train(Device device) {
  const Tensor x = to(randn({33, 64}, 1), device), scale = to(randn({64}, 2), device);
  Tensor w = to(randn({64, 64}, 3), device);
  w.set_requires_grad(true);
  const Tensor loss = mean(square(gelu_tanh(rms_norm(matmul(x, w), scale, 1e-5F)) + x));
  backward(loss);
  return {to(loss, kCpu), to(w.grad(), kCpu)};
}

TEST_F(CudaTwoDevices, EachComputesOnItsOwnMemory) {
  const Outcome expected = train(kFirst);
  for (const Device device : {kSecond, kFirst, kSecond}) {
    const Outcome found = train(device);
    EXPECT_EQ(max_error(found.loss, expected.loss), 0.0) << to_string(device);
    EXPECT_EQ(max_error(found.gradient, expected.gradient), 0.0) << to_string(device);
  }
}

TEST_F(CudaTwoDevices, CountTheirOwnMemory) {
  const std::size_t first = backend(kFirst).memory().allocated(),
                    second = backend(kSecond).memory().allocated();
  const Tensor x = Tensor::zeros({1000}, DType::f32, kSecond);
  EXPECT_EQ(backend(kFirst).memory().allocated(), first);
  EXPECT_GE(backend(kSecond).memory().allocated(), second + 4000);
}

TEST_F(CudaTwoDevices, TensorsAndTheirGradientsCross) {
  Tensor x = to(randn({50, 20}, 4), kFirst);
  x.set_requires_grad(true);
  const Tensor y = to(square(x), kSecond);
  EXPECT_EQ(y.device(), kSecond);
  backward(sum(y * y));
  EXPECT_EQ(x.grad().device(), kFirst);
  const NoGrad no_grad;
  EXPECT_LE(max_error(to(x.grad(), kCpu), to(4 * x * x * x, kCpu)), 1e-5);
}

TEST_F(CudaTwoDevices, OperandsOfBothAreRefused) {
  const Tensor a = to(randn({4}, 1), kFirst), b = to(randn({4}, 2), kSecond);
  const std::string message = message_of<DeviceMismatch>([&] { return a + b; });
  EXPECT_NE(message.find("cuda:0"), std::string::npos) << message;
  EXPECT_NE(message.find("cuda:1"), std::string::npos) << message;
}

TEST_F(CudaTwoDevices, StreamsOfTheOtherAreRefused) {
  const Tensor x = to(randn({4}, 1), kSecond);
  const Stream foreign = backend(kFirst).create_stream();
  {
    const StreamGuard guard({kSecond, foreign.native});
    EXPECT_NE(message_of<KernelError>([&] { return x + x; }), "");
  }
  backend(kFirst).destroy_stream(foreign);
}

TEST_F(CudaTwoDevices, WorkIsRecordedOnEither) {
  const NoGrad no_grad;
  const Tensor x = to(randn({6, 40}, 1), kSecond), w = to(randn({40, 40}, 2), kSecond);
  Tensor y;
  const auto work = backend(kSecond).capture([&] { y = gelu_tanh(matmul(x, w)) + x; });
  const Tensor other = to(randn({8}, 3), kFirst);  // the calling thread turns to the first
  EXPECT_EQ(max_error(to(other + other, kCpu), to(2 * other, kCpu)), 0.0);
  work->launch(current_stream(kSecond));
  EXPECT_EQ(max_error(to(y, kCpu), to(gelu_tanh(matmul(x, w)) + x, kCpu)), 0.0);
}

TEST_F(CudaTwoDevices, KernelsFromSourceAreNotMistakenForTheOthers) {
  KernelExecutor *first = backend(kFirst).kernel_executor(), *second = backend(kSecond).kernel_executor();
  if (first == nullptr || second == nullptr) GTEST_SKIP() << "kernels cannot be compiled here";
  const char* source = "extern \"C\" __global__ void nothing(int) {}";
  const std::uint64_t one = first->load_kernel(source, "nothing"),
                      two = second->load_kernel(source, "nothing");
  EXPECT_EQ(second->kernel_info(two).function, "nothing");
  const std::string message = message_of<KernelError>([&] { second->kernel_info(one); });
  EXPECT_NE(message.find("another device loaded it"), std::string::npos) << message;
  first->unload_kernel(one);
  second->unload_kernel(two);
}

}  // namespace
}  // namespace ingot
