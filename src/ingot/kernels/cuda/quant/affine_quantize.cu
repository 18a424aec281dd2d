#include "ingot/kernels/affine_quantize.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;

struct CodeArgs {
  const void* from;
  void* to;
  const float* scale;
  const void* zero;  // or null
  std::int64_t total, channels, inner;
  float low, high;
};

template <class Q>
__device__ __forceinline__ float zero_of(const CodeArgs& args, std::int64_t channel) {
  return args.zero == nullptr ? 0.0F : static_cast<float>(static_cast<const Q*>(args.zero)[channel]);
}

template <class T, class Q>
__global__ void affine_quantize_kernel(const __grid_constant__ CodeArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.total; i += step) {
    const std::int64_t channel = i / args.inner % args.channels;
    const float quotient = to_float(static_cast<const T*>(args.from)[i]) / args.scale[channel];
    const float code = rintf(quotient) + zero_of<Q>(args, channel);
    static_cast<Q*>(args.to)[i] =
        static_cast<Q>(code > args.low ? (code < args.high ? code : args.high) : args.low);
  }
}

template <class T, class Q>
__global__ void affine_dequantize_kernel(const __grid_constant__ CodeArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.total; i += step) {
    const std::int64_t channel = i / args.inner % args.channels;
    const auto code = static_cast<float>(static_cast<const Q*>(args.from)[i]);
    static_cast<T*>(args.to)[i] = from_float<T>((code - zero_of<Q>(args, channel)) * args.scale[channel]);
  }
}

template <class F>
void dispatch_codes(DType dtype, F&& f) {
  if (dtype == DType::i8) return f.template operator()<std::int8_t>();
  f.template operator()<std::uint8_t>();
}

CodeArgs code_args(const View& from, const View& to, const View& q, const View& scale, const View& zero) {
  const CodeRange range(q.dtype);
  return {.from = from.data,
          .to = to.data,
          .scale = scale.as<float>(),
          .zero = zero ? zero.data : nullptr,
          .total = q.numel(),
          .channels = q.dim(1),
          .inner = q.dim(2),
          .low = range.low,
          .high = range.high};
}

void run_quantize(const AffineQuantizeArgs& args, Stream stream) {
  const CodeArgs kernel_args = code_args(args.x, args.q, args.q, args.scale, args.zero);
  if (kernel_args.total == 0) return;
  dispatch_device_float(args.x.dtype, "affine_quantize", [&]<class T>() {
    dispatch_codes(args.q.dtype, [&]<class Q>() {
      launch({"affine_quantize", stream, args.x}, affine_quantize_kernel<T, Q>,
             Size3{grid_for(stream.device, kernel_args.total, kBlock)}, Size3{kBlock}, 0, kernel_args);
    });
  });
}

void run_dequantize(const AffineDequantizeArgs& args, Stream stream) {
  const CodeArgs kernel_args = code_args(args.q, args.x, args.q, args.scale, args.zero);
  if (kernel_args.total == 0) return;
  dispatch_device_float(args.x.dtype, "affine_dequantize", [&]<class T>() {
    dispatch_codes(args.q.dtype, [&]<class Q>() {
      launch({"affine_dequantize", stream, args.q}, affine_dequantize_kernel<T, Q>,
             Size3{grid_for(stream.device, kernel_args.total, kBlock)}, Size3{kBlock}, 0, kernel_args);
    });
  });
}

}  // namespace

void register_affine_quantize() {
  affine_quantize.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const AffineQuantizeArgs& args) { return is_device_float(args.x.dtype); },
       run_quantize});
  affine_dequantize.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const AffineDequantizeArgs& args) { return is_device_float(args.x.dtype); },
       run_dequantize});
}

}  // namespace ingot::kernels::cuda
