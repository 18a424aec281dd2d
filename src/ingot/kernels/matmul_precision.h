#pragma once

#include <cstdint>
#include <string_view>

namespace ingot::kernels {

/// How exactly matmuls and convolutions of f32 tensors are computed.
///
/// `highest`: in f32 throughout. `medium`: where that is faster, both operands are rounded on the way in;
/// sums and results stay f32, and so do weights, gradients and all other operations. On a CPU
/// whose dot products of bf16 are faster than f32 they are rounded to bf16, whose 8 bits put each operand off
/// by up to 2^-8, so a sum of k matmuls of alike, random numbers by about 0.2 % of its usual size. On a CUDA
/// device, matmuls are rounded to TF32 (11 bits). Elsewhere both give the same bits.
enum class MatmulPrecision : std::uint8_t { highest, medium };

/// What launch() uses, on all threads; `highest` unless set.
MatmulPrecision matmul_precision();
void set_matmul_precision(MatmulPrecision precision);

/// "highest" or "medium". InvalidConfig for any other, which names `key`.
MatmulPrecision parse_matmul_precision(std::string_view name, std::string_view key = "matmul_precision");

/// A precision while alive; then the one before.
class MatmulPrecisionScope {
 public:
  explicit MatmulPrecisionScope(MatmulPrecision precision);
  ~MatmulPrecisionScope();
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

 private:
  MatmulPrecision previous_;
};

}  // namespace ingot::kernels
