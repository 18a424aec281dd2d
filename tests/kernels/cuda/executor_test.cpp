#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/cuda/runtime/kernel_executor.h"
#include "ingot/kernels/cuda/runtime/nvrtc.h"

namespace ingot {
namespace {

using kernels::cuda::CudaKernelExecutor;
using test::message_of;
using ::testing::Test;
namespace nvrtc = kernels::cuda::nvrtc;

using test::kDevice;

const std::string kAxpy = R"(
extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
)";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class CudaExecutor : public Test {
 protected:
  void SetUp() override {
    if (backend(kDevice).kernel_executor() == nullptr) GTEST_SKIP() << nvrtc::problem();
  }

  static std::vector<float> run_axpy(KernelExecutor& executor, std::uint64_t handle) {
    const int n = 1000;
    std::vector<float> values(1000);
    for (int i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
    const Tensor x = Tensor::from(values, {n}, kDevice), y = Tensor::from(values, {n}, kDevice);
    executor.execute_kernel(
        handle, {.blocks = {8}, .threads = {128}},
        std::array<KernelArgument, 4>{x.view(), KernelArgument::buffer(y.view().data), 2.0F, n},
        current_stream(kDevice));
    return y.to_vector<float>();
  }
  static void expect_axpy(KernelExecutor& executor, std::uint64_t handle) {
    const std::vector<float> y = run_axpy(executor, handle);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 3.0F * static_cast<float>(i)) << i;
  }

  test::TemporaryDirectory cache_;
};

TEST_F(CudaExecutor, RunsAKernelFromSource) {
  CudaKernelExecutor executor(kDevice, cache_.path());
  const std::uint64_t handle = executor.load_kernel(kAxpy, "axpy");
  expect_axpy(executor, handle);
  const KernelInfo info = executor.kernel_info(handle);
  EXPECT_EQ(info.function, "axpy");
  EXPECT_GE(info.most_threads, 128);
}

TEST_F(CudaExecutor, TheBackendHasOne) {
  KernelExecutor* executor = backend(kDevice).kernel_executor();
  ASSERT_NE(executor, nullptr);
  EXPECT_TRUE(contains(message_of<KernelError>([&] { executor->unload_kernel(12345); }), "12345"));
}

TEST_F(CudaExecutor, GivesTheCompilersMessagesForAFaultySource) {
  CudaKernelExecutor executor(kDevice, cache_.path());
  const std::string message = message_of<KernelError>([&] {
    executor.load_kernel("extern \"C\" __global__ void broken(float* y) {\n  y[0] = no_such_name;\n}\n",
                         "broken");
  });
  EXPECT_TRUE(contains(message, "broken")) << message;
  EXPECT_TRUE(contains(message, "no_such_name")) << message;
  // The line, as NVRTC and as g++ write it.
  EXPECT_TRUE(contains(message, "broken.cu(2)") || contains(message, "broken.cu:2")) << message;
  EXPECT_TRUE(std::filesystem::is_empty(cache_.path()));
}

TEST_F(CudaExecutor, KeepsWhatItCompiledAndMendsAKeptFileThatIsCutOff) {
  CudaKernelExecutor first(kDevice, cache_.path());
  expect_axpy(first, first.load_kernel(kAxpy, "axpy"));
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(cache_.path())) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  const std::string kept = read_file(files[0]);
  const auto written = std::filesystem::last_write_time(files[0]);

  CudaKernelExecutor second(kDevice, cache_.path());
  expect_axpy(second, second.load_kernel(kAxpy, "axpy"));
  EXPECT_EQ(std::filesystem::last_write_time(files[0]), written);  // read, not compiled again

  write_file_atomically(files[0], kept.substr(0, kept.size() / 2));
  expect_axpy(second, second.load_kernel(kAxpy, "axpy"));
  EXPECT_EQ(read_file(files[0]).size(), kept.size());
}

TEST_F(CudaExecutor, WorksWhereNothingCanBeKept) {
  write_file_atomically(cache_.at("file"), "not a directory");
  CudaKernelExecutor executor(kDevice, cache_.at("file") + "/kernels");
  expect_axpy(executor, executor.load_kernel(kAxpy, "axpy"));
}

TEST_F(CudaExecutor, RefusesAHandleThatWasUnloaded) {
  CudaKernelExecutor executor(kDevice, cache_.path());
  const std::uint64_t kept = executor.load_kernel(kAxpy, "axpy"), gone = executor.load_kernel(kAxpy, "axpy");
  executor.unload_kernel(gone);
  EXPECT_TRUE(contains(message_of<KernelError>([&] { run_axpy(executor, gone); }), "was unloaded"));
  EXPECT_TRUE(contains(message_of<KernelError>([&] { executor.kernel_info(gone); }), "was unloaded"));
  expect_axpy(executor, kept);
}

