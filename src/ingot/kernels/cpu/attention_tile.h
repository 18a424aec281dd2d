#pragma once

#include <cstdint>

#include "ingot/core/view.h"
#include "ingot/kernels/cpu/attention_ranges.h"
#include "ingot/kernels/cpu/tile.h"

namespace ingot::kernels::cpu {

/// Keys come in panels of this many columns, zero-padded: four AVX-512 vectors, the width of the
/// micro-kernel.
inline constexpr std::int64_t kPanel = 64;
/// Columns of a matmul come in multiples of this: one AVX-512 vector, and whole ones of every shorter kind.
inline constexpr std::int64_t kColumns = 16;
/// Rows of one key/value head that decoding takes at once: 8 queries of up to 64 heads.
inline constexpr std::int64_t kDecodeRows = 512;
/// Queries per tile, and keys per pass of the online softmax.
inline constexpr std::int64_t kTileRows = 96;
inline constexpr std::int64_t kTileKeys = 256;
/// Rows of the micro-kernel: 6 rows of 4 vectors fill 24 of 32 registers.
inline constexpr std::int64_t kBlockRows = 6;
/// Rows that pass over a panel of keys, and a piece of values, while it lies in L1.
inline constexpr std::int64_t kGroupRows = 4 * kBlockRows;
/// Queries per tile of the backward pass, and how many of them go through a panel of keys: what
/// they share lies in L1, and a panel comes from further off once per tile.
inline constexpr std::int64_t kGradientTileRows = 384;
inline constexpr std::int64_t kGradientRows = 16 * kBlockRows;
/// Columns of a row of scores in the backward pass, which are also read downwards: an odd number of cache
/// lines, so that a column does not fall into a few sets of L1.
inline constexpr std::int64_t kScoreStride = kPanel + kColumns;
/// Scores are kept in base 2: 2^(s·log2 e) costs one multiplication less than e^s.
inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kLn2 = 0.693147181F;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// The tiles of one head in an order that gives a contiguous share of them even work: the cost of a causal
/// tile grows with its number, so first and last alternate.
constexpr std::int64_t balanced_tile(std::int64_t i, std::int64_t tiles) {
  return i % 2 == 0 ? i / 2 : tiles - 1 - i / 2;
}

/// c (+)= a·b with b and c row-major: a[i][k] stands at a + i·a_row + k·a_col. n is a multiple of 16.
struct SmallGemm {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t a_row = 0, a_col = 1;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;
};

struct Bf16Pairs;

/// One tile of queries against one packed key/value head. Head sizes are padded to multiples of 16; `depth`
/// is what of head_size is not padding. With `pairs`, q, keys and values are words of two bf16 numbers
/// (bf16_pairs.h): rows of q have head_size / 2 at the same distance, panels of keys head_size / 2 rows, and
/// there are half as many rows of values.
struct ForwardTile {
  const Bf16Pairs* pairs = nullptr;
  const float* q = nullptr;       // [rows, head_size], scaled
  const float* keys = nullptr;    // panels [head_size, kPanel]
  const float* values = nullptr;  // [keys, value_size]
  float* out = nullptr;           // [rows, value_size]
  float* scores = nullptr;        // [kGroupRows, kTileKeys]
  float* lse = nullptr;           // [rows], or null
  const KeyRange* ranges = nullptr;
  std::int64_t rows = 0, head_size = 0, depth = 0, value_size = 0;
  float softcap = 0.0F;
};

/// A few queries (all of one key/value head) against a strided head of keys and values, which is read once.
struct DecodeHead {
  const float* q = nullptr;  // [rows, head_size], scaled
  const void *k = nullptr, *v = nullptr;
  const float *k_scale = nullptr, *v_scale = nullptr;  // one per position of an i8 cache, else null
  DType dtype = DType::f32;                            // of keys and values
  std::int64_t k_stride = 0, v_stride = 0;             // between positions
  float* out = nullptr;                                // [rows, value_size]
  float* scores = nullptr;                             // [rows, score_stride]
  float* lse = nullptr;                                // [rows]
  const KeyRange* ranges = nullptr;
  std::int64_t rows = 0, head_size = 0, value_size = 0, score_stride = 0;
  float softcap = 0.0F;
};

/// A ForwardTile's like for the backward pass. Gradients are added to; dkeys and dvalues start at first_key,
/// and may be null like dq. dq still lacks the factor of the scores, dkeys that of the queries.
struct BackwardTile {
  const float *q = nullptr, *dout = nullptr, *lse2 = nullptr, *delta = nullptr;  // per row; q is scaled
  const float *keys_t = nullptr, *values_t = nullptr;                            // panels [size, kPanel]
  const float* keys = nullptr;                                                   // [keys, head_size]
  float *scores = nullptr, *dscores = nullptr;  // [kGradientRows, kScoreStride]
  float *dq = nullptr, *dkeys = nullptr, *dvalues = nullptr;
  const KeyRange* ranges = nullptr;
  std::int64_t rows = 0, first_key = 0, last_key = 0;
  std::int64_t head_size = 0, depth = 0, value_size = 0, value_depth = 0;  // depths: without padding
  float softcap = 0.0F;
};

/// Rows [row, row + rows) of head h of sequence b of a [B, S, H, D] view.
inline ConstTile head_tile(const View& x, std::int64_t b, std::int64_t h, std::int64_t row,
                           std::int64_t rows) {
  const std::int64_t offset = b * x.stride(0) + row * x.stride(1) + h * x.stride(2);
  return {x.as<char>() + offset * static_cast<std::int64_t>(byte_size(x.dtype)), x.dtype, rows, x.dim(3),
          x.stride(1)};
}
inline Tile mutable_head_tile(const View& x, std::int64_t b, std::int64_t h, std::int64_t row,
                              std::int64_t rows) {
  const ConstTile tile = head_tile(x, b, h, row, rows);
  return {const_cast<void*>(tile.data), tile.dtype, tile.rows, tile.cols, tile.row_stride};
}

/// The scales of head h of sequence b of an i8 cache, one per position; null where there are none.
inline const float* head_scale(const View& scale, std::int64_t b, std::int64_t h) {
  return scale ? scale.as<float>() + b * scale.stride(0) + h * scale.stride(2) : nullptr;
}

/// to[rows, width] = from · scale, zero beyond from's columns.
void load_padded(const ConstTile& from, float* to, std::int64_t width, float scale = 1.0F);

/// A key or value head in this thread's scratch memory (one slot each), kept while the same head is asked
/// for: floats, or with `pairs` words of two bf16 numbers. `scale`: of an i8 cache (kernels/attention.h),
/// else absent.
class PackedHead {
 public:
  explicit PackedHead(const Bf16Pairs* pairs = nullptr) : pairs_(pairs) {}
  /// [T padded to kPanel, D padded to 16], zero-padded. Of pairs: half as many rows.
  const float* rows(const View& x, const View& scale, std::int64_t b, std::int64_t h, std::size_t slot);
  /// Panels of kPanel positions, each [D padded to 16, kPanel], zero-padded. Of pairs: half as many rows.
  const float* columns(const View& x, const View& scale, std::int64_t b, std::int64_t h, std::size_t slot);

 private:
  bool same(std::int64_t b, std::int64_t h);
  void pair_columns(const ConstTile& from, const float* factor, float* panel) const;
  const Bf16Pairs* pairs_;
  std::int64_t b_ = -1, h_ = -1;
  float* data_ = nullptr;
};

}  // namespace ingot::kernels::cpu
