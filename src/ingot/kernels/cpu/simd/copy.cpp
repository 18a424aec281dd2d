#include "ingot/kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"
#include "ingot/kernels/cpu/strided.h"
#include "ingot/kernels/cpu/tile.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kCopyGrain = 65536;  // elements: 256 KiB, about 10 µs of memory traffic

bool accepts_contiguous(const CopyArgs& args) {
  return args.x.dtype == args.y.dtype && args.x.is_contiguous() && args.y.is_contiguous() &&
         (!args.accumulate || args.x.dtype == DType::f32);
}

void run_contiguous(const CopyArgs& args, Stream) {
  const std::size_t size = byte_size(args.x.dtype);
  parallel_for(args.x.numel(), kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
    if (args.accumulate) {
      const float* x = args.x.as<float>();
      float* y = args.y.as<float>();
      for (std::int64_t i = begin; i < end; ++i) y[i] += x[i];
    } else {
      const auto offset = static_cast<std::size_t>(begin) * size;
      std::memcpy(args.y.as<char>() + offset, args.x.as<char>() + offset,
                  static_cast<std::size_t>(end - begin) * size);
    }
  });
}

// Short pieces without gaps, such as heads that are concatenated: walking them one by one would cost more
// than copying them.
constexpr std::int64_t kShort = 64;

struct ShortRows {
  View x, y;  // without the axis along which the pieces lie
  std::int64_t length = 0;
};

// No pieces: length 0.
ShortRows short_rows(const CopyArgs& args) {
  if (args.x.dtype != DType::f32 || args.y.dtype != DType::f32 || args.x.numel() == 0) return {};
  const StridedIterator<2> runs({args.x, args.y});
  const int last = runs.rank() - 1;
  if (last < 1 || runs.stride(last, 0) != 1 || runs.stride(last, 1) != 1 || runs.inner() > kShort) return {};
  ShortRows rows{args.x, args.y, runs.inner()};
  rows.x.rank = rows.y.rank = static_cast<decltype(rows.x.rank)>(last);
  for (int i = 0; i < last; ++i) {
    const auto at = static_cast<std::size_t>(i);
    rows.x.shape[at] = rows.y.shape[at] = runs.size(i);
    rows.x.strides[at] = runs.stride(i, 0);
    rows.y.strides[at] = runs.stride(i, 1);
  }
  return rows;
}

void copy_piece(const float* x, float* y, std::int64_t n, bool accumulate) {
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    float v[4];
    std::memcpy(v, x + i, sizeof(v));
    for (int k = 0; accumulate && k < 4; ++k) v[k] += y[i + k];
    std::memcpy(y + i, v, sizeof(v));
  }
  for (; i < n; ++i) y[i] = accumulate ? y[i] + x[i] : x[i];
}

bool accepts_short_rows(const CopyArgs& args) { return short_rows(args).length > 0; }

void run_short_rows(const CopyArgs& args, Stream) {
  const ShortRows rows = short_rows(args);
  parallel_runs<2>({rows.x, rows.y}, kCopyGrain / rows.length,
                   [&](const auto& offsets, std::int64_t n, const auto& strides) {
                     const float* x = rows.x.as<float>() + offsets[0];
                     float* y = rows.y.as<float>() + offsets[1];
                     for (std::int64_t i = 0; i < n; ++i, x += strides[0], y += strides[1])
                       copy_piece(x, y, rows.length, args.accumulate);
                   });
}

// Matrices whose rows become columns, of any floating dtypes: square tiles are transposed in L1, so that
// whole cache lines are read and written.
class Transposition {
 public:
  static constexpr std::int64_t kTile = 64;

  explicit Transposition(const CopyArgs& args) : args_(args), runs_({args.x, args.y}) {
    const int last = runs_.rank() - 1;
    if (last < 1 || runs_.stride(last, 1) != 1 || runs_.size(last) < kLeast) return;
    for (int i = 0; i < last; ++i)
      if (runs_.stride(i, 0) == 1 && runs_.size(i) >= kLeast) row_axis_ = i;
  }
  bool found() const { return row_axis_ >= 0; }

  std::int64_t tiles() const {
    std::int64_t n = 1;
    for (int i = 0; i < runs_.rank(); ++i) n *= steps(i);
    return n;
  }
  // Neighbours along a row of y have numbers that follow each other.
  void run(std::int64_t number) const {
    std::int64_t from = 0, to = 0, rows = 0, cols = 0;
    for (int i = runs_.rank() - 1; i >= 0; --i) {
      const std::int64_t at = number % steps(i) * step(i);
      number /= steps(i);
      from += at * runs_.stride(i, 0), to += at * runs_.stride(i, 1);
      if (i == row_axis_) rows = std::min(kTile, runs_.size(i) - at);
      if (i == last()) cols = std::min(kTile, runs_.size(i) - at);
    }
    const ConstTile tile{args_.x.as<char>() + from * size(args_.x), args_.x.dtype, cols, rows,
                         runs_.stride(last(), 0)};
    float transposed[kTile * kTile];
    load_tile_transposed(tile, transposed, kTile);
    store_tile(
        transposed, kTile,
        {args_.y.as<char>() + to * size(args_.y), args_.y.dtype, rows, cols, runs_.stride(row_axis_, 1)},
        args_.accumulate);
  }

 private:
  static constexpr std::int64_t kLeast = 8;
  static std::int64_t size(const View& x) { return static_cast<std::int64_t>(byte_size(x.dtype)); }
  int last() const { return runs_.rank() - 1; }
  std::int64_t step(int axis) const { return axis == row_axis_ || axis == last() ? kTile : 1; }
  std::int64_t steps(int axis) const { return (runs_.size(axis) + step(axis) - 1) / step(axis); }

  const CopyArgs& args_;
  StridedIterator<2> runs_;
  int row_axis_ = -1;  // of y; adjacent in x
};

bool accepts_transposition(const CopyArgs& args) {
  return are_simd_floats(args.x, args.y) && args.x.numel() > 0 && Transposition(args).found();
}

void run_transposition(const CopyArgs& args, Stream) {
  const Transposition transposition(args);
  constexpr std::int64_t kGrain = kCopyGrain / (Transposition::kTile * Transposition::kTile);
  parallel_for(transposition.tiles(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) transposition.run(tile);
  });
}

// Any strides, and conversions between f32 and half precision.
bool accepts_blocks(const CopyArgs& args) { return are_simd_floats(args.x, args.y); }

void run_blocks(const CopyArgs& args, Stream) {
  for_each_block<2>({reads(args.x), writes(args.y, args.accumulate)}, kCopyGrain,
                    [&](const auto& at, std::int64_t n) {
                      const float* x = at[0];
                      float* y = at[1];
                      if (args.accumulate) {
                        for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
                      } else {
                        std::copy_n(x, n, y);
                      }
                    });
}

}  // namespace

void register_copy_simd() {
  copy.add(DeviceType::cpu, {"contiguous", ImplKind::simd, accepts_contiguous, run_contiguous});
  copy.add(DeviceType::cpu, {"short rows", ImplKind::simd, accepts_short_rows, run_short_rows});
  copy.add(DeviceType::cpu, {"transposition", ImplKind::simd, accepts_transposition, run_transposition});
  copy.add(DeviceType::cpu, {"blocks", ImplKind::simd, accepts_blocks, run_blocks});
}

}  // namespace ingot::kernels::cpu
