#include <algorithm>

#include "ingot/kernels/cuda/device/functions.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/gemm/simt_gemm.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/gemm.h"

namespace ingot::kernels::cuda {
namespace {

// The matmul for any strides: correct everywhere, on plain f32 units. A library's comes before it in the
// list.

struct GemmKernelArgs {
  const void *a, *b, *bias;
  void* c;
  std::int64_t m, n, k;
  std::int64_t a_strides[2], b_strides[2], c_strides[2];
  Walk<3> batch;   // a, b, c over the batch axes of c
  Walk<2> summed;  // a, b over those that c sums
  float alpha, beta;
  void* before;  // where the argument of gelu goes, in c's dtype and strides; or null
};

template <class A, class B, class C, bool gelu>
__global__ void __launch_bounds__(kTileThreads) gemm_kernel(const __grid_constant__ GemmKernelArgs args) {
  const TilePosition position(args.n);
  for (std::int64_t batch = blockIdx.y; batch < args.batch.total; batch += gridDim.y) {
    std::int64_t at[3];
    args.batch.offsets(batch, at);
    float sums[kSide][kSide] = {};
    for (std::int64_t part = 0; part < args.summed.total; ++part) {
      std::int64_t part_at[2];
      args.summed.offsets(part, part_at);
      const Strided<A> a(static_cast<const A*>(args.a) + at[0] + part_at[0], args.a_strides[0],
                         args.a_strides[1]);
      const Strided<B> b(static_cast<const B*>(args.b) + at[1] + part_at[1], args.b_strides[1],
                         args.b_strides[0]);
      add_matmul(a, args.m, b, args.n, position, 0, args.k, sums);
    }
    C* c = static_cast<C*>(args.c) + at[2];
    for_results(position, args.m, args.n, sums, [&](std::int64_t row, std::int64_t column, float sum) {
      const std::int64_t position_in_c = row * args.c_strides[0] + column * args.c_strides[1];
      C* to = c + position_in_c;
      float value = args.alpha * sum;
      if (args.beta != 0.0F) value += args.beta * to_float(*to);
      if (args.bias != nullptr) value += to_float(static_cast<const C*>(args.bias)[column]);
      if constexpr (gelu) {
        if (args.before != nullptr) static_cast<C*>(args.before)[position_in_c] = from_float<C>(value);
        value = gelu_tanh(value);
      }
      *to = from_float<C>(value);
    });
  }
}

void append(View& view, const View& from, int axis) {
  view.shape[static_cast<std::size_t>(view.rank)] = from.dim(axis);
  view.strides[static_cast<std::size_t>(view.rank++)] = from.stride(axis);
}

GemmKernelArgs kernel_args(const GemmArgs& args) {
  GemmKernelArgs made{.a = args.a.data,
                      .b = args.b.data,
                      .bias = args.bias.data,
                      .c = args.c.data,
                      .m = args.c.dim(-2),
                      .n = args.c.dim(-1),
                      .k = args.a.dim(-1),
                      .a_strides = {args.a.stride(-2), args.a.stride(-1)},
                      .b_strides = {args.b.stride(-2), args.b.stride(-1)},
                      .c_strides = {args.c.stride(-2), args.c.stride(-1)},
                      .batch = {},
                      .summed = {},
                      .alpha = args.alpha,
                      .beta = args.beta,
                      .before = nullptr};
  View a = args.a, b = args.b, c = args.c, summed_a = args.a, summed_b = args.b;
  a.rank = b.rank = c.rank = summed_a.rank = summed_b.rank = 0;
  for (int axis = 0; axis + 2 < args.c.rank; ++axis) {
    if (args.c.stride(axis) == 0 && args.c.dim(axis) > 1) {
      append(summed_a, args.a, axis);
      append(summed_b, args.b, axis);
    } else {
      append(a, args.a, axis);
      append(b, args.b, axis);
      append(c, args.c, axis);
    }
  }
  made.batch = walk_of(StridedIterator<3>({a, b, c}));
  made.summed = walk_of(StridedIterator<2>({summed_a, summed_b}));
  return made;
}

template <bool gelu, class A, class B, class C>
void run(const LaunchSite& site, const GemmKernelArgs& made) {
  if (made.m == 0 || made.n == 0 || made.batch.total == 0) return;
  const auto batches = static_cast<unsigned>(std::min<std::int64_t>(made.batch.total, 65535));
  launch(site, gemm_kernel<A, B, C, gelu>, Size3{static_cast<unsigned>(tiles(made.m, made.n)), batches},
         Size3{kTileThreads}, 0, made);
}

template <bool gelu>
void run_of(const LaunchSite& site, const GemmArgs& args, void* before) {
  GemmKernelArgs made = kernel_args(args);
  made.before = before;
  if (args.b.dtype != args.a.dtype)
    return args.b.dtype == DType::bf16 ? run<gelu, float, bfloat_t, float>(site, made)
                                       : run<gelu, float, half_t, float>(site, made);
  dispatch_device_float(args.c.dtype, site.kernel, [&]<class T>() { run<gelu, T, T, T>(site, made); });
}

void run_gemm(const GemmArgs& args, Stream stream) { run_of<false>({"gemm", stream, args.c}, args, nullptr); }

GemmArgs gemm_of(const GemmGeluArgs& args) {
  return {.a = args.a, .b = args.b, .c = args.c, .bias = args.bias};
}

void run_gemm_gelu(const GemmGeluArgs& args, Stream stream) {
  run_of<true>({"gemm_gelu", stream, args.c}, gemm_of(args), args.before.data);
}

bool takes_gemm(const GemmArgs& args) {
  if (args.a.dtype != args.c.dtype || !is_device_float(args.c.dtype)) return false;
  return args.b.dtype == args.a.dtype || (args.a.dtype == DType::f32 && is_half_precision(args.b.dtype));
}

}  // namespace

void register_gemm() {
  gemm.add(DeviceType::cuda, {"tiled", ImplKind::cuda, takes_gemm, run_gemm});
  gemm_each.add(DeviceType::cuda,
                {"one_by_one", ImplKind::cuda,
                 [](const GemmEachArgs& args) { return is_device_float(args.a.dtype); }, gemm_each_by_one});
  gemm_silu_mul.add(
      DeviceType::cuda,
      {"in_three", ImplKind::cuda, [](const GemmSiluMulArgs& args) { return is_device_float(args.a.dtype); },
       gemm_silu_mul_in_three});
  gemm_gelu.add(DeviceType::cuda,
                {"tiled", ImplKind::cuda, [](const GemmGeluArgs& args) { return takes_gemm(gemm_of(args)); },
                 run_gemm_gelu});
  gemm_gelu_backward.add(DeviceType::cuda,
                         {"in_two", ImplKind::cuda,
                          [](const GemmGeluBackwardArgs& args) { return is_device_float(args.c.dtype); },
                          gemm_gelu_backward_in_two});
  linear_parameters_backward.add(DeviceType::cuda, {"in_two", ImplKind::cuda,
                                                    [](const LinearParametersBackwardArgs& args) {
                                                      return is_device_float(args.dy.dtype);
                                                    },
                                                    linear_parameters_backward_in_two});
}

}  // namespace ingot::kernels::cuda
