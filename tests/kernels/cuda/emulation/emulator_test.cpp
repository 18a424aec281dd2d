#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/cuda/device/tensor_core.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/ops/cast.h"

// The emulator finds the faults that it is there to find: each test runs a kernel with one of them.
namespace ingot::kernels::cuda {
namespace {

using test::message_of;

using test::kDevice;

LaunchSite site(const char* kernel) { return {kernel, {kDevice, nullptr}, {}}; }

Tensor device_floats(std::int64_t n) { return Tensor::empty({n}, DType::f32, kDevice); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

__global__ void reverse(const float* x, float* y, bool barrier) {
  INGOT_SHARED_ARRAY(float, tile, 256);
  tile[threadIdx.x] = x[threadIdx.x];
  if (barrier) __syncthreads();
  y[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

std::vector<float> reversed(bool barrier) {
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 1.0F);
  const Tensor x = Tensor::from(values, {256}, kDevice), y = device_floats(256);
  launch(site("reverse"), reverse, Size3{1}, Size3{256}, 0, x.view().as<float>(), y.view().as<float>(),
         barrier);
  return y.to_vector<float>();
}

TEST(CudaEmulator, RunsABlockWithSharedMemory) {
  const std::vector<float> y = reversed(true);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], 256.0F - static_cast<float>(i));
}

TEST(CudaEmulator, ShowsAMissingBarrierAsPoison) {
#if defined(INGOT_CHECKS_RACES)
  GTEST_SKIP() << "ThreadSanitizer ends the program at the race";
#endif
  int poisoned = 0;
  for (const float value : reversed(false)) poisoned += value != value ? 1 : 0;
  EXPECT_GT(poisoned, 50);
}

__global__ void warp_sums(float* y) {
  auto value = static_cast<float>(threadIdx.x);
  for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(kAllLanes, value, apart);
  const unsigned odd = __ballot_sync(kAllLanes, threadIdx.x % 2);
  const float last = __shfl_sync(kAllLanes, static_cast<float>(threadIdx.x), 31);
  const float next = __shfl_down_sync(kAllLanes, static_cast<float>(threadIdx.x), 1U);
  if (threadIdx.x % 32 == 0) {
    float* to = y + threadIdx.x / 32 * 4;
    to[0] = value;
    to[1] = odd == 0xaaaaaaaaU ? 1.0F : 0.0F;
    to[2] = last;
    to[3] = next;
  }
}

TEST(CudaEmulator, ExchangesWithinWarps) {
  const Tensor y = device_floats(8);
  launch(site("warp_sums"), warp_sums, Size3{1}, Size3{64}, 0, y.view().as<float>());
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{496, 1, 31, 1, 1520, 1, 63, 33}));
}

// A tile of 32 values of bf16 there and back, 16 bytes to a copy.
__global__ void copied(const bfloat_t* x, float* y, bool wait, bool ends) {
  INGOT_SHARED_ARRAY(bfloat_t, tile, 256);
  const int at = 8 * static_cast<int>(threadIdx.x);
  copy_async(tile + at, x + at, threadIdx.x < 31);
  commit_copies();
  if (wait) wait_copies<0>();
  y[threadIdx.x] = to_float(tile[at + 7]);
  if (ends) wait_copies<0>();
}

TEST(CudaEmulator, CopiesArriveAtTheLatestWhenTheirThreadWaits) {
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 0.0F);
  const Tensor x = to(to(Tensor::from(values, {256}), DType::bf16), kDevice), y = device_floats(32);
  const auto run = [&](bool wait, bool ends) {
    launch(site("copied"), copied, Size3{1}, Size3{32}, 0, x.view().as<bfloat_t>(), y.view().as<float>(),
           wait, ends);
    return y.to_vector<float>();
  };
  const std::vector<float> arrived = run(true, true);
  for (std::size_t i = 0; i < 31; ++i) EXPECT_EQ(arrived[i], 8.0F * static_cast<float>(i) + 7);
  EXPECT_EQ(arrived[31], 0) << "zeros where nothing is inside";
  int poisoned = 0;
  for (const float value : run(false, true)) poisoned += value != value ? 1 : 0;
  EXPECT_GT(poisoned, 8) << "read before it arrived";
  const std::string message = message_of<KernelError>([&] { run(false, false); });
  EXPECT_TRUE(contains(message, "ended without waiting")) << message;
}

// Overwrites a tile that others read: too early, where no barrier stands between.
__global__ void overwritten(const float* x, float* y, bool barrier) {
  INGOT_SHARED_ARRAY(float, tile, 256);
  const int at = 4 * static_cast<int>(threadIdx.x), other = 4 * static_cast<int>(blockDim.x - 1) - at;
  for (int i = 0; i < 4; ++i) tile[at + i] = -1;
  __syncthreads();
  if (barrier) {
    y[threadIdx.x] = tile[other];
    __syncthreads();
  }
  copy_async(tile + at, x + at, true);
  commit_copies();
  if (!barrier) y[threadIdx.x] = tile[other];
  wait_copies<0>();
}

