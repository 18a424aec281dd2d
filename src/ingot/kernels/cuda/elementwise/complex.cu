#include "ingot/kernels/complex.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

// The two planes of a complex tensor are operands of their own to the element-wise kernel.

/// `x` in one axis.
View line(View x) {
  x.shape[0] = x.numel();
  x.strides[0] = 1;
  x.rank = 1;
  return x;
}
/// Its real (0) or imaginary (1) plane.
View plane(const View& x, int which) {
  View half = line(x);
  half.shape[0] /= 2;
  half.data = static_cast<char*>(x.data) + static_cast<std::size_t>(which * half.dim(0)) * byte_size(x.dtype);
  return half;
}

struct Multiply {
  float sign;  // of b's imaginary part

  template <int vec>
  __device__ void operator()(const float (&in)[4][vec], float (&out)[2][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) {
      const float re = in[2][v], im = sign * in[3][v];
      out[0][v] = in[0][v] * re - in[1][v] * im;
      out[1][v] = in[0][v] * im + in[1][v] * re;
    }
  }
};

struct Magnitude {
  template <int vec>
  __device__ void operator()(const float (&in)[2][vec], float (&out)[1][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] = hypotf(in[0][v], in[1][v]);
  }
};

/// Inputs: x (2), |x|, dy.
struct MagnitudeBackward {
  template <int vec>
  __device__ void operator()(const float (&in)[4][vec], float (&out)[2][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) {
      const float factor = in[2][v] == 0.0F ? 0.0F : in[3][v] / in[2][v];
      out[0][v] = factor * in[0][v];
      out[1][v] = factor * in[1][v];
    }
  }
};

// The formula and why it is this one stand with the reference.
struct Tanh {
  template <int vec>
  __device__ void operator()(const float (&in)[2][vec], float (&out)[2][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) {
      const float size = fabsf(in[0][v]), sine = sinf(in[1][v]), cosine = cosf(in[1][v]);
      const float e = expf(-2.0F * size), gap = expm1f(-2.0F * size);
      const float below = gap * gap + 4.0F * e * cosine * cosine;
      out[0][v] = copysignf(-expm1f(-4.0F * size) / below, in[0][v]);
      out[1][v] = 4.0F * e * sine * cosine / below;
    }
  }
};

/// Inputs: tanh(x) (2), dy (2).
struct TanhBackward {
  template <int vec>
  __device__ void operator()(const float (&in)[4][vec], float (&out)[2][vec]) const {
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) {
      const float re = in[0][v], im = in[1][v];
      const float slope = 1.0F - re * re + im * im, turn = 2.0F * re * im;  // conj(1 − y²)
      out[0][v] = in[2][v] * slope - in[3][v] * turn;
      out[1][v] = in[2][v] * turn + in[3][v] * slope;
    }
  }
};

template <std::size_t inputs, std::size_t outputs, class F>
void run(const char* kernel, Stream stream, const std::array<View, inputs>& in,
         const std::array<View, outputs>& out, bool accumulate, const F& f) {
  if (in[0].numel() == 0) return;
  std::array<bool, outputs> adds{};
  adds.fill(accumulate);
  dispatch_device_float(in[0].dtype, kernel, [&]<class T>() {
    map<T>({kernel, stream, in[0]}, in, out, adds, f);
  });
}

void run_multiply(const ComplexMultiplyArgs& args, Stream stream) {
  run<4, 2>("complex_multiply", stream,
            {plane(args.a, 0), plane(args.a, 1), plane(args.b, 0), plane(args.b, 1)},
            {plane(args.y, 0), plane(args.y, 1)}, args.accumulate, Multiply{args.conjugate_b ? -1.0F : 1.0F});
}

void run_abs(const ComplexAbsArgs& args, Stream stream) {
  run<2, 1>("complex_abs", stream, {plane(args.x, 0), plane(args.x, 1)}, {line(args.y)}, false, Magnitude{});
}

void run_abs_backward(const ComplexAbsBackwardArgs& args, Stream stream) {
  run<4, 2>("complex_abs_backward", stream, {plane(args.x, 0), plane(args.x, 1), line(args.y), line(args.dy)},
            {plane(args.dx, 0), plane(args.dx, 1)}, args.accumulate, MagnitudeBackward{});
}

void run_tanh(const ComplexTanhArgs& args, Stream stream) {
  run<2, 2>("complex_tanh", stream, {plane(args.x, 0), plane(args.x, 1)},
            {plane(args.y, 0), plane(args.y, 1)}, false, Tanh{});
}

void run_tanh_backward(const ComplexTanhBackwardArgs& args, Stream stream) {
  run<4, 2>("complex_tanh_backward", stream,
            {plane(args.y, 0), plane(args.y, 1), plane(args.dy, 0), plane(args.dy, 1)},
            {plane(args.dx, 0), plane(args.dx, 1)}, args.accumulate, TanhBackward{});
}

}  // namespace

void register_complex() {
  complex_abs.add(DeviceType::cuda,
                  {"cuda", ImplKind::cuda,
                   [](const ComplexAbsArgs& args) { return is_device_float(args.x.dtype); }, run_abs});
  complex_abs_backward.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda,
       [](const ComplexAbsBackwardArgs& args) { return is_device_float(args.x.dtype); }, run_abs_backward});
  complex_multiply.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const ComplexMultiplyArgs& args) { return is_device_float(args.a.dtype); },
       run_multiply});
  complex_tanh.add(DeviceType::cuda,
                   {"cuda", ImplKind::cuda,
                    [](const ComplexTanhArgs& args) { return is_device_float(args.x.dtype); }, run_tanh});
  complex_tanh_backward.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda,
       [](const ComplexTanhBackwardArgs& args) { return is_device_float(args.y.dtype); }, run_tanh_backward});
}

}  // namespace ingot::kernels::cuda
