#if defined(INGOT_CHECKS_RACES)

#include "tests/kernels/cuda/device.h"
#include <gtest/gtest.h>

#include "ingot/core/tensor.h"
#include "ingot/kernels/cuda/device/tensor_core.h"
#include "ingot/kernels/cuda/hardware/launch.h"

// ThreadSanitizer reports what CUDA leaves unordered, and nothing else. A report ends the program.
namespace ingot::kernels::cuda {
namespace {

using test::kDevice;

Tensor zeros(std::int64_t n, DType dtype = DType::f32) { return Tensor::zeros({n}, dtype, kDevice); }

template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), Size3 grid, Size3 block, const Arguments&... arguments) {
  launch({"racing", {kDevice, nullptr}, {}}, kernel, grid, block, 0, arguments...);
}

#define EXPECT_RACE(statement) EXPECT_EXIT(statement, ::testing::ExitedWithCode(66), "data race")

__global__ void mirror(float* y, bool barrier) {
  INGOT_SHARED_ARRAY(float, tile, 64);
  tile[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (barrier) __syncthreads();
  y[threadIdx.x] = tile[63 - threadIdx.x];
}

TEST(CudaRaces, ABarrierOrdersTheThreadsOfABlock) {
  const Tensor y = zeros(64);
  run(mirror, {1}, {64}, y.view().as<float>(), true);
}

TEST(CudaRaces, AMissingBarrierIsFound) {
  const Tensor y = zeros(64);
  EXPECT_RACE(run(mirror, {1}, {64}, y.view().as<float>(), false));
}

// One position for several rounds: who is late reads what the next round writes.
__global__ void rounds(float* y, bool second_barrier) {
  INGOT_SHARED_ARRAY(float, position, 1);
  float sum = 0;
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) *position = 1;
    __syncthreads();
    sum += *position;
    if (second_barrier) __syncthreads();
  }
  y[threadIdx.x] = sum;
}

TEST(CudaRaces, WhatTheNextRoundWritesTooEarlyIsFound) {
  const Tensor y = zeros(64);
  run(rounds, {1}, {64}, y.view().as<float>(), true);
  EXPECT_RACE(run(rounds, {1}, {64}, y.view().as<float>(), false));
}

enum class Between { nothing, shuffle, sync };

__global__ void neighbours(float* y, Between between) {
  INGOT_SHARED_ARRAY(float, tile, 32);
  tile[threadIdx.x] = 1;
  if (between == Between::shuffle) y[threadIdx.x] = __shfl_sync(kAllLanes, 0.0F, 0);
  if (between == Between::sync) __syncwarp();
  y[threadIdx.x] = tile[threadIdx.x ^ 1U];
}

TEST(CudaRaces, SyncwarpOrdersTheLanesOfAWarpAndShufflesDoNot) {
  const Tensor y = zeros(32);
  run(neighbours, {1}, {32}, y.view().as<float>(), Between::sync);
  EXPECT_RACE(run(neighbours, {1}, {32}, y.view().as<float>(), Between::shuffle));
  EXPECT_RACE(run(neighbours, {1}, {32}, y.view().as<float>(), Between::nothing));
}

__global__ void count_all(unsigned long long* count, bool atomic) {
  if (threadIdx.x != 0) return;
  if (atomic) {
    atomicAdd(count, 1ULL);
  } else {
    ++*count;
  }
}

TEST(CudaRaces, BlocksThatWriteTheSameElementAreFoundUnlessTheyDoItAtomically) {
  const Tensor count = zeros(1, DType::i64);
  run(count_all, {8}, {32}, count.view().as<unsigned long long>(), true);
  EXPECT_EQ(count.to_vector<std::int64_t>()[0], 8);
  EXPECT_RACE(run(count_all, {8}, {32}, count.view().as<unsigned long long>(), false));
}

__global__ void shift(float* to, const float* from) {
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  to[at] = from[at + 1];
}

TEST(CudaRaces, GridsAreOrderedAndBlocksAreNot) {
  const Tensor x = zeros(8 * 32 + 1), y = zeros(8 * 32 + 1);
  float *const a = x.view().as<float>(), *const b = y.view().as<float>();
  run(shift, {8}, {32}, b, a);
  run(shift, {8}, {32}, a, b);
  EXPECT_RACE(run(shift, {8}, {32}, a, a));
}

enum class Wait { before_barrier, behind_barrier };

__global__ void copied_to_tile(const float* x, float* y, Wait wait) {
  INGOT_SHARED_ARRAY(float, tile, 128);
  copy_async(tile + 4 * threadIdx.x, x + 4 * threadIdx.x, true);
  commit_copies();
  if (wait == Wait::before_barrier) wait_copies<0>();
  __syncthreads();
  y[threadIdx.x] = tile[4 * (threadIdx.x ^ 1U)];
  if (wait == Wait::behind_barrier) wait_copies<0>();
}

TEST(CudaRaces, CopiesBelongToWhoMadeThemUntilItWaits) {
  const Tensor x = zeros(128), y = zeros(32);
  const auto go = [&](Wait wait) {
    run(copied_to_tile, {1}, {32}, x.view().as<float>(), y.view().as<float>(), wait);
  };
  go(Wait::before_barrier);
  EXPECT_RACE(go(Wait::behind_barrier));
}

__global__ void loaded_rows(unsigned* y, bool barrier) {
  INGOT_SHARED_ARRAY(bfloat_t, tile, 256);
  const auto one = from_float<bfloat_t>(1.0F);
  for (unsigned i = 0; i < 8; ++i) tile[8 * (threadIdx.x ^ 1U) + i] = one;
  if (barrier) __syncthreads();
  unsigned values[4];
  load_matrices(values, tile + 8 * threadIdx.x);
  y[threadIdx.x] = values[0];
}

TEST(CudaRaces, RowsOfMatricesAreReadByTheirLanes) {
  const Tensor y = zeros(32, DType::i32);
  const auto go = [&](bool barrier) { run(loaded_rows, {1}, {32}, y.view().as<unsigned>(), barrier); };
  go(true);
  EXPECT_RACE(go(false));
}

}  // namespace
}  // namespace ingot::kernels::cuda

#endif
