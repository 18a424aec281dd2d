#pragma once

#include <optional>
#include <type_traits>

#include "ingot/kernels/cuda/elementwise/map.h"

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

/// Which tile a block has: where it begins, and how much of the matrix there is from there on. Blocks that
/// follow each other go down a strip of few tiles: what runs at one time then has longer runs of either side.
struct TileOf {
  static constexpr unsigned kStrip = 2;
  std::int64_t x, y;
  int rows, columns;
  bool first;  ///< of the rows of y that it has a part of

  template <class From, class To>
  __device__ __forceinline__ TileOf(const TransposeArgs<From, To>& args, int tile_rows, int tile_columns) {
    const unsigned tiles = args.row_tiles * args.column_tiles;
    const unsigned matrix = blockIdx.x / tiles, mine = blockIdx.x - matrix * tiles;
    const unsigned strip = mine / (kStrip * args.row_tiles),
                   in_strip = mine - strip * kStrip * args.row_tiles;
    const unsigned left = args.column_tiles - strip * kStrip, width = left < kStrip ? left : kStrip;
    const unsigned tile_row = in_strip / width, tile_column = strip * kStrip + in_strip - tile_row * width;
    const std::int64_t row = std::int64_t{tile_row} * tile_rows;
    const std::int64_t column = std::int64_t{tile_column} * tile_columns;
    first = tile_row == 0;
    rows = within_int(args.rows - row);
    columns = within_int(args.columns - column);
    std::int64_t at[2] = {};
    if (args.matrices.total > 1) args.matrices.offsets(matrix, at);
    x = at[0] + row * args.x_row + column;
    y = at[1] + column * args.y_column + row;
  }

 private:
  /// Enough for any tile.
  __device__ __forceinline__ static int within_int(std::int64_t left) {
    constexpr int kMost = 1 << 30;
    return left < kMost ? static_cast<int>(left) : kMost;
  }
};

/// A tile, `wide` where both sides take accesses of 16 bytes. Each position of it is written along a row and
/// read along a column: the vectors of a row are swizzled, or single elements padded, so that either meets
/// all banks.
template <class From, class To, bool wide>
struct TransposeTile {
  static constexpr int kSide = sizeof(From) < 8 ? 64 : 32;
  static constexpr int kRead = wide ? kVector<From> : 1, kWrite = wide ? kVector<To> : 1;  ///< per access
  static constexpr int kThreads = 256;
  static constexpr int kReads = kSide * kSide / kRead / kThreads, kWrites = kSide * kSide / kWrite / kThreads;
  static constexpr int kPad = wide ? 0 : sizeof(From) < 4 ? 4 / static_cast<int>(sizeof(From)) : 1;
  static constexpr int kElements = kSide * (kSide + kPad);

  __device__ static int position(int row, int column) {
    if constexpr (!wide) return row * (kSide + kPad) + column;
    constexpr int kVectors = kSide / kRead;
    const int vector = (column / kRead) ^ (row / kWrite % kVectors);
    return row * kSide + vector * kRead + column % kRead;
  }
};

// A block for a tile: all of its reads are under way before the first of them is needed.
template <class From, class To, bool wide>
__global__ void transpose_kernel(const __grid_constant__ TransposeArgs<From, To> args) {
  using Tile = TransposeTile<From, To, wide>;
  constexpr int kSide = Tile::kSide, kRead = Tile::kRead, kWrite = Tile::kWrite;
  using ReadVector = Vector<From, kRead>;
  INGOT_SHARED_ARRAY(ReadVector, vectors, Tile::kElements / kRead);
  From* tile = vectors[0].values;
  const TileOf at(args, kSide, kSide);
  const From* x = args.x + at.x;
  To* y = args.y + at.y;

  ReadVector read[Tile::kReads];
  INGOT_UNROLL
  for (int k = 0; k < Tile::kReads; ++k) {
    const int i = (k * Tile::kThreads + static_cast<int>(threadIdx.x)) * kRead;
    const int row = i / kSide, column = i % kSide;
    if (row < at.rows && column < at.columns) read[k] = load_vector<kRead>(x + row * args.x_row + column);
  }
  INGOT_UNROLL
  for (int k = 0; k < Tile::kReads; ++k) {
    const int i = (k * Tile::kThreads + static_cast<int>(threadIdx.x)) * kRead;
    store_vector(tile + Tile::position(i / kSide, i % kSide), read[k]);
  }
  __syncthreads();
  INGOT_UNROLL
  for (int k = 0; k < Tile::kWrites; ++k) {
    const int i = (k * Tile::kThreads + static_cast<int>(threadIdx.x)) * kWrite;
    const int column = i / kSide, row = i % kSide;
    if (row >= at.rows || column >= at.columns) continue;
    To* to = y + column * args.y_column + row;
    Vector<To, kWrite> old = {}, vector;
    if (args.accumulate) old = load_vector<kWrite>(to);
    INGOT_UNROLL
    for (int v = 0; v < kWrite; ++v) {
      const auto value = to_value(tile[Tile::position(row + v, column)]);
      vector.values[v] = from_value<To>(args.accumulate ? sum_of<Value<To>>(to_value(old.values[v]), value)
                                                        : Value<To>(value));
    }
    store_vector(to, vector);
  }
}

