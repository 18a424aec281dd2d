#include "ingot/kernels/cuda/device/fp8.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/gemm/simt_gemm.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/fp8_matmul.h"

namespace ingot::kernels::cuda {
namespace {

// On plain f32 units: where the GPU has none for 8-bit floats, or the library does not take the operands.

/// Rows of 8-bit floats.
template <bool is_e4m3>
struct Rows {
  const std::uint8_t* x;
  std::int64_t k;
  static constexpr bool along_depth = true;

  __device__ float at(std::int64_t position, std::int64_t depth) const {
    const std::uint8_t bits = x[position * k + depth];
    return is_e4m3 ? to_float(e4m3_t{bits}) : to_float(e5m2_t{bits});
  }
};

struct Fp8KernelArgs {
  const std::uint8_t *a, *b;
  const float *a_scale, *b_scale;
  const void* bias;
  void* c;
  std::int64_t m, n, k, depth, parts;  // of the blocks of scales; one part where they are of whole tensors
  bool blocks, accumulate;
};

template <class C, bool a_e4m3, bool b_e4m3>
__global__ void __launch_bounds__(kTileThreads)
    fp8_matmul_kernel(const __grid_constant__ Fp8KernelArgs args) {
  const TilePosition position(args.n);
  const Rows<a_e4m3> a{args.a, args.k};
  const Rows<b_e4m3> b{args.b, args.k};
  float totals[kSide][kSide] = {};
  for (std::int64_t part = 0; part < args.parts; ++part) {
    float sums[kSide][kSide] = {};
    const std::int64_t begin = part * args.depth, end = begin + args.depth;
    add_matmul(a, args.m, b, args.n, position, begin, end < args.k ? end : args.k, sums);
    for_results(position, args.m, args.n, sums, [&](std::int64_t row, std::int64_t column, float sum) {
      const float scale = args.blocks ? args.a_scale[row * args.parts + part] *
                                            args.b_scale[column / kFp8Block * args.parts + part]
                                      : args.a_scale[0] * args.b_scale[0];
      totals[row - position.row0 - position.row][column - position.column0 - position.column] += sum * scale;
    });
  }
  for_results(position, args.m, args.n, totals, [&](std::int64_t row, std::int64_t column, float total) {
    if (args.bias != nullptr) total += to_float(static_cast<const C*>(args.bias)[column]);
    store(static_cast<C*>(args.c) + row * args.n + column, total, args.accumulate);
  });
}

void run_fp8_matmul(const Fp8MatmulArgs& args, Stream stream) {
  const std::int64_t m = args.a.dim(0), n = args.b.dim(0), k = args.a.dim(1);
  if (m == 0 || n == 0) return;
  const bool blocks = has_block_scales(args);
  const std::int64_t depth = blocks ? kFp8Block : k > 0 ? k : 1;
  const Fp8KernelArgs made{.a = args.a.as<std::uint8_t>(),
                           .b = args.b.as<std::uint8_t>(),
                           .a_scale = args.a_scale.as<float>(),
                           .b_scale = args.b_scale.as<float>(),
                           .bias = args.bias.data,
                           .c = args.c.data,
                           .m = m,
                           .n = n,
                           .k = k,
                           .depth = depth,
                           .parts = (k + depth - 1) / depth,
                           .blocks = blocks,
                           .accumulate = args.accumulate};
  const auto go = [&]<class C, bool a, bool b>() {
    launch({"fp8_matmul", stream, args.c}, fp8_matmul_kernel<C, a, b>,
           Size3{static_cast<unsigned>(tiles(m, n))}, Size3{kTileThreads}, 0, made);
  };
  dispatch_device_float(args.c.dtype, "fp8_matmul", [&]<class C>() {
    const bool a = args.a.dtype == DType::f8e4m3, b = args.b.dtype == DType::f8e4m3;
    if (a && b) return go.template operator()<C, true, true>();
    a ? go.template operator()<C, true, false>() : go.template operator()<C, false, true>();
  });
}

}  // namespace

void register_fp8_matmul() {
  fp8_matmul.add(DeviceType::cuda, {"tiled", ImplKind::cuda, nullptr, run_fp8_matmul});
}

}  // namespace ingot::kernels::cuda
