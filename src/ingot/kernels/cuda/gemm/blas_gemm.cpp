#include "ingot/kernels/cuda/gemm/blas_gemm.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "ingot/kernels/copy.h"
#include "ingot/kernels/strided_iterator.h"

namespace ingot::kernels::cuda {
namespace {

using Matrix = std::optional<ColumnMatrix>;

Matrix stored(void* data, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
              std::int64_t column_stride) {
  if (row_stride != 1 && rows != 1) return std::nullopt;
  const std::int64_t leading = columns == 1 ? rows : column_stride;
  if (leading < rows) return std::nullopt;  // broadcast, or columns that overlap
  return ColumnMatrix{.data = data, .rows = rows, .columns = columns, .leading = leading};
}

/// The transpose of the last two axes of `x`, as it lies or as the transpose of how it lies.
Matrix transpose_of(const View& x) {
  if (Matrix found = stored(x.data, x.dim(-1), x.dim(-2), x.stride(-1), x.stride(-2))) return found;
  Matrix found = stored(x.data, x.dim(-2), x.dim(-1), x.stride(-2), x.stride(-1));
  if (found) found->transposed = true;
  return found;
}

View batch_axes(View x) {
  x.rank -= 2;
  return x;
}

// cuBLASLt's heuristic is told how the matrices are aligned, and not how a bias is: it may choose an
// algorithm that takes 16 bytes of it at a time, which faults on any other address (PyTorch's pull request
// 194497).
bool aligned_for_epilogue(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

// Whether a library reads and writes `before`, which has to lie as the result does, in steps of 8 elements.
bool keeps_before(const BlasGemm& matmul, const View& before, const View& c) {
  return aligned_for_epilogue(before.data) && before.strides == c.strides && before.dtype == c.dtype &&
         matmul.c.leading % 8 == 0 && matmul.c.batch_stride % 8 == 0 && matmul.c.outer_stride % 8 == 0;
}

}  // namespace

BlasGemm BlasGemm::one(std::int64_t i) const {
  BlasGemm matmul = *this;
  matmul.outer = 1;
  const auto move = [i](void*& data, const ColumnMatrix& matrix) {
    if (data == nullptr) return;
    data = static_cast<std::byte*>(data) +
           i * matrix.outer_stride * static_cast<std::int64_t>(byte_size(matrix.dtype));
  };
  move(matmul.before, c);  // lies as c does
  for (ColumnMatrix* matrix : {&matmul.a, &matmul.b, &matmul.c}) move(matrix->data, *matrix);
  return matmul;
}

std::optional<BlasGemm> blas_gemm(const GemmArgs& args) {
  const DType dtype = args.c.dtype;
  if (args.a.dtype != dtype || args.b.dtype != dtype) return std::nullopt;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
  if (args.c.numel() == 0 || args.a.dim(-1) == 0) return std::nullopt;
  if (args.bias && args.bias.dtype != dtype) return std::nullopt;
  if (args.bias && args.bias.dim(0) != 1 && args.bias.stride(0) != 1) return std::nullopt;
  if (!aligned_for_epilogue(args.bias.data)) return std::nullopt;

  // Heads that lie beside each other in every row of a batch are two axes, which do not become one.
  const StridedIterator<3> batch({batch_axes(args.b), batch_axes(args.a), batch_axes(args.c)});
  const int axes = batch.rank(), inner = axes - 1;
  if (axes > 2) return std::nullopt;
  for (int axis = 0; axis < axes; ++axis)
    if (batch.size(axis) > 1 && batch.stride(axis, 2) == 0) return std::nullopt;

  Matrix a = transpose_of(args.b), b = transpose_of(args.a);
  Matrix c = stored(args.c.data, args.c.dim(-1), args.c.dim(-2), args.c.stride(-1), args.c.stride(-2));
  if (!a || !b || !c) return std::nullopt;
  a->dtype = b->dtype = c->dtype = dtype;
  const std::array matrices{&*a, &*b, &*c};
  for (std::size_t i = 0; i < 3; ++i) {
    matrices[i]->batch_stride = batch.stride(inner, i);
    if (axes == 2) matrices[i]->outer_stride = batch.stride(0, i);
  }
  return BlasGemm{.a = *a,
                  .b = *b,
                  .c = *c,
                  .bias = args.bias.data,
                  .before = nullptr,
                  .batch = batch.size(inner),
                  .outer = axes == 2 ? batch.size(0) : 1,
                  .dtype = dtype,
                  .a_scale = nullptr,
                  .b_scale = nullptr,
                  .alpha = args.alpha,
                  .beta = args.beta};
}

std::optional<BlasGemm> blas_gemm(const GemmGeluArgs& args) {
  auto matmul = blas_gemm(GemmArgs{.a = args.a, .b = args.b, .c = args.c, .bias = args.bias});
  if (!matmul || (args.before && !keeps_before(*matmul, args.before, args.c))) return std::nullopt;
  matmul->gelu = BlasGemm::Gelu::value;
  matmul->before = args.before.data;
  return matmul;
}

std::optional<BlasGemm> blas_gemm(const GemmGeluBackwardArgs& args) {
  auto matmul = blas_gemm(GemmArgs{.a = args.a, .b = args.b, .c = args.c});
  if (!matmul || !keeps_before(*matmul, args.before, args.c)) return std::nullopt;
  matmul->gelu = BlasGemm::Gelu::gradient;
  matmul->before = args.before.data;
  return matmul;
}

std::optional<BlasGemm> blas_gemm(const LinearParametersBackwardArgs& args) {
  auto matmul = blas_gemm(GemmArgs{.a = transposed(args.dy),
                                   .b = args.x,
                                   .c = args.dweight,
                                   .beta = args.accumulate_weight ? 1.0F : 0.0F});
  if (!matmul || args.dbias.dtype != args.dweight.dtype) return std::nullopt;
  const bool as_allocated = reinterpret_cast<std::uintptr_t>(args.dbias.data) % 256 == 0;
  if (args.accumulate_bias ? !as_allocated : !aligned_for_epilogue(args.dbias.data)) return std::nullopt;
  matmul->b_sums = args.dbias.data;
  return matmul;
}

std::optional<BlasGemm> blas_gemm(const Fp8MatmulArgs& args) {
  const std::int64_t m = args.a.dim(0), n = args.b.dim(0), k = args.a.dim(1);
  if (m == 0 || n == 0 || k == 0 || k % 16 != 0) return std::nullopt;
  if (has_block_scales(args) && (m % 4 != 0 || n % 4 != 0)) return std::nullopt;
  if (args.bias && (args.c.dtype == DType::f32 || !aligned_for_epilogue(args.bias.data))) return std::nullopt;
  // Row-major b is its own transpose in columns, whose transpose the units for 8 bits take.
  BlasGemm matmul;
  matmul.a = {
      .data = args.b.data, .rows = k, .columns = n, .leading = k, .transposed = true, .dtype = args.b.dtype};
  matmul.b = {.data = args.a.data, .rows = k, .columns = m, .leading = k, .dtype = args.a.dtype};
  matmul.c = {.data = args.c.data, .rows = n, .columns = m, .leading = n, .dtype = args.c.dtype};
  matmul.bias = args.bias.data;
  matmul.dtype = args.c.dtype;
  matmul.a_scale = args.b_scale.as<float>();
  matmul.b_scale = args.a_scale.as<float>();
  matmul.block_scales = has_block_scales(args);
  matmul.beta = args.accumulate ? 1.0F : 0.0F;
  return matmul;
}

BlasScales::BlasScales(const Fp8MatmulArgs& args, Stream stream) {
  const std::int64_t m = args.a_scale.dim(0), parts = args.a_scale.dim(1), blocks = args.b_scale.dim(0);
  const StreamGuard guard(stream);
  b = Tensor::empty({parts, m}, DType::f32, stream.device);
  launch(copy, stream, {.x = transposed(args.a_scale), .y = b.view()});

  a = Tensor::zeros({blocks, (parts + 3) / 4 * 4}, DType::f32, stream.device);
  View filled = a.view();
  filled.shape[1] = parts;
  launch(copy, stream, {.x = args.b_scale, .y = filled});
}

}  // namespace ingot::kernels::cuda
