#pragma once

#include <cstdint>
#include <optional>

#include "ingot/core/tensor.h"
#include "ingot/kernels/fp8_matmul.h"
#include "ingot/kernels/gemm.h"

namespace ingot::kernels::cuda {

/// A matrix as BLAS libraries have it: each column is contiguous, and columns are `leading` elements apart.
struct ColumnMatrix {
  void* data = nullptr;
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::int64_t batch_stride = 0, outer_stride = 0;
  bool transposed = false;  ///< the matmul takes its transpose
  DType dtype = DType::f32;
};

/// c = alpha · op(a) · op(b) + beta · c, plus bias to every column of c, for `batch` matrices; and all that
/// `outer` times.
struct BlasGemm {
  ColumnMatrix a, b, c;
  const void* bias = nullptr;  ///< [c.rows], or null
  enum class Gelu : std::uint8_t { none, value, gradient };
  Gelu gelu = Gelu::none;  ///< c becomes gelu_tanh of that, or that times gelu_tanh' of `before`
  void* before = nullptr;  ///< as c lies: gets the argument of gelu, or is it; or null
  void* b_sums = nullptr;  ///< gets the sums of op(b)'s columns over the depth, [c.columns]; or null
  std::int64_t batch = 1, outer = 1;
  DType dtype = DType::f32;                            ///< of c and bias; sums are f32
  const float *a_scale = nullptr, *b_scale = nullptr;  ///< of the device, one number each; null: 1
  bool block_scales = false;  ///< they are by blocks instead, and lie as BlasScales says
  float alpha = 1, beta = 0;

  /// Number `i` of the `outer` ones, as a matmul of its own.
  BlasGemm one(std::int64_t i) const;
};

/// The matmul in a library's words, which is that of the transposes: what is row-major here is column-major
/// there. Nothing where those cannot say it: strides other than 1 both ways, mixed dtypes, more than two
/// batch strides, sums over a batch, nothing to multiply; nor, here and below, where 16 does not divide the
/// address of a bias, of its gradient or of `before`.
std::optional<BlasGemm> blas_gemm(const GemmArgs& args);
/// The same with gelu behind it. Not where `before` lies otherwise than c, or its columns and matrices are no
/// multiple of 8 elements apart, which the libraries ask of it.
std::optional<BlasGemm> blas_gemm(const GemmGeluArgs& args);
std::optional<BlasGemm> blas_gemm(const GemmGeluBackwardArgs& args);
/// The gradient of the weight, with that of the bias as `b_sums`. Libraries cannot add these to what is
/// there: with `accumulate_bias` they have to go elsewhere first, where 256 divides the address; so it must
/// dbias's.
std::optional<BlasGemm> blas_gemm(const LinearParametersBackwardArgs& args);
/// Not where the depth is not a multiple of 16, a bias is f32, or, with scales by blocks, the result has no
/// multiple of 4 rows and columns. Scales by blocks are still those of `args`, where BlasScales have to
/// come.
std::optional<BlasGemm> blas_gemm(const Fp8MatmulArgs& args);

/// Scales by blocks as cuBLASLt reads them ("128-element 1D and 128x128 2D block scaling" of its guide).
struct BlasScales {
  Tensor a;  ///< of args.b: [ceil(n / 128), ceil(k / 128), rounded up to 4, with zeros]
  Tensor b;  ///< of args.a: [ceil(k / 128), m]

  BlasScales(const Fp8MatmulArgs& args, Stream stream);
};

}  // namespace ingot::kernels::cuda
