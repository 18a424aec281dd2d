#pragma once

#include <span>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot::quant {

/// What a matmul makes of its input first.
enum class Rounding : std::uint8_t {
  none,    ///< nothing that can be done ahead of it: formats of f32 activations, weights in an order of
           ///< columns, dense weights
  blocks,  ///< int8 in blocks of 32 columns
  spans,   ///< int16 codes of 13 bits in spans of 256 columns: kManyRows rows and more, without VNNI, of
           ///< weights of more than 4 bits
  rows,    ///< int8 with one scale for a row: w8a8
};
/// Of an input of so many rows, by matmuls with a packed weight; null stands for a dense one. Always none on
/// a GPU, where the first matmul rounds its whole input in one launch.
Rounding rounding(const PackedMatrix* weight, std::int64_t rows);

/// Rows from which on, without AVX-512 VNNI, weights of more than 4 bits with scales for groups of columns
/// are multiplied as int16 codes with one scale for a span of 256, in the weights and in the input: nothing
/// but dot products is left in between (quantized_matmul). Rounding the weight so once more takes as long as
/// multiplying some 16 rows.
inline constexpr std::int64_t kManyRows = 64;

/// The largest code, if a matmul of so many rows, beside int8 blocks of x, rounds the weight itself once
/// more, to int8 with one scale for 256 columns; 0 if it keeps the weight. It rounds kManyRows rows and codes
/// of up to 4 bits, with AVX2 and more: unpacking those and applying their scales takes longer than the dot
/// products, and what this rounding loses is a small part of what the format lost. Without VNNI the codes are
/// smaller, and those of formats of up to 3.5 bits smaller still: words of 16 bits hold sums of their
/// products. AMX keeps the weight; one with an order of columns is kept, too.
int rounded_weight_code(const PackedMatrix& weight, std::int64_t rows);

/// Whether the CPU multiplies so many rows with a constant f32 weight faster from tiles (pack_f32) than as it
/// is: a few rows with AVX2 and more, many with AVX2 alone, where BLAS gains less than rearranging costs it.
bool prefers_f32_tiles(std::int64_t rows);

/// The input of one or more matmuls with packed weights: x f32 [..., in], rounded to int8 on the first
/// matmul that needs it and then shared (Q, K and V; gate and up). With dense weights alone, any dtype. Not
/// for use by several threads at once.
class Activations {
 public:
  explicit Activations(const Tensor& x) : shape_(x.shape()), x_(x) {}
  /// An input of this shape [..., in] that is made some rows at a time and rounded (not as Rounding::none)
  /// while they are in cache: there is no x() then. `make(begin, end)` gives rows [begin, end) as contiguous
  /// f32 [end − begin, in]; it is called by several threads. Where its rows do not depend on which come
  /// together, neither does the result.
  Activations(const Shape& shape, Rounding rounding, FunctionRef<Tensor(std::int64_t, std::int64_t)> make);

  const Shape& shape() const { return shape_; }
  /// Throws Error where only the rounded rows are there.
  const Tensor& x() const;
  /// x(), checked to be contiguous f32, as matmuls with packed weights take it.
  const Tensor& floats() const;
  /// u8 [rows of x, blocks · 64]: ActivationBlocks of 32 columns, at least `blocks` of them, of the columns
  /// in `order` (i64 [in], or none: as they are).
  const Tensor& rounded(std::int64_t blocks, const Tensor& order = {}) const;
  /// u8 [rows of x, 64 + codes]: an ActivationRow and its codes, a multiple of 64.
  const Tensor& rounded_rows() const;
  /// u8 [rows of x, spans, 576]: ActivationSpans of 256 columns.
  const Tensor& rounded_spans() const;

 private:
  Shape shape_;
  Tensor x_;
  mutable Tensor rounded_, order_, rounded_rows_, rounded_spans_;
};

/// A layer's weight [out, in] and bias f32 [out], which may be undefined.
struct WeightAndBias {
  const PackedMatrix& weight;
  const Tensor& bias;
};

/// x · weightᵀ + bias, f32 [..., out], all on one device; no gradient. Formats of whole-numbered codes
/// multiply x as rounded(), w8a8 as rounded_rows(); NF4 and FP8 take x as it is. One row's result has the
/// same bits whatever the number of rows, threads, and the instruction set, but for Rounding::spans and
/// rounded_weight_code(), which kManyRows rows have and fewer do not. A GPU gives few rows the same bits (but
/// for spans), and multiplies 32 and more in bf16. Throws ShapeMismatch.
Tensor linear(const Activations& x, const PackedMatrix& weight, const Tensor& bias = {});
Tensor linear(const Tensor& x, const PackedMatrix& weight, const Tensor& bias = {});

/// The same for several layers with one input. Those that round it alike share one round of the threads.
std::vector<Tensor> linear(const Activations& x, std::span<const WeightAndBias> layers);

}  // namespace ingot::quant
