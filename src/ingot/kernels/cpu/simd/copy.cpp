#include "ingot/kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"
#include "ingot/kernels/cpu/strided.h"

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

// Short pieces without gaps, such as heads that are put side by side: walking them one by one would cost more
// than copying them.
constexpr std::int64_t kShort = 64;

struct ShortRows {
  View x, y;  // without the axis along which the pieces lie
  std::int64_t length = 0;
};

// No pieces: length 0.
ShortRows short_rows(const CopyArgs& args) {
  if (args.x.dtype != DType::f32 || args.y.dtype != DType::f32 || args.x.numel() == 0) return {};
  const Runs<2> runs({args.x, args.y});
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

// Any strides, and conversions between f32 and the half types.
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
  copy.add(DeviceType::cpu, {"blocks", ImplKind::simd, accepts_blocks, run_blocks});
}

}  // namespace ingot::kernels::cpu