TEST_F(CudaExecutor, TellsWhichArgumentIsNotWhatTheKernelTakes) {
  CudaKernelExecutor executor(kDevice, cache_.path());
  const std::uint64_t axpy = executor.load_kernel(kAxpy, "axpy");
  const Tensor y = Tensor::zeros({4}, DType::f32, kDevice);
  const auto refusal = [&](std::vector<KernelArgument> arguments) {
    return message_of<KernelError>(
        [&] { executor.execute_kernel(axpy, {}, arguments, current_stream(kDevice)); });
  };
  const Tensor whole = Tensor::zeros({4}, DType::i32, kDevice), host = Tensor::zeros({4});
  EXPECT_TRUE(contains(refusal({y.view(), y.view(), 2.0F}), "takes 4 arguments, got 3"));
  EXPECT_TRUE(contains(refusal({whole.view(), y.view(), 2.0F, 4}),
                       "argument 1 is a tensor of i32; its parameter is `const float* x`"));
  EXPECT_TRUE(contains(refusal({y.view(), host.view(), 2.0F, 4}), "argument 2 is a tensor on cpu"));
  EXPECT_TRUE(contains(refusal({y.view(), y.view(), 2.0, 4}),
                       "argument 3 is a floating-point number of 8 bytes; its parameter is `float a`"));
  EXPECT_TRUE(contains(refusal({y.view(), y.view(), 2, 4}), "argument 3 is a whole number"));
  EXPECT_TRUE(contains(refusal({y.view(), y.view(), 2.0F, y.view()}), "argument 4 is an address"));
}

TEST_F(CudaExecutor, GivesABlockSharedMemory) {
  CudaKernelExecutor executor(kDevice, cache_.path());
  const std::uint64_t reverse = executor.load_kernel(R"(
#ifndef INGOT_DYNAMIC_SHARED
#define INGOT_DYNAMIC_SHARED(T, name) extern __shared__ T name[]
#endif
// Of one block: a /* comment */ tells nothing.
extern "C" __global__ void reverse(float* /* in place */ y, int n) {
  INGOT_DYNAMIC_SHARED(float, kept);
  kept[threadIdx.x] = y[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = kept[n - 1 - threadIdx.x];
}
)",
                                                     "reverse");
  std::vector<float> values(32), reversed(32);
  for (std::size_t i = 0; i < 32; ++i) values[i] = reversed[31 - i] = static_cast<float>(i);
  const Tensor y = Tensor::from(values, {32}, kDevice);
  executor.execute_kernel(reverse, {.threads = {32}, .shared_bytes = 32 * sizeof(float)},
                          std::array<KernelArgument, 2>{y.view(), 32}, current_stream(kDevice));
  EXPECT_EQ(y.to_vector<float>(), reversed);
}

// NVIDIA's compiler itself, which needs no GPU.
class Nvrtc : public Test {
 protected:
  void SetUp() override {
    if (!nvrtc::problem().empty()) GTEST_SKIP() << nvrtc::problem();
  }
};

TEST_F(Nvrtc, CompilesForEveryGpuThatIsSupported) {
  EXPECT_TRUE(contains(nvrtc::version(), "NVRTC 1")) << nvrtc::version();
  for (const char* architecture : {"sm_80", "sm_90a"})
    EXPECT_EQ(nvrtc::compile(kAxpy, "axpy", architecture).substr(0, 4),
              "\x7f"
              "ELF")
        << architecture;
}

TEST_F(Nvrtc, TellsWhichGpusItKnows) {
  for (const int capability : {80, 90}) EXPECT_TRUE(nvrtc::knows(capability)) << capability;
  EXPECT_FALSE(nvrtc::knows(12345));
}

TEST_F(Nvrtc, SaysWhatIsWrongAndWhere) {
  const std::string message = message_of<KernelError>([] {
    nvrtc::compile("extern \"C\" __global__ void broken(float* y) {\n  y[0] = no_such_name;\n}\n", "broken",
                   "sm_80");
  });
  EXPECT_TRUE(contains(message, "broken.cu(2): error")) << message;
  EXPECT_TRUE(contains(message, "no_such_name")) << message;
}

TEST_F(Nvrtc, NamesAnArchitectureThatDoesNotExist) {
  const std::string message = message_of<KernelError>([] { nvrtc::compile(kAxpy, "axpy", "sm_12345"); });
  EXPECT_TRUE(contains(message, "sm_12345")) << message;
}

}  // namespace
}  // namespace ingot
