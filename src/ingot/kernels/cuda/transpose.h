#pragma once

#include <optional>

#include "ingot/kernels/cuda/map.h"

// Copies whose sides have their neighbours along different axes: through tiles in shared memory, so that both
// sides are read and written along their own.
namespace ingot::kernels::cuda {

/// A matrix, or many: x's neighbours are its columns, y's its rows.
template <class From, class To>
struct TransposeArgs {
  const From* x;
  To* y;
  std::int64_t rows, columns;
  std::int64_t x_row, y_column;  ///< how far a row of x and a column of y are from the next
  unsigned row_tiles, column_tiles;
  bool accumulate;
  Walk<2> matrices;  ///< what the other axes are
};

/// A tile, `wide` where both sides take accesses of 16 bytes. Each place of it is written along a row and
/// read along a column: the packs of a row are swizzled, or single elements padded, so that either meets all
/// banks.
template <class From, class To, bool wide>
struct TransposeTile {
  static constexpr int kSide = sizeof(From) < 8 ? 64 : 32;
  static constexpr int kRead = wide ? kPack<From> : 1, kWrite = wide ? kPack<To> : 1;  ///< per access
  static constexpr int kThreads = 256;
  static constexpr int kReads = kSide * kSide / kRead / kThreads, kWrites = kSide * kSide / kWrite / kThreads;
  static constexpr int kPad = wide ? 0 : sizeof(From) < 4 ? 4 / static_cast<int>(sizeof(From)) : 1;
  static constexpr int kElements = kSide * (kSide + kPad);

