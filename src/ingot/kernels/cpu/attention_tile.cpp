#include "ingot/kernels/cpu/attention_tile.h"

#include <algorithm>

#include "ingot/kernels/cpu/bf16_pairs.h"

namespace ingot::kernels::cpu {

void load_padded(const ConstTile& from, float* to, std::int64_t width, float scale) {
  if (width > from.cols) std::fill_n(to, from.rows * width, 0.0F);
  load_tile(from, to, width, scale);
}

bool PackedHead::same(std::int64_t b, std::int64_t h) {
  if (b == b_ && h == h_) return true;
  b_ = b, h_ = h;
  return false;
}

const float* PackedHead::rows(const View& x, const View& scale, std::int64_t b, std::int64_t h,
                              std::size_t slot) {
  if (same(b, h)) return data_;
  const std::int64_t n = x.dim(1), padded = round_up(n, kPanel), width = round_up(x.dim(3), 16);
  data_ = thread_scratch(slot, static_cast<std::size_t>(padded * width));
  load_padded(head_tile(x, b, h, 0, n), data_, width);
  if (const float* factor = head_scale(scale, b, h); factor != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t c = 0; c < width; ++c) data_[i * width + c] *= factor[i];
    }
  }
  std::fill(data_ + n * width, data_ + padded * width, 0.0F);
  if (pairs_ == nullptr) return data_;
  for (std::int64_t i = 0; i < padded / 2; ++i) {
    const float* even = data_ + 2 * i * width;
    pairs_->round_two(even, even + width, data_ + i * width, width);
  }
  return data_;
}

// A panel of keys: their rows as words, which then are transposed as floats would be (the bits of a number
// pass through unchanged).
void PackedHead::pair_columns(const ConstTile& from, const float* factor, float* panel) const {
  const std::int64_t width = round_up(from.cols, 16);
  float* rows = thread_scratch(3, static_cast<std::size_t>(kPanel * width));
  std::fill_n(rows + from.rows * width, (kPanel - from.rows) * width, 0.0F);
  load_padded(from, rows, width);
  for (std::int64_t i = 0; i < from.rows; ++i) {
    float* row = rows + i * width;
    for (std::int64_t c = 0; factor != nullptr && c < width; ++c) row[c] *= factor[i];
    pairs_->round(row, row, width);
  }
  load_tile_transposed({rows, DType::f32, kPanel, width / 2, width}, panel, kPanel);
}

const float* PackedHead::columns(const View& x, const View& scale, std::int64_t b, std::int64_t h,
                                 std::size_t slot) {
  if (same(b, h)) return data_;
  const std::int64_t n = x.dim(1), d = x.dim(3), width = round_up(d, 16);
  data_ = thread_scratch(slot, static_cast<std::size_t>(round_up(n, kPanel) * width));
  for (std::int64_t first = 0; first < n; first += kPanel) {
    const std::int64_t count = std::min(kPanel, n - first);
    if (pairs_ != nullptr) {
      const float* factor = head_scale(scale, b, h);
      pair_columns(head_tile(x, b, h, first, count), factor == nullptr ? nullptr : factor + first,
                   data_ + first * width / 2);
      continue;
    }
    float* panel = data_ + first * width;
    if (count < kPanel || d < width) std::fill_n(panel, width * kPanel, 0.0F);
    load_tile_transposed(head_tile(x, b, h, first, count), panel, kPanel);
    if (const float* factor = head_scale(scale, b, h); factor != nullptr) {
      for (std::int64_t c = 0; c < d; ++c) {
        for (std::int64_t i = 0; i < count; ++i) panel[c * kPanel + i] *= factor[first + i];
      }
    }
  }
  return data_;
}

}  // namespace ingot::kernels::cpu
