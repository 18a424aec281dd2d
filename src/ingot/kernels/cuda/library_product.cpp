#include "ingot/kernels/cuda/library_product.h"

#include <algorithm>

#include "ingot/kernels/runs.h"

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

}  // namespace

std::optional<LibraryProduct> library_product(const GemmArgs& args) {
  const DType dtype = args.c.dtype;
  if (args.a.dtype != dtype || args.b.dtype != dtype) return std::nullopt;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
  if (args.c.numel() == 0 || args.a.dim(-1) == 0) return std::nullopt;
  if (args.bias && args.bias.dtype != dtype) return std::nullopt;
  if (args.bias && args.bias.dim(0) != 1 && args.bias.stride(0) != 1) return std::nullopt;

  const Runs<3> batch({batch_axes(args.b), batch_axes(args.a), batch_axes(args.c)});
  if (batch.rank() > 1 || (batch.total() > 1 && batch.stride(0, 2) == 0)) return std::nullopt;

  Matrix a = transpose_of(args.b), b = transpose_of(args.a);
  Matrix c = stored(args.c.data, args.c.dim(-1), args.c.dim(-2), args.c.stride(-1), args.c.stride(-2));
  if (!a || !b || !c) return std::nullopt;
  a->dtype = b->dtype = c->dtype = dtype;
  a->batch_stride = batch.stride(0, 0);
  b->batch_stride = batch.stride(0, 1);
  c->batch_stride = batch.stride(0, 2);
  return LibraryProduct{.a = *a,
                        .b = *b,
                        .c = *c,
                        .bias = args.bias.data,
                        .gelu = false,
                        .before = nullptr,
                        .batch = batch.total(),
                        .dtype = dtype,
                        .a_scale = nullptr,
                        .b_scale = nullptr,
                        .alpha = args.alpha,
                        .beta = args.beta};
}

std::optional<LibraryProduct> library_product(const GemmGeluArgs& args) {
  auto product = library_product(GemmArgs{.a = args.a, .b = args.b, .c = args.c, .bias = args.bias});
  if (!product) return product;
  product->gelu = true;
  product->before = args.before.data;
  const bool alike = args.before.strides == args.c.strides && args.before.dtype == args.c.dtype &&
                     product->c.leading % 8 == 0;
  return args.before && !alike ? std::nullopt : product;
}

std::optional<LibraryProduct> library_product(const Fp8MatmulArgs& args) {
  const std::int64_t m = args.a.dim(0), n = args.b.dim(0), k = args.a.dim(1);
  if (has_block_scales(args) || m == 0 || n == 0 || k == 0 || k % 16 != 0) return std::nullopt;
  if (args.bias && args.c.dtype == DType::f32) return std::nullopt;
  // Row-major b is its own transpose in columns, whose transpose the units for 8 bits take.
  LibraryProduct product;
  product.a = {
      .data = args.b.data, .rows = k, .columns = n, .leading = k, .transposed = true, .dtype = args.b.dtype};
  product.b = {.data = args.a.data, .rows = k, .columns = m, .leading = k, .dtype = args.a.dtype};
  product.c = {.data = args.c.data, .rows = n, .columns = m, .leading = n, .dtype = args.c.dtype};
  product.bias = args.bias.data;
  product.dtype = args.c.dtype;
  product.a_scale = args.b_scale.as<float>();
  product.b_scale = args.a_scale.as<float>();
  product.beta = args.accumulate ? 1.0F : 0.0F;
  return product;
}

}  // namespace ingot::kernels::cuda
