#include "ingot/kernels/cpu/tile.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void load_rows(const ConstTile& from, float* to, std::int64_t to_stride, float scale) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  for (std::int64_t r = 0; r < from.rows; ++r) {
    const T* x = from.row<T>(r);
    float* y = to + r * to_stride;
    std::int64_t c = 0;
    for (; c + lanes <= from.cols; c += lanes) {
      hn::StoreU(hn::Mul(load_lanes(d, x + c), factor), d, y + c);
    }
#if HWY_TARGET != HWY_SCALAR
    if constexpr (std::is_same_v<T, float>) {  // small heads
      const hn::FixedTag<float, 4> d4;
      for (; c + 4 <= from.cols; c += 4)
        hn::StoreU(hn::Mul(hn::LoadU(d4, x + c), hn::Set(d4, scale)), d4, y + c);
    }
#endif
    for (; c < from.cols; ++c) y[c] = static_cast<float>(x[c]) * scale;
  }
}

#if HWY_TARGET != HWY_SCALAR
// Four rows by four columns, transposed in registers.
template <class T>
HWY_INLINE void transpose_block(const T* x, std::int64_t stride, float* y, std::int64_t y_stride,
                                float scale) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto factor = hn::Set(d, scale);
  const auto r0 = hn::Mul(load_lanes(d, x), factor), r1 = hn::Mul(load_lanes(d, x + stride), factor);
  const auto r2 = hn::Mul(load_lanes(d, x + 2 * stride), factor),
             r3 = hn::Mul(load_lanes(d, x + 3 * stride), factor);
  const auto lower01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto lower23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto upper01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto upper23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, lower01, lower23)), d, y);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, lower01, lower23)), d, y + y_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, upper01, upper23)), d, y + 2 * y_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, upper01, upper23)), d, y + 3 * y_stride);
}
#endif

template <class T>
void load_columns(const ConstTile& from, float* to, std::int64_t to_stride, float scale) {
  std::int64_t rows = 0, cols = 0;  // done in blocks
#if HWY_TARGET != HWY_SCALAR
  rows = from.rows / 4 * 4, cols = from.cols / 4 * 4;
  for (std::int64_t r = 0; r < rows; r += 4) {
    for (std::int64_t c = 0; c < cols; c += 4)
      transpose_block(from.row<T>(r) + c, from.row_stride, to + c * to_stride + r, to_stride, scale);
  }
#endif
  for (std::int64_t r = 0; r < from.rows; ++r) {
    const T* x = from.row<T>(r);
    for (std::int64_t c = r < rows ? cols : 0; c < from.cols; ++c)
      to[c * to_stride + r] = static_cast<float>(x[c]) * scale;
  }
}

template <class T>
void store_rows(const float* from, std::int64_t from_stride, const Tile& to, bool accumulate) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = 0; r < to.rows; ++r) {
    const float* x = from + r * from_stride;
    T* y = to.row<T>(r);
    std::int64_t c = 0;
    for (; c + lanes <= to.cols; c += lanes) {
      store_lanes(d, hn::LoadU(d, x + c), y + c, accumulate);
    }
#if HWY_TARGET != HWY_SCALAR
    if constexpr (std::is_same_v<T, float>) {
      const hn::FixedTag<float, 4> d4;
      for (; c + 4 <= to.cols; c += 4) {
        const auto v = hn::LoadU(d4, x + c);
        hn::StoreU(accumulate ? hn::Add(v, hn::LoadU(d4, y + c)) : v, d4, y + c);
      }
    }
#endif
    for (; c < to.cols; ++c) y[c] = static_cast<T>(accumulate ? x[c] + static_cast<float>(y[c]) : x[c]);
  }
}

void load(const ConstTile& from, float* to, std::int64_t to_stride, float scale) {
  if (from.dtype == DType::f32) return load_rows<float>(from, to, to_stride, scale);
  if (from.dtype == DType::bf16) return load_rows<bf16>(from, to, to_stride, scale);
  if (from.dtype == DType::i8) return load_rows<std::int8_t>(from, to, to_stride, scale);
  load_rows<f16>(from, to, to_stride, scale);
}

void load_transposed(const ConstTile& from, float* to, std::int64_t to_stride, float scale) {
  if (from.dtype == DType::f32) return load_columns<float>(from, to, to_stride, scale);
  if (from.dtype == DType::bf16) return load_columns<bf16>(from, to, to_stride, scale);
  if (from.dtype == DType::i8) return load_columns<std::int8_t>(from, to, to_stride, scale);
  load_columns<f16>(from, to, to_stride, scale);
}

void store(const float* from, std::int64_t from_stride, const Tile& to, bool accumulate) {
  if (to.dtype == DType::f32) return store_rows<float>(from, from_stride, to, accumulate);
  if (to.dtype == DType::bf16) return store_rows<bf16>(from, from_stride, to, accumulate);
  store_rows<f16>(from, from_stride, to, accumulate);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
HWY_EXPORT(load);
HWY_EXPORT(load_transposed);
HWY_EXPORT(store);

void load_tile(const ConstTile& from, float* to, std::int64_t to_stride, float scale) {
  HWY_DYNAMIC_DISPATCH(load)(from, to, to_stride, scale);
}
void load_tile_transposed(const ConstTile& from, float* to, std::int64_t to_stride, float scale) {
  HWY_DYNAMIC_DISPATCH(load_transposed)(from, to, to_stride, scale);
}
void store_tile(const float* from, std::int64_t from_stride, const Tile& to, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(store)(from, from_stride, to, accumulate);
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
