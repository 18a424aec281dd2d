#include "ingot/kernels/cuda/device/functions.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/elementwise.h"

namespace ingot::kernels::cuda {
namespace {

template <class V>
struct Binary {
  BinaryOp op;

  template <int vec>
  __device__ void operator()(const V (&in)[2][vec], V (&out)[1][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] = apply(in[0][v], in[1][v]);
  }
  __device__ V apply(V a, V b) const {
    switch (op) {
      case BinaryOp::add:
        return a + b;
      case BinaryOp::sub:
        return a - b;
      case BinaryOp::mul:
        return a * b;
      case BinaryOp::div:
        return a / b;
      case BinaryOp::maximum:
        return a > b || a != a ? a : b;  // a != a: a is NaN
      case BinaryOp::minimum:
        return a < b || a != a ? a : b;
    }
    return a;
  }
};

struct BinaryBackward {
  BinaryOp op;

  template <int vec>
  __device__ void operator()(const float (&in)[3][vec], float (&out)[1][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] = in[2][v] * partial(in[0][v], in[1][v]);
  }
  __device__ float partial(float a, float b) const {
    if (op == BinaryOp::div) return -a / (b * b);
    if (a == b) return 0.5F;
    return (op == BinaryOp::maximum) == (a > b) ? 1.0F : 0.0F;
  }
};

template <class V>
struct Compare {
  CompareOp op;

  template <int vec>
  __device__ void operator()(const V (&in)[2][vec], std::uint8_t (&out)[1][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] = apply(in[0][v], in[1][v]) ? 1 : 0;
  }
  __device__ bool apply(V a, V b) const {
    switch (op) {
      case CompareOp::equal:
        return a == b;
      case CompareOp::not_equal:
        return a != b;
      case CompareOp::less:
        return a < b;
      case CompareOp::less_equal:
        return a <= b;
      case CompareOp::greater:
        return a > b;
      case CompareOp::greater_equal:
        return a >= b;
    }
    return false;
  }
};

/// y = silu(gate) · up
struct SiluMul {
  template <int vec>
  __device__ void operator()(const float (&in)[2][vec], float (&out)[1][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] = of(in[0][v], in[1][v]);
  }
  __device__ static float of(float gate, float up) { return gate * sigmoid(gate) * up; }
};

/// dgate, dup and, with `outputs` = 3, the product
struct SiluMulBackward {
  template <int vec, int outputs>
  __device__ void operator()(const float (&in)[3][vec], float (&out)[outputs][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) {
      const float gate = in[0][v], up = in[1][v], dy = in[2][v];
      out[0][v] = dy * up * silu_derivative(gate);
      out[1][v] = dy * gate * sigmoid(gate);
      if constexpr (outputs == 3) out[2][v] = SiluMul::of(gate, up);
    }
  }
};

template <class T>
void binary_of(const BinaryArgs& args, Stream stream) {
  map<T>({"binary", stream, args.y}, std::array{args.a, args.b}, std::array{args.y}, {args.accumulate},
         Binary<Value<T>>{args.op});
}

void run_binary(const BinaryArgs& args, Stream stream) {
  if (args.y.dtype == DType::i64) return binary_of<std::int64_t>(args, stream);
  if (args.y.dtype == DType::i32) return binary_of<std::int32_t>(args, stream);
  dispatch_device_float(args.y.dtype, "binary", [&]<class T>() { binary_of<T>(args, stream); });
}

bool takes_binary(const BinaryArgs& args) {
  if (args.y.dtype == DType::i64 || args.y.dtype == DType::i32) return args.op != BinaryOp::div;
  return is_device_float(args.y.dtype);
}

void run_binary_backward(const BinaryBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.dy.dtype, "binary_backward", [&]<class T>() {
    map<T>({"binary_backward", stream, args.dy}, std::array{args.a, args.b, args.dy}, std::array{args.dx},
           {args.accumulate}, BinaryBackward{args.op});
  });
}

template <class T>
void compare_of(const CompareArgs& args, Stream stream) {
  map<T, std::uint8_t>({"compare", stream, args.a}, std::array{args.a, args.b}, std::array{args.y}, {false},
                       Compare<Value<T>>{args.op});
}

void run_compare(const CompareArgs& args, Stream stream) {
  switch (args.a.dtype) {
    case DType::i64:
      return compare_of<std::int64_t>(args, stream);
    case DType::i32:
      return compare_of<std::int32_t>(args, stream);
    case DType::u8:
    case DType::boolean:
      return compare_of<std::uint8_t>(args, stream);
    default:
      dispatch_device_float(args.a.dtype, "compare", [&]<class T>() { compare_of<T>(args, stream); });
  }
}

bool takes_compare(const CompareArgs& args) {
  const DType dtype = args.a.dtype;
  return is_device_float(dtype) || dtype == DType::i64 || dtype == DType::i32 || dtype == DType::u8 ||
         dtype == DType::boolean;
}

void run_silu_mul(const SiluMulArgs& args, Stream stream) {
  dispatch_device_float(args.gate.dtype, "silu_mul", [&]<class T>() {
    map<T>({"silu_mul", stream, args.gate}, std::array{args.gate, args.up}, std::array{args.y}, {false},
           SiluMul{});
  });
}

void run_silu_mul_backward(const SiluMulBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.gate.dtype, "silu_mul_backward", [&]<class T>() {
    const LaunchSite site{"silu_mul_backward", stream, args.gate};
    const std::array in{args.gate, args.up, args.dy};
    if (args.product) {
      map<T>(site, in, std::array{args.dgate, args.dup, args.product},
             {args.accumulate_dgate, args.accumulate_dup, false}, SiluMulBackward{});
    } else {
      map<T>(site, in, std::array{args.dgate, args.dup}, {args.accumulate_dgate, args.accumulate_dup},
             SiluMulBackward{});
    }
  });
}

}  // namespace

void register_binary() {
  binary.add(DeviceType::cuda, {"cuda", ImplKind::cuda, takes_binary, run_binary});
  binary_backward.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const BinaryBackwardArgs& args) { return is_device_float(args.dy.dtype); },
       run_binary_backward});
  compare.add(DeviceType::cuda, {"cuda", ImplKind::cuda, takes_compare, run_compare});
  silu_mul.add(DeviceType::cuda,
               {"cuda", ImplKind::cuda,
                [](const SiluMulArgs& args) { return is_device_float(args.gate.dtype); }, run_silu_mul});
  silu_mul_backward.add(DeviceType::cuda,
                        {"cuda", ImplKind::cuda,
                         [](const SiluMulBackwardArgs& args) { return is_device_float(args.gate.dtype); },
                         run_silu_mul_backward});
}

}  // namespace ingot::kernels::cuda