/// A tile of words of 4 bytes: neighbours of a row of y, two where elements have 16 bits. Rows of y may begin
/// anywhere, but lines of memory that are written in parts cost about a fifth of the rate. So a block writes
/// of each row the lines that begin within its kWords words: it reads kWords + kLine of them, the last line's
/// worth again by the block behind it, which finds them in the second level cache.
template <class T>
struct WordTile {
  static constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
  static constexpr int kLine = 32;  ///< words, 128 bytes
  /// Of 21 tiles that were tried on an H200 the fastest for 16-bit elements, and for 32-bit ones within 2 %
  /// of the fastest: 92 and 95 % of a copy's rate.
  static constexpr int kWords = sizeof(T) == 2 ? 224 : 96, kThreads = sizeof(T) == 2 ? 512 : 256;
  static constexpr int kColumns = 64, kRead = kWords + kLine, kRows = kWords * kPerWord;
  static constexpr int kPitch = kColumns + 1;  ///< words below each other are in different banks
  static constexpr std::size_t kBytes = std::size_t{kRead} * kPitch * 4;
};

/// What a thread reads of a tile, `read_bytes` of the rows of a word at a time, and puts there as words.
template <class T, int read_bytes>
struct WordReads {
  using Tile = WordTile<T>;
  static constexpr int kVec = read_bytes / static_cast<int>(sizeof(T));
  static constexpr int kReads = Tile::kRead * Tile::kColumns / kVec / Tile::kThreads;
  Vector<T, kVec> vectors[kReads][Tile::kPerWord];

  __device__ static int first(int k) { return (k * Tile::kThreads + static_cast<int>(threadIdx.x)) * kVec; }
  __device__ __forceinline__ void load(const T* x, std::int64_t x_row, const TileOf& at) {
    constexpr int kStep = Tile::kThreads * kVec / Tile::kColumns * Tile::kPerWord;  // rows to the next read
    int row = first(0) / Tile::kColumns * Tile::kPerWord;
    const int column = first(0) % Tile::kColumns;
    const bool inside = column < at.columns;
    x += row * x_row + column;
    INGOT_UNROLL
    for (int k = 0; k < kReads; ++k, row += kStep, x += kStep * x_row) {
      INGOT_UNROLL
      for (int r = 0; r < Tile::kPerWord; ++r)
        if (inside && row + r < at.rows) vectors[k][r] = load_vector<kVec>(x + r * x_row);
    }
  }
  __device__ __forceinline__ void put(std::uint32_t* words) const {
    INGOT_UNROLL
    for (int k = 0; k < kReads; ++k) {
      const int word = first(k) / Tile::kColumns, column = first(k) % Tile::kColumns;
      INGOT_UNROLL
      for (int c = 0; c < kVec; ++c) words[word * Tile::kPitch + column + c] = word_of(k, c);
    }
  }

 private:
  __device__ __forceinline__ std::uint32_t word_of(int k, int column) const {
    std::uint32_t word = vectors[k][0].values[column];
    if constexpr (Tile::kPerWord == 2) word |= std::uint32_t{vectors[k][1].values[column]} << 16;
    return word;
  }
};