  __device__ static int place(int row, int column) {
    if constexpr (!wide) return row * (kSide + kPad) + column;
    constexpr int kPacks = kSide / kRead;
    const int pack = (column / kRead) ^ (row / kWrite % kPacks);
    return row * kSide + pack * kRead + column % kRead;
  }
};

// A block for a tile: all of its reads are under way before the first of them is needed.
template <class From, class To, bool wide>
__global__ void transpose_kernel(const __grid_constant__ TransposeArgs<From, To> args) {
  using Tile = TransposeTile<From, To, wide>;
  constexpr int kSide = Tile::kSide, kRead = Tile::kRead, kWrite = Tile::kWrite;
  using ReadPack = Pack<From, kRead>;
  INGOT_SHARED_ARRAY(ReadPack, packs, Tile::kElements / kRead);
  From* tile = packs[0].values;
  const unsigned tiles = args.row_tiles * args.column_tiles;
  const unsigned matrix = blockIdx.x / tiles, mine = blockIdx.x - matrix * tiles;
  const unsigned tile_row = mine / args.column_tiles;
  const std::int64_t row0 = std::int64_t{tile_row} * kSide;
  const std::int64_t column0 = std::int64_t{mine - tile_row * args.column_tiles} * kSide;
  const auto rows = static_cast<int>(args.rows - row0 < kSide ? args.rows - row0 : kSide);
  const auto columns = static_cast<int>(args.columns - column0 < kSide ? args.columns - column0 : kSide);
  std::int64_t at[2];
  args.matrices.offsets(matrix, at);
  const From* x = args.x + at[0] + row0 * args.x_row + column0;
  To* y = args.y + at[1] + column0 * args.y_column + row0;

  ReadPack read[Tile::kReads];
  INGOT_UNROLL
  for (int k = 0; k < Tile::kReads; ++k) {
    const int i = (k * Tile::kThreads + static_cast<int>(threadIdx.x)) * kRead;
    const int row = i / kSide, column = i % kSide;
    if (row < rows && column < columns) read[k] = load_pack<kRead>(x + row * args.x_row + column);
  }
  INGOT_UNROLL
  for (int k = 0; k < Tile::kReads; ++k) {
    const int i = (k * Tile::kThreads + static_cast<int>(threadIdx.x)) * kRead;
    store_pack(tile + Tile::place(i / kSide, i % kSide), read[k]);
  }
  __syncthreads();
  INGOT_UNROLL
  for (int k = 0; k < Tile::kWrites; ++k) {
    const int i = (k * Tile::kThreads + static_cast<int>(threadIdx.x)) * kWrite;
    const int column = i / kSide, row = i % kSide;
    if (row >= rows || column >= columns) continue;
    To* to = y + column * args.y_column + row;
    Pack<To, kWrite> old = {}, pack;
    if (args.accumulate) old = load_pack<kWrite>(to);
    INGOT_UNROLL
    for (int v = 0; v < kWrite; ++v) {
      const auto value = to_value(tile[Tile::place(row + v, column)]);
      pack.values[v] = from_value<To>(args.accumulate ? sum_of<Value<To>>(to_value(old.values[v]), value)
                                                      : Value<To>(value));
    }
    store_pack(to, pack);
  }
}

/// The axes along which x and y have their neighbours.
struct TransposedAxes {
  int x, y;
};
/// None where that is one axis, or where tiles would be nearly empty.
inline std::optional<TransposedAxes> transposed_axes(const Runs<2>& runs) {
  constexpr std::int64_t kLeast = 16;
  TransposedAxes axes{-1, -1};
  for (int axis = 0; axis < runs.rank(); ++axis) {
    if (runs.stride(axis, 0) == 1) axes.x = axis;
    if (runs.stride(axis, 1) == 1) axes.y = axis;
  }
  if (axes.x < 0 || axes.y < 0 || axes.x == axes.y) return {};
  if (runs.size(axes.x) < kLeast || runs.size(axes.y) < kLeast) return {};
  if (runs.stride(axes.y, 0) == 0) return {};  // one element for a whole row of y
  return axes;
}

/// y = x, or y += x, where their neighbours lie along different axes; false where they do not.
template <class From, class To>
bool transpose(const LaunchSite& site, const View& x, const View& y, bool accumulate) {
  const Runs<2> runs({x, y});
  const auto axes = transposed_axes(runs);
  if (!axes || runs.total() == 0) return false;
  TransposeArgs<From, To> args{.x = x.as<From>(),
                               .y = y.as<To>(),
                               .rows = runs.size(axes->y),
                               .columns = runs.size(axes->x),
                               .x_row = runs.stride(axes->y, 0),
                               .y_column = runs.stride(axes->x, 1),
                               .row_tiles = 0,
                               .column_tiles = 0,
                               .accumulate = accumulate,
                               .matrices = {}};
  bool wide = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
              reinterpret_cast<std::uintptr_t>(y.data) % 16 == 0 && args.columns % kPack<From> == 0 &&
              args.rows % kPack<To> == 0;
  Walk<2>& matrices = args.matrices;
  matrices.total = 1;
  matrices.rank = 0;
  for (int axis = 0; axis < runs.rank(); ++axis) {
    if (axis != axes->x) wide = wide && runs.stride(axis, 0) % kPack<From> == 0;
    if (axis != axes->y) wide = wide && runs.stride(axis, 1) % kPack<To> == 0;
    if (axis == axes->x || axis == axes->y) continue;
    matrices.total *= matrices.sizes[matrices.rank] = runs.size(axis);
    for (int v = 0; v < 2; ++v)
      matrices.strides[v][matrices.rank] = runs.stride(axis, static_cast<std::size_t>(v));
    ++matrices.rank;
  }

  const auto run = [&]<bool is_wide>() {
    using Tile = TransposeTile<From, To, is_wide>;
    const std::int64_t row_tiles = (args.rows + Tile::kSide - 1) / Tile::kSide;
    const std::int64_t column_tiles = (args.columns + Tile::kSide - 1) / Tile::kSide;
    const std::int64_t blocks = row_tiles * column_tiles * matrices.total;
    if (blocks > 0x7fffffff) return false;
    args.row_tiles = static_cast<unsigned>(row_tiles);
    args.column_tiles = static_cast<unsigned>(column_tiles);
    launch(site, transpose_kernel<From, To, is_wide>, Size3{static_cast<unsigned>(blocks)},
           Size3{Tile::kThreads}, 0, args);
    return true;
  };
  return wide ? run.template operator()<true>() : run.template operator()<false>();
}

}  // namespace ingot::kernels::cuda
