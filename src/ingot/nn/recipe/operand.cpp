#include "ingot/nn/recipe/operand.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "ingot/autograd/grad_mode.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/fp8_matmul.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/nvfp4.h"
#include "ingot/kernels/packed.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/quant/linear.h"
#include "ingot/quant/ternary.h"

namespace ingot {
namespace {

bool is_fp8(const Operand& x) { return x.codes.dtype() == DType::f8e4m3 || x.codes.dtype() == DType::f8e5m2; }

// The codes with the depth adjacent.
Tensor along_depth(const Operand& x) {
  return x.transposed ? contiguous(transpose(x.codes, 0, 1)) : contiguous(x.codes);
}

bool is_library(const kernels::Implementation<kernels::Fp8MatmulArgs>& implementation) {
  return implementation.kind == kernels::ImplKind::library;
}

// Whether the device's library multiplies 8-bit floats as they are, of such operands.
bool takes_fp8(const kernels::Fp8MatmulArgs& args) {
  return std::ranges::any_of(kernels::fp8_matmul.implementations(args.c.device.type),
                             [&args](const auto& implementation) {
                               return is_library(implementation) &&
                                      (implementation.accepts == nullptr || implementation.accepts(args));
                             });
}

// Whether there is such a matmul for these operands; it is done then.
bool multiply_fp8(const Operand& a, const Operand& b, const View& c, bool accumulate, const View& bias) {
  const bool both_e5m2 = a.codes.dtype() == DType::f8e5m2 && b.codes.dtype() == DType::f8e5m2;
  if (!is_fp8(a) || !is_fp8(b) || both_e5m2 || !has_fp8_matmul(c.device)) return false;
  const Tensor left = along_depth(a), right = along_depth(b);
  const kernels::Fp8MatmulArgs args{.a = left.view(),
                                    .b = right.view(),
                                    .c = c,
                                    .a_scale = a.scale.view(),
                                    .b_scale = b.scale.view(),
                                    .bias = bias,
                                    .accumulate = accumulate};
  if (!takes_fp8(args)) return false;
  kernels::launch(kernels::fp8_matmul, current_stream(c.device), args);
  return true;
}

Tensor scale_of_both(const Operand& a, const Operand& b) {
  if (!a.scale.defined()) return b.scale;
  return b.scale.defined() ? a.scale * b.scale : a.scale;
}

double largest_number(DType format) { return format == DType::f8e4m3 ? 448.0 : 57344.0; }

// A part of each row of bytes: `count` numbers of a dtype from byte `offset` of its blocks on.
Tensor part_of_rows(const Tensor& bytes, const Shape& shape, std::int64_t block, std::int64_t offset,
                    DType dtype) {
  const auto size = static_cast<std::int64_t>(byte_size(dtype));
  View view = contiguous_view(bytes.view().as<std::byte>() + offset, shape, dtype, bytes.device());
  view.strides[0] = bytes.dim(1) / size;
  if (shape.rank() == 3) view.strides[1] = block / size;
  return {bytes.storage(), view};
}

}  // namespace

Tensor Operand::numbers() const {
  const NoGrad no_grad;
  const Tensor wide = to(codes, DType::f32);
  return transposed ? ingot::transpose(wide, 0, 1) : wide;
}

Tensor values(const Operand& x) {
  const NoGrad no_grad;
  return x.scale.defined() ? x.numbers() * x.scale : x.numbers();
}

void multiply(const Operand& a, const Operand& b, const View& c, bool accumulate, const View& bias) {
  const NoGrad no_grad;
  if (multiply_fp8(a, b, c, accumulate, bias)) return;
  const Stream stream = current_stream(c.device);
  const Tensor left = a.numbers(), right = b.numbers(), scale = scale_of_both(a, b);
  if (!scale.defined() && c.dtype == DType::f32) {
    return kernels::launch(kernels::gemm, stream,
                           {.a = left.view(),
                            .b = transposed(right.view()),
                            .c = c,
                            .bias = bias,
                            .beta = accumulate ? 1.0F : 0.0F});
  }
  Tensor sums = Tensor::empty({c.dim(0), c.dim(1)}, DType::f32, c.device);
  kernels::launch(kernels::gemm, stream, {.a = left.view(), .b = transposed(right.view()), .c = sums.view()});
  if (scale.defined()) sums = sums * scale;
  if (bias) {
    const Tensor wide = Tensor::empty({bias.dim(0)}, DType::f32, c.device);
    kernels::launch(kernels::copy, stream, {.x = bias, .y = wide.view()});
    sums = sums + wide;
  }
  kernels::launch(kernels::copy, stream, {.x = sums.view(), .y = c, .accumulate = accumulate});
}

bool has_fp8_matmul(Device device) {
  return std::ranges::any_of(kernels::fp8_matmul.implementations(device.type), is_library);
}

Tensor largest_magnitude(const Tensor& x) {
  const NoGrad no_grad;
  const Tensor wide = to(x.detach(), DType::f32);
  return reshape(maximum(max(wide), -min(wide)), {1});
}

Operand unrounded(const Tensor& x) { return {.codes = x.detach(), .scale = {}}; }

Operand round_to_bf16(const Tensor& x) {
  const NoGrad no_grad;
  return {.codes = to(x.detach(), DType::bf16), .scale = {}};
}

Operand round_to_fp8(const Tensor& x, const Tensor& scale, DType format) {
  const NoGrad no_grad;
  return {.codes = to(to(x.detach(), DType::f32) * scale, format), .scale = reciprocal(scale)};
}

Tensor fp8_scale(const Tensor& amax, DType format, const Tensor& otherwise) {
  const NoGrad no_grad;
  constexpr double kLargest = std::numeric_limits<float>::max();
  const Tensor zero = amax * 0.0;  // no number where amax is not finite, so that no comparison holds
  const Tensor scale = minimum((zero + largest_number(format)) / amax, zero + kLargest);
  return where(greater(amax, zero), scale, otherwise);
}

Operand round_to_ternary(const Tensor& x) {
  const NoGrad no_grad;
  const Tensor wide = to(x.detach(), DType::f32), scale = quant::ternary_scale(wide);
  // Of a matrix of zeros 0 / 0 is not a number, but its codes are.
  const Tensor codes = clamp(round(wide / scale), -1, 1);
  const Tensor zero = Tensor::zeros({1}, DType::f32, x.device());
  return {.codes = where(greater(scale, zero), codes, zero), .scale = scale};
}

namespace {

// The scale of the tensor, as the kernel has it.
Tensor nvfp4_scale(const Tensor& amax) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  constexpr double kBoth = kernels::kE2m1Largest * kernels::kE4m3Largest;
  const Tensor zero = Tensor::zeros({1}, DType::f32, amax.device()), one = zero + 1.0;
  const Tensor scale = minimum((one * kBoth) / amax, one * kLargest);
  return where(equal(amax, zero), one, where(equal(scale, zero), one, scale));
}

}  // namespace