// A block for a tile, a warp for a column of it at a time.
template <class T, int read_bytes>
__global__ __launch_bounds__(WordTile<T>::kThreads, 1024 / WordTile<T>::kThreads) void transpose_words_kernel(
    const __grid_constant__ TransposeArgs<T, T> args) {
  using Tile = WordTile<T>;
  INGOT_DYNAMIC_SHARED(std::uint32_t, tile);
  const TileOf at(args, Tile::kRows, Tile::kColumns);
  WordReads<T, read_bytes> reads;
  reads.load(args.x + at.x, args.x_row, at);
  __syncwarp();  // or the compiler puts words there between the loads
  reads.put(tile);
  __syncthreads();
  const int words = at.rows / Tile::kPerWord;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  INGOT_UNROLL_BY_4
  for (int column = static_cast<int>(threadIdx.x) / kWarp; column < Tile::kColumns;
       column += Tile::kThreads / kWarp) {
    if (column >= at.columns) break;
    auto* const to = reinterpret_cast<std::uint32_t*>(args.y + at.y + column * args.y_column);
    const auto position = static_cast<int>(reinterpret_cast<std::uintptr_t>(to) / 4 % Tile::kLine);
    const int begin = (Tile::kLine - position) % Tile::kLine;  // of the first line
    const auto write = [&](int word) {
      if (word < words) to[word] = tile[word * Tile::kPitch + column];
    };
    if (at.first && lane < begin) write(lane);
    INGOT_UNROLL
    for (int word = 0; word < Tile::kWords; word += kWarp) write(begin + word + lane);
  }
}

/// The axes along which x and y have their neighbours.
struct TransposedAxes {
  int x, y;
};
/// None where that is one axis, or where tiles would be nearly empty.
inline std::optional<TransposedAxes> transposed_axes(const StridedIterator<2>& runs) {
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

/// The bytes, 16, 8, 4 or fewer, that all runs of `axis` consist of, of operand `v` in `runs`.
inline std::int64_t whole_bytes(const StridedIterator<2>& runs, std::size_t v, int axis, const View& view) {
  const auto size = static_cast<std::int64_t>(byte_size(view.dtype));
  auto all = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data)) | 16;
  for (int other = 0; other < runs.rank(); ++other)
    all |= size * (other == axis ? runs.size(axis) : runs.stride(other, v));
  return all & -all;
}

/// y = x, or y += x, where their neighbours lie along different axes; false where they do not.
template <class From, class To>
bool transpose(const LaunchSite& site, const View& x, const View& y, bool accumulate) {
  const StridedIterator<2> runs({x, y});
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
  Walk<2>& matrices = args.matrices;
  matrices.total = 1;
  matrices.rank = 0;
  for (int axis = 0; axis < runs.rank(); ++axis) {
    if (axis == axes->x || axis == axes->y) continue;
    matrices.total *= runs.size(axis);
    matrices.set_size(matrices.rank, runs.size(axis));
    for (int v = 0; v < 2; ++v)
      matrices.strides[v][matrices.rank] = runs.stride(axis, static_cast<std::size_t>(v));
    ++matrices.rank;
  }

  const auto run = [&](auto kernel, std::int64_t tile_rows, std::int64_t tile_columns, int threads,
                       std::size_t shared_bytes) {
    const std::int64_t row_tiles = (args.rows + tile_rows - 1) / tile_rows;
    const std::int64_t column_tiles = (args.columns + tile_columns - 1) / tile_columns;
    const std::int64_t blocks = row_tiles * column_tiles * matrices.total;
    if (blocks > 0x7fffffff) return false;
    args.row_tiles = static_cast<unsigned>(row_tiles);
    args.column_tiles = static_cast<unsigned>(column_tiles);
    launch(site, kernel, Size3{static_cast<unsigned>(blocks)}, Size3{static_cast<unsigned>(threads)},
           shared_bytes, args);
    return true;
  };
  const std::int64_t x_bytes = whole_bytes(runs, 0, axes->x, x), y_bytes = whole_bytes(runs, 1, axes->y, y);
  if constexpr (std::is_same_v<From, To> && std::is_unsigned_v<From> &&
                (sizeof(From) == 2 || sizeof(From) == 4)) {
    using Tile = WordTile<From>;
    // Of shorter rows, most of a tile would stay empty.
    if (!accumulate && args.rows >= Tile::kRows && x_bytes >= 4 && y_bytes >= 4) {
      const auto kernel = x_bytes == 16 ? transpose_words_kernel<From, 16> : transpose_words_kernel<From, 4>;
      return run(kernel, Tile::kRows, Tile::kColumns, Tile::kThreads, Tile::kBytes);
    }
  }
  constexpr int kSide = TransposeTile<From, To, true>::kSide;
  const auto kernel =
      x_bytes == 16 && y_bytes == 16 ? transpose_kernel<From, To, true> : transpose_kernel<From, To, false>;
  return run(kernel, kSide, kSide, TransposeTile<From, To, true>::kThreads, 0);
}

}  // namespace ingot::kernels::cuda
