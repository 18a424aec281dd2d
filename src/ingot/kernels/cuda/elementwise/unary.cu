#include "ingot/kernels/cuda/device/functions.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/elementwise.h"

namespace ingot::kernels::cuda {
namespace {

// The switch over the operation stands outside of the loop over a vector, so that it costs a fraction of a
// branch per element.
template <int vec, class F>
__device__ __forceinline__ void each(const float (&x)[vec], float (&y)[vec], F f) {
  INGOT_UNROLL
  for (int v = 0; v < vec; ++v) y[v] = f(x[v]);
}

struct Unary {
  UnaryOp op;
  float alpha, beta;

  template <int vec>
  __device__ void operator()(const float (&in)[1][vec], float (&out)[1][vec]) const {
    apply(in[0], out[0]);
  }

  template <int vec>
  __device__ void apply(const float (&x)[vec], float (&y)[vec]) const {
    const float a = alpha, b = beta;
    switch (op) {
      case UnaryOp::scale:
        return each(x, y, [a, b](float u) { return scaled(u, a, b); });
      case UnaryOp::abs:
        return each(x, y, [](float u) { return fabsf(u); });
      case UnaryOp::exp:
        return each(x, y, [](float u) { return expf(u); });
      case UnaryOp::log:
        return each(x, y, [](float u) { return logf(u); });
      case UnaryOp::sqrt:
        return each(x, y, [](float u) { return sqrtf(u); });
      case UnaryOp::rsqrt:
        return each(x, y, [](float u) { return rsqrtf(u); });
      case UnaryOp::square:
        return each(x, y, [](float u) { return u * u; });
      case UnaryOp::reciprocal:
        return each(x, y, [](float u) { return 1.0F / u; });
      case UnaryOp::sin:
        return each(x, y, [](float u) { return sinf(u); });
      case UnaryOp::cos:
        return each(x, y, [](float u) { return cosf(u); });
      case UnaryOp::sigmoid:
        return each(x, y, [](float u) { return sigmoid(u); });
      case UnaryOp::tanh:
        return each(x, y, [](float u) { return tanhf(u); });
      case UnaryOp::relu:
        return each(x, y, [](float u) { return u < 0.0F ? 0.0F : u; });  // a NaN stays
      case UnaryOp::silu:
        return each(x, y, [](float u) { return silu(u); });
      case UnaryOp::gelu_erf:
        return each(x, y, [](float u) { return gelu_erf(u); });
      case UnaryOp::gelu_tanh:
        return each(x, y, [](float u) { return gelu_tanh(u); });
      case UnaryOp::mish:
        return each(x, y, [](float u) { return mish(u); });
      case UnaryOp::softplus:
        return each(x, y, [](float u) { return softplus(u); });
      case UnaryOp::pow:
        return each(x, y, [a](float u) { return powf(u, a); });
      case UnaryOp::clamp:
        return each(x, y, [a, b](float u) { return u < a ? a : u > b ? b : u; });
      case UnaryOp::erf:
        return each(x, y, [](float u) { return erff(u); });
      case UnaryOp::leaky_relu:
        return each(x, y, [a](float u) { return leaky_relu(u, a); });
      case UnaryOp::elu:
        return each(x, y, [a](float u) { return elu(u, a); });
      case UnaryOp::floor:
        return each(x, y, [](float u) { return floorf(u); });
      case UnaryOp::ceil:
        return each(x, y, [](float u) { return ceilf(u); });
      case UnaryOp::round:
        return each(x, y, [](float u) { return rintf(u); });
      case UnaryOp::sign:
        return each(x, y, [](float u) { return sign_of(u); });
    }
  }
};

/// dx = dy · f'(saved)
struct UnaryBackward {
  UnaryOp op;
  float alpha, beta;

  template <int vec>
  __device__ void operator()(const float (&in)[2][vec], float (&out)[1][vec]) const {
    derivative(in[0], out[0]);
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] *= in[1][v];
  }