Operand round_to_nvfp4(const Tensor& x, const Nvfp4Rounding& how) {
  const NoGrad no_grad;
  const Tensor wide = contiguous(to(x.detach(), DType::f32)), amax = largest_magnitude(wide);
  const Tensor numbers = Tensor::empty(wide.shape(), DType::f32, wide.device());
  kernels::launch(kernels::round_nvfp4, current_stream(wide.device()),
                  {.x = wide.view(),
                   .amax = amax.view(),
                   .y = numbers.view(),
                   .square = how.square,
                   .stochastic = how.stochastic,
                   .key = how.key});
  return {.codes = numbers, .scale = reciprocal(nvfp4_scale(amax))};
}

Tensor hadamard_by_rows(const Tensor& x) {
  const NoGrad no_grad;
  constexpr std::int64_t kBlock = kernels::kNvfp4Block;
  const Tensor wide = to(x.detach(), DType::f32);
  const Tensor y =
      Tensor::empty({x.dim(1), (x.dim(0) + kBlock - 1) / kBlock * kBlock}, DType::f32, x.device());
  kernels::launch(kernels::hadamard, current_stream(x.device()),
                  {.x = transposed(wide.view()), .y = y.view()});
  return y;
}

Tensor round_to_int8(const Tensor& x, std::int64_t block) {
  const NoGrad no_grad;
  const quant::Activations rounded(contiguous(to(x.detach(), DType::f32)));
  return block == 0 ? rounded.rounded_rows() : rounded.rounded((x.dim(-1) + 31) / 32);
}

Operand int8_operand(const Tensor& bytes, std::int64_t depth, std::int64_t block) {
  const NoGrad no_grad;
  const std::int64_t rows = bytes.dim(0);
  if (block == 0) {
    constexpr auto kRow = static_cast<std::int64_t>(sizeof(kernels::ActivationRow));
    return {.codes = part_of_rows(bytes, {rows, depth}, 0, kRow, DType::i8),
            .scale = part_of_rows(bytes, {rows, 1}, 0, offsetof(kernels::ActivationRow, scale), DType::f32)};
  }
  using Block = kernels::ActivationBlock;
  constexpr auto kBlock = static_cast<std::int64_t>(sizeof(Block));
  const std::int64_t blocks = bytes.dim(1) / kBlock;
  const Tensor codes = part_of_rows(bytes, {rows, blocks, block}, kBlock, offsetof(Block, codes), DType::i8);
  const Tensor scale = part_of_rows(bytes, {rows, blocks, 1}, kBlock, offsetof(Block, scale), DType::f32);
  const Tensor whole = reshape(to(codes, DType::f32) * scale, {rows, blocks * block});
  return {.codes = contiguous(narrow(whole, 1, 0, depth)), .scale = {}};
}

}  // namespace ingot