TEST(CudaEmulator, CopiesMayArriveBeforeTheirThreadWaits) {
#if defined(INGOT_CHECKS_RACES)
  GTEST_SKIP() << "ThreadSanitizer ends the program at the race";
#endif
  const Tensor x = to(Tensor::zeros({256}), kDevice), y = device_floats(64);
  const auto changed = [&](bool barrier) {
    launch(site("overwritten"), overwritten, Size3{1}, Size3{64}, 0, x.view().as<float>(),
           y.view().as<float>(), barrier);
    int count = 0;
    for (const float value : y.to_vector<float>()) count += value == 0 ? 1 : 0;
    return count;
  };
  EXPECT_EQ(changed(true), 0);
  int early = 0;
  for (int run = 0; run < 4; ++run) early += changed(false);
  EXPECT_GT(early, 0);
}

// y [16, 16] = a [16, 32] · b [16, 32]ᵀ, then y · c [16, 16] in place of it where there is c.
__global__ void tensor_products(const bfloat_t* a, const bfloat_t* b, const bfloat_t* c, float* y) {
  using Eight = Vector<bfloat_t, 8>;
  INGOT_SHARED_ARRAY(Eight, shared, (PaddedRows<32>::size(32) + PaddedRows<16>::size(16)) / 8);
  bfloat_t *const left = shared[0].values, *const right = left + PaddedRows<32>::size(16),
                  *const last = right + PaddedRows<32>::size(16);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * 32; i += 32) {
    left[PaddedRows<32>::at(i / 32, i % 32)] = a[i];
    right[PaddedRows<32>::at(i / 32, i % 32)] = b[i];
    if (c != nullptr && i < 16 * 16) last[PaddedRows<16>::at(i / 16, i % 16)] = c[i];
  }
  __syncthreads();
  SumFragment sums[1][2], more[1][2];
  add_mma_of_rows<bfloat_t, 32>(sums, left, 0, right);
  if (c != nullptr) add_weighted_rows<bfloat_t>(more, sums, last);
  for (int j = 0; j < 2; ++j)
    for (int e = 0; e < 4; ++e)
      y[(lane / 4 + e / 2 * 8) * 16 + 8 * j + lane % 4 * 2 + e % 2] =
          (c != nullptr ? more : sums)[0][j].values[e];
}

// Small whole numbers, so that every sum and the rounding between the products are exact.
TEST(CudaEmulator, FragmentsMultiplyAsMatrices) {
  const auto numbers = [](std::size_t n, int step) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>((static_cast<int>(i) * step) % 5 - 2);
    return values;
  };
  const std::vector<float> a = numbers(512, 7), b = numbers(512, 3), c = numbers(256, 11);
  std::vector<float> product(256), chained(256);
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j)
      for (std::size_t k = 0; k < 32; ++k) product[i * 16 + j] += a[i * 32 + k] * b[j * 32 + k];
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j)
      for (std::size_t k = 0; k < 16; ++k) chained[i * 16 + j] += product[i * 16 + k] * c[k * 16 + j];
  const auto there = [](const std::vector<float>& values) {
    return to(to(Tensor::from(values, {static_cast<std::int64_t>(values.size())}), DType::bf16), kDevice);
  };
  const Tensor left = there(a), right = there(b), last = there(c), y = device_floats(256);
  const auto run = [&](const bfloat_t* third) {
    launch(site("tensor_products"), tensor_products, Size3{1}, Size3{32}, 0, left.view().as<bfloat_t>(),
           right.view().as<bfloat_t>(), third, y.view().as<float>());
    return y.to_vector<float>();
  };
  EXPECT_EQ(run(nullptr), product);
  EXPECT_EQ(run(last.view().as<bfloat_t>()), chained);
}

__global__ void barrier_for_some(float* y) {
  if (threadIdx.x < 16) __shfl_sync(kAllLanes, 0.0F, 0);
  y[threadIdx.x] = 0;
  if (threadIdx.x >= 16) __syncthreads();
}

TEST(CudaEmulator, ReportsDivergentBarriers) {
  const Tensor y = device_floats(32);
  const std::string message = message_of<KernelError>(
      [&] { launch(site("divergent"), barrier_for_some, Size3{1}, Size3{32}, 0, y.view().as<float>()); });
  EXPECT_TRUE(contains(message, "divergent") && contains(message, "deadlock in block [0, 0, 0]")) << message;
}

__global__ void lane_leaves(float* y) {
  if (threadIdx.x == 3) return;
  y[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1.0F, 1);
}

TEST(CudaEmulator, ReportsAMaskWithALaneThatHasEnded) {
  const Tensor y = device_floats(32);
  for (int i = 0; i < 20; ++i) {  // whoever comes first
    const std::string message = message_of<KernelError>(
        [&] { launch(site("leaves"), lane_leaves, Size3{1}, Size3{32}, 0, y.view().as<float>()); });
    EXPECT_TRUE(contains(message, "a lane that has ended") || contains(message, "deadlock")) << message;
  }
}