  template <int vec>
  __device__ void derivative(const float (&s)[vec], float (&d)[vec]) const {
    const float a = alpha, b = beta;
    switch (op) {
      case UnaryOp::scale:
        return each(s, d, [a](float) { return a; });
      case UnaryOp::abs:
        return each(s, d, [](float u) { return sign(u); });
      case UnaryOp::exp:
        return each(s, d, [](float u) { return u; });
      case UnaryOp::log:
        return each(s, d, [](float u) { return 1.0F / u; });
      case UnaryOp::sqrt:
        return each(s, d, [](float u) { return 0.5F / u; });
      case UnaryOp::rsqrt:
        return each(s, d, [](float u) { return -0.5F * u * u * u; });
      case UnaryOp::square:
        return each(s, d, [](float u) { return 2.0F * u; });
      case UnaryOp::reciprocal:
        return each(s, d, [](float u) { return -u * u; });
      case UnaryOp::sin:
        return each(s, d, [](float u) { return cosf(u); });
      case UnaryOp::cos:
        return each(s, d, [](float u) { return -sinf(u); });
      case UnaryOp::sigmoid:
        return each(s, d, [](float u) { return u * (1.0F - u); });
      case UnaryOp::tanh:
        return each(s, d, [](float u) { return 1.0F - u * u; });
      case UnaryOp::relu:
        return each(s, d, [](float u) { return u > 0.0F ? 1.0F : 0.0F; });
      case UnaryOp::silu:
        return each(s, d, [](float u) { return silu_derivative(u); });
      case UnaryOp::gelu_erf:
        return each(s, d, [](float u) { return gelu_erf_derivative(u); });
      case UnaryOp::gelu_tanh:
        return each(s, d, [](float u) { return gelu_tanh_derivative(u); });
      case UnaryOp::mish:
        return each(s, d, [](float u) { return mish_derivative(u); });
      case UnaryOp::softplus:
        return each(s, d, [](float u) { return sigmoid(u); });
      case UnaryOp::pow:
        return each(s, d, [a](float u) { return a == 0.0F ? 0.0F : a * powf(u, a - 1.0F); });
      case UnaryOp::clamp:
        return each(s, d, [a, b](float u) { return u >= a && u <= b ? 1.0F : 0.0F; });
      case UnaryOp::erf:
        return each(s, d, [](float u) { return erf_derivative(u); });
      case UnaryOp::leaky_relu:
        return each(s, d, [a](float u) { return u > 0.0F ? 1.0F : a; });
      case UnaryOp::elu:
        return each(s, d, [a](float u) { return elu_derivative(u, a); });
      case UnaryOp::floor:
      case UnaryOp::ceil:
      case UnaryOp::round:
      case UnaryOp::sign:
        return each(s, d, [](float) { return 0.0F; });
    }
  }
};

/// F of an activation that models have much of, compiled apart from the other operations: what powf and sinf
/// need of registers would leave fewer threads, and so fewer loads under way, to a multiprocessor.
template <class F>
struct Activation {
  F f;

  static bool is_one(UnaryOp op) {
    return op == UnaryOp::sigmoid || op == UnaryOp::tanh || op == UnaryOp::silu || op == UnaryOp::gelu_erf ||
           op == UnaryOp::gelu_tanh;
  }
  template <class In, class Out>
  __device__ void operator()(const In& in, Out& out) const {
    switch (f.op) {
      case UnaryOp::sigmoid:
        return as<UnaryOp::sigmoid>(in, out);
      case UnaryOp::tanh:
        return as<UnaryOp::tanh>(in, out);
      case UnaryOp::silu:
        return as<UnaryOp::silu>(in, out);
      case UnaryOp::gelu_erf:
        return as<UnaryOp::gelu_erf>(in, out);
      default:
        return as<UnaryOp::gelu_tanh>(in, out);
    }
  }

 private:
  template <UnaryOp op, class In, class Out>
  __device__ __forceinline__ void as(const In& in, Out& out) const {
    F{op, f.alpha, f.beta}(in, out);
  }
};

/// Calls run(f), or run with f as an activation.
template <class F, class Run>
void dispatch_activation(const F& f, const Run& run) {
  if (Activation<F>::is_one(f.op)) return run(Activation<F>{f});
  run(f);
}

void run_unary(const UnaryArgs& args, Stream stream) {
  const Unary f{args.op, static_cast<float>(args.alpha), static_cast<float>(args.beta)};
  dispatch_device_float(args.x.dtype, "unary", [&]<class T>() {
    dispatch_activation(f, [&](const auto& apply) {
      map<T>({"unary", stream, args.x}, std::array{args.x}, std::array{args.y}, {args.accumulate}, apply);
    });
  });
}

void run_unary_backward(const UnaryBackwardArgs& args, Stream stream) {
  const UnaryBackward f{args.op, static_cast<float>(args.alpha), static_cast<float>(args.beta)};
  dispatch_device_float(args.dy.dtype, "unary_backward", [&]<class T>() {
    dispatch_activation(f, [&](const auto& apply) {
      map<T>({"unary_backward", stream, args.dy}, std::array{args.saved, args.dy}, std::array{args.dx},
             {args.accumulate}, apply);
    });
  });
}

}  // namespace

void register_unary() {
  unary.add(DeviceType::cuda,
            {"cuda", ImplKind::cuda, [](const UnaryArgs& args) { return is_device_float(args.x.dtype); },
             run_unary});
  unary_backward.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const UnaryBackwardArgs& args) { return is_device_float(args.dy.dtype); },
       run_unary_backward});
}

}  // namespace ingot::kernels::cuda
