#include "ingot/onnx/weight_matrix.h"

#include "ingot/ops/cast.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"
#include "ingot/quant/linear.h"

namespace ingot::onnx {

static_assert(WeightMatrix::kTileRows == kernels::kPanelRows);

WeightMatrix::WeightMatrix(Tensor dense, Tensor tiles) : dense_(std::move(dense)), tiles_(std::move(tiles)) {}

WeightMatrix WeightMatrix::rows(std::int64_t first, std::int64_t count) const {
  const Tensor dense = narrow(dense_, 0, first, count);
  if (!tiles_.defined()) return WeightMatrix(dense);
  return WeightMatrix(dense, narrow(tiles_, 0, first / kTileRows, (count + kTileRows - 1) / kTileRows));
}

Tensor WeightMatrix::apply(const Tensor& x, const Tensor& bias) const {
  const bool tiled = tiles_.defined() && x.dtype() == DType::f32 && x.rank() >= 1 &&
                     x.dim(-1) == dense_.dim(1) && x.numel() > 0 &&
                     quant::prefers_f32_tiles(x.numel() / x.dim(-1));
  if (!tiled) return linear(x, dense_, bias);
  const quant::PackedMatrix packed{.format = kernels::PackedFormat::f32,
                                   .rows = dense_.dim(0),
                                   .cols = dense_.dim(1),
                                   .order = {},
                                   .data = tiles_};
  return quant::linear(contiguous(x), packed, bias.defined() ? contiguous(bias) : bias);
}

bool WeightMatrix::prefers_tiles(const Tensor& dense, std::int64_t rows) {
  constexpr std::int64_t kLeast = 1 << 14;  // elements: 64 KiB, below which rearranging costs little
  return quant::prefers_f32_tiles(rows) && dense.numel() >= kLeast;
}

Tensor WeightMatrix::prepacked_tiles(const Tensor& dense) { return quant::pack_f32(dense)->data; }

}  // namespace ingot::onnx
