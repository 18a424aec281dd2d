#include "ingot/kernels/cuda/device/fp8.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/nvfp4.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kNvfp4Threads = 128;
constexpr float kMostFloat = 3.402823466e+38F;

struct Nvfp4Args {
  const float *x, *amax;
  float* y;
  std::int64_t rows, cols, blocks;  // blocks of a row
  RngKey key;
};

__device__ __forceinline__ float e2m1_step(float magnitude) {
  return magnitude < 2.0F ? 0.5F : magnitude < 4.0F ? 1.0F : 2.0F;
}

__device__ __forceinline__ float stochastic_e2m1(float x, float u) {
  const float magnitude = fabsf(x), step = e2m1_step(magnitude);
  const float steps = magnitude / step, below = floorf(steps);
  return copysignf((below + (u < steps - below ? 1.0F : 0.0F)) * step, x);
}

// `x` where it is not a number, which fminf would lose.
__device__ __forceinline__ float at_most(float x, float limit) { return limit < x ? limit : x; }

__device__ __forceinline__ float scale_of_tensor(float amax) {
  const float scale = at_most(kE4m3Largest * kE2m1Largest / amax, kMostFloat);
  return amax == 0.0F || scale == 0.0F ? 1.0F : scale;
}

// A thread rounds 16 neighbours of a row. Those of a square block find its largest magnitude each for itself:
// what they read is in the cache, and weights are rounded once a step.
template <bool square, bool stochastic>
__global__ void round_nvfp4_kernel(const __grid_constant__ Nvfp4Args args) {
  const float whole = scale_of_tensor(args.amax[0]);
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.rows * args.blocks;
       i += step) {
    const std::int64_t row = i / args.blocks, begin = i % args.blocks * kNvfp4Block;
    const std::int64_t left = args.cols - begin, count = left < kNvfp4Block ? left : kNvfp4Block;
    const std::int64_t first = square ? row / kNvfp4Block * kNvfp4Block : row;
    const std::int64_t below = square ? first + kNvfp4Block : row + 1;
    const std::int64_t last = below < args.rows ? below : args.rows;
    float most = 0;  // or no number, which is unlike itself
    for (std::int64_t r = first; r < last; ++r) {
      for (std::int64_t k = 0; k < count; ++k) {
        const float magnitude = fabsf(args.x[r * args.cols + begin + k]);
        most = most != most || most > magnitude ? most : magnitude;
      }
    }
    const float scale = to_float(from_float<e4m3_t>(at_most(most / kE2m1Largest * whole, kE4m3Largest)));
    const float encode = at_most(1.0F / (scale * (1.0F / whole)), kMostFloat);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t at = row * args.cols + begin + k;
      const float scaled = fminf(fmaxf(args.x[at] * encode, -kE2m1Largest), kE2m1Largest);
      const float apart = e2m1_step(fabsf(scaled));
      float number = rintf(scaled / apart) * apart;
      if constexpr (stochastic) {
        const auto words = args.key.block(static_cast<std::uint64_t>(at / 4));
        number = stochastic_e2m1(scaled, uniform_from_bits(words[static_cast<std::size_t>(at % 4)]));
      }
      args.y[at] = most != most ? most : number * scale;
    }
  }
}

void run_round_nvfp4(const RoundNvfp4Args& args, Stream stream) {
  const std::int64_t rows = args.x.dim(0), cols = args.x.dim(1);
  const Nvfp4Args made{.x = args.x.as<float>(),
                       .amax = args.amax.as<float>(),
                       .y = args.y.as<float>(),
                       .rows = rows,
                       .cols = cols,
                       .blocks = (cols + kNvfp4Block - 1) / kNvfp4Block,
                       .key = args.key};
  if (rows * cols == 0) return;
  const auto go = [&]<bool square, bool stochastic>() {
    launch({"round_nvfp4", stream, args.x}, round_nvfp4_kernel<square, stochastic>,
           Size3{grid_for(stream.device, rows * made.blocks, kNvfp4Threads)}, Size3{kNvfp4Threads}, 0, made);
  };
  if (args.square) return args.stochastic ? go.operator()<true, true>() : go.operator()<true, false>();
  args.stochastic ? go.operator()<false, true>() : go.operator()<false, false>();
}

struct HadamardKernelArgs {
  const float* x;
  float* y;
  std::int64_t rows, depth, blocks, row_stride, depth_stride;
};

// Neighbouring threads have neighbouring rows, which are adjacent in memory where the depth is not.
__global__ void hadamard_kernel(const __grid_constant__ HadamardKernelArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.rows * args.blocks;
       i += step) {
    const std::int64_t row = i % args.rows, first = i / args.rows * kNvfp4Block;
    float x[kNvfp4Block];
    INGOT_UNROLL
    for (int k = 0; k < kNvfp4Block; ++k) {
      const std::int64_t at = first + k;
      const float value = at < args.depth ? args.x[row * args.row_stride + at * args.depth_stride] : 0.0F;
      x[k] = (kHadamardSigns >> k & 1U) != 0 ? -value : value;
    }
    INGOT_UNROLL
    for (int distance = 1; distance < kNvfp4Block; distance *= 2) {
      INGOT_UNROLL
      for (int k = 0; k < kNvfp4Block; ++k) {
        if ((k & distance) != 0) continue;
        const float a = x[k], b = x[k + distance];
        x[k] = a + b;
        x[k + distance] = a - b;
      }
    }
    float* y = args.y + row * args.blocks * kNvfp4Block + first;
    INGOT_UNROLL
    for (int k = 0; k < kNvfp4Block; ++k) y[k] = x[k] * 0.25F;
  }
}

void run_hadamard(const HadamardArgs& args, Stream stream) {
  const HadamardKernelArgs made{.x = args.x.as<float>(),
                                .y = args.y.as<float>(),
                                .rows = args.x.dim(0),
                                .depth = args.x.dim(1),
                                .blocks = args.y.dim(1) / kNvfp4Block,
                                .row_stride = args.x.stride(0),
                                .depth_stride = args.x.stride(1)};
  if (made.rows * made.blocks == 0) return;
  launch({"hadamard", stream, args.x}, hadamard_kernel,
         Size3{grid_for(stream.device, made.rows * made.blocks, kNvfp4Threads)}, Size3{kNvfp4Threads}, 0,
         made);
}

}  // namespace

void register_nvfp4() {
  round_nvfp4.add(DeviceType::cuda, {"fp4_blocks", ImplKind::cuda, nullptr, run_round_nvfp4});
  hadamard.add(DeviceType::cuda, {"sixteen", ImplKind::cuda, nullptr, run_hadamard});
}

}  // namespace ingot::kernels::cuda