__global__ void count_block(float* y) {
  if (threadIdx.x == 0) atomicAdd(y + blockIdx.x + gridDim.x * blockIdx.y, 1.0F);
}

TEST(CudaEmulator, RunsEveryBlockOnce) {
  for (unsigned x = 1; x <= 40; ++x) {
    const Tensor y = Tensor::zeros({x * 3}, DType::f32, kDevice);
    launch(site("count_block"), count_block, Size3{x, 3}, Size3{32}, 0, y.view().as<float>());
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(x * 3, 1.0F)) << x;
  }
}

__global__ void write_at(float* y, int at) {
  if (threadIdx.x == 0) y[at] = 1.0F;
}

TEST(CudaEmulator, ReportsAWriteOutsideOfABlockOfMemory) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the program at the very write";
#endif
  for (const int at : {-1, 100}) {
    const Tensor y = device_floats(100);
    const std::string message = message_of<KernelError>(
        [&] { launch(site("outside"), write_at, Size3{1}, Size3{32}, 0, y.view().as<float>(), at); });
    EXPECT_TRUE(contains(message, at < 0 ? "before a block of 400 bytes" : "behind a block of 400 bytes"))
        << message;
    // Restore the guard, so that the next kernel is not blamed.
    try {
      launch(
          site("mend"),
          +[](unsigned char* p) {
            if (threadIdx.x != 0) return;
            *p = 0xfd;
            p[1] = 0xfd;
            p[2] = 0xfd;
            p[3] = 0xfd;
          },
          Size3{1}, Size3{32}, 0, y.view().as<unsigned char>() + at * 4);
    } catch (const KernelError& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(CudaEmulator, RefusesAPointerToTheHost) {
  float host = 0;
  const std::string message =
      message_of<KernelError>([&] { launch(site("host"), write_at, Size3{1}, Size3{32}, 0, &host, 0); });
  EXPECT_TRUE(contains(message, "the host's address")) << message;
}

TEST(CudaEmulator, RefusesImpossibleBlocks) {
  const Tensor y = device_floats(32);
  const auto go = [&](unsigned threads) {
    launch(site("size"), write_at, Size3{1}, Size3{threads}, 0, y.view().as<float>(), 0);
  };
  EXPECT_THROW(go(2048), KernelError);
  EXPECT_THROW(go(33), KernelError);
  EXPECT_NO_THROW(go(1024));
}

TEST(CudaEmulator, RefusesImpossibleGrids) {
  const Tensor y = device_floats(32);
  const emulation::ChecksOnly without_running;
  const auto go = [&](Size3 grid) {
    launch(site("grid"), write_at, grid, Size3{32}, 0, y.view().as<float>(), 0);
  };
  EXPECT_THROW(go({1, 65536, 1}), KernelError);
  EXPECT_THROW(go({1, 1, 65536}), KernelError);
  EXPECT_THROW(go({0, 1, 1}), KernelError);
  EXPECT_NO_THROW(go({65536, 65535, 65535}));
}

__global__ void shares(float* y) {
  INGOT_SHARED_ARRAY(float, declared, 5 * 1024);
  INGOT_DYNAMIC_SHARED(float, given);
  declared[threadIdx.x] = given[threadIdx.x] = 0;
  y[threadIdx.x] = declared[threadIdx.x];
}

TEST(CudaEmulator, CountsDeclaredAndDynamicSharedMemoryTogether) {
  const auto go = [](std::size_t bytes, Device device = kDevice) {
    const Tensor y = Tensor::empty({32}, DType::f32, device);
    launch({"shares", {device, nullptr}, {}}, shares, Size3{1}, Size3{32}, bytes, y.view().as<float>());
  };
  EXPECT_NO_THROW(go(28 * 1024));
  EXPECT_THROW(go(32 * 1024), KernelError) << "52 KiB, of which launch() asks for none";
  EXPECT_NO_THROW(go(33 * 1024));
  EXPECT_NO_THROW(go(207 * 1024));
  EXPECT_THROW(go(208 * 1024), KernelError);
  constexpr Device kSmaller{DeviceType::cuda, 1};
  EXPECT_EQ(shared_memory(kSmaller), 99 * 1024U);
  EXPECT_NO_THROW(go(79 * 1024, kSmaller));
  EXPECT_THROW(go(80 * 1024, kSmaller), KernelError);
}

TEST(CudaEmulator, PoisonsNewMemory) {
  for (const float value : device_floats(16).to_vector<float>()) EXPECT_NE(value, value);
}

TEST(CudaEmulatorDeathTest, StopsHostCodeThatTouchesDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "fast");
  const Tensor y = device_floats(16);
  EXPECT_DEATH(*y.view().as<volatile float>() = 1.0F, "copy first|SEGV");
}

}  // namespace
}  // namespace ingot::kernels::cuda
