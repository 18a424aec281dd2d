// Pooling of one plane whose columns are neighbours in memory. Included once per Highway target.
//
// A row of windows is folded in two steps, each over whole vectors: the rows that it spans become one, then
// the columns of that. Windows that are `stride` positions apart would have every vector gather, so the
// folded row is laid out by phases: position q (padding counted) is element q / stride of phase q % stride,
// and all windows' tap j are neighbours there.
#if defined(INGOT_POOL_PLANE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_POOL_PLANE_INL_H
#undef INGOT_POOL_PLANE_INL_H
#else
#define INGOT_POOL_PLANE_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

#include "ingot/kernels/cpu/pool_window.h"
#include "ingot/kernels/cpu/tile.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What a window keeps: of no element at all, and of one more.
struct PoolMax {
  static constexpr float kNothing = -std::numeric_limits<float>::infinity();
  template <class V>
  HWY_INLINE V operator()(V kept, V next) const {  // not Max: a NaN stays
    return hn::IfThenElse(hn::Or(hn::Gt(next, kept), hn::IsNaN(next)), next, kept);
  }
};
struct PoolSum {
  static constexpr float kNothing = 0;
  template <class V>
  HWY_INLINE V operator()(V kept, V next) const {
    return hn::Add(kept, next);
  }
};

template <class Fold>
class PlanePool {
 public:
  PlanePool(const PoolArgs& args, const Plane& in, const Plane& out)
      : args_(args),
        in_(in),
        out_(out),
        stride_(args.geometry.stride[1]),
        padding_(args.geometry.padding[1]),
        dilation_(args.geometry.dilation[1]),
        taps_(args.window[1]) {
    const std::int64_t reach = (taps_ - 1) * dilation_;
    // Every window's taps, every position of the input, and a vector that begins at the last of either.
    length_ = std::max(out.w + reach / stride_, (in.w + padding_) / stride_) + 1 + lanes();
    const std::int64_t columns = round_up(out.w, lanes()), row = round_up(in.w, lanes());
    float* memory = thread_scratch(0, static_cast<std::size_t>(stride_ * length_ + columns + row));
    phases_ = memory, divisors_ = memory + stride_ * length_, row_ = divisors_ + columns;
    std::fill_n(phases_, stride_ * length_, Fold::kNothing);
    std::fill_n(divisors_, columns, 1.0F);
    for (std::int64_t w = 0; w < out.w && args.mode != PoolMode::max; ++w)
      divisors_[w] = counted(window_range(args, 1, w, in.w, out.w));
  }

  void run(const float* x, float* y) const {
    for (std::int64_t h = 0; h < out_.h; ++h) {
      const WindowRange rows = window_range(args_, 0, h, in_.h, out_.h);
      if (stride_ == 1) {
        fold_rows(x, rows, phases_ + padding_);
      } else if (stride_ == 2 && kPairs) {
        fold_row_pairs(x, rows);
      } else {
        fold_strided_rows(x, rows);
      }
      fold_columns(args_.mode == PoolMode::max ? 1.0F : counted(rows), y + h * out_.w);
    }
  }

 private:
  static std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }
  float counted(const WindowRange& r) const {
    return static_cast<float>(args_.mode == PoolMode::average ? r.size : window_count(r));
  }
  float* phase(std::int64_t position) const {
    return phases_ + position % stride_ * length_ + position / stride_;
  }

  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;

  // The rows of a window at columns [w, w + lanes); nothing beyond the last.
  HWY_INLINE V folded_rows(const float* x, const WindowRange& rows, std::int64_t w) const {
    const D d;
    const V nothing = hn::Set(d, Fold::kNothing);
    V kept = nothing;
    if (w >= in_.w) return kept;
    if (w + lanes() <= in_.w) {
      for (std::int64_t h = rows.first; h < rows.end; h += rows.step)
        kept = Fold()(kept, hn::LoadU(d, x + h * in_.w + w));
      return kept;
    }
    const auto inside = hn::FirstN(d, static_cast<std::size_t>(in_.w - w));
    for (std::int64_t h = rows.first; h < rows.end; h += rows.step)
      kept = Fold()(kept, hn::MaskedLoad(inside, d, x + h * in_.w + w));
    return hn::IfThenElse(inside, kept, nothing);
  }
  void fold_rows(const float* x, const WindowRange& rows, float* to) const {
    for (std::int64_t w = 0; w < in_.w; w += lanes()) hn::StoreU(folded_rows(x, rows, w), D(), to + w);
  }
  // Even and odd columns to their phases; a vector of one lane has no such halves.
  static constexpr bool kPairs = HWY_TARGET != HWY_SCALAR;
  void fold_row_pairs(const float* x, const WindowRange& rows) const {
#if HWY_TARGET != HWY_SCALAR
    const D d;
    float *even = phase(padding_), *odd = phase(padding_ + 1);
    for (std::int64_t w = 0; w < in_.w; w += 2 * lanes()) {
      const V low = folded_rows(x, rows, w), high = folded_rows(x, rows, w + lanes());
      hn::StoreU(hn::ConcatEven(d, high, low), d, even + w / 2);
      hn::StoreU(hn::ConcatOdd(d, high, low), d, odd + w / 2);
    }
#else
    fold_strided_rows(x, rows);
#endif
  }
  void fold_strided_rows(const float* x, const WindowRange& rows) const {
    fold_rows(x, rows, row_);
    for (std::int64_t w = 0; w < in_.w; ++w) *phase(padding_ + w) = row_[w];
  }
  void fold_columns(float divisor, float* y) const {
    const D d;
    for (std::int64_t w = 0; w < out_.w; w += lanes()) {
      auto kept = hn::LoadU(d, phase(0) + w);
      for (std::int64_t tap = 1; tap < taps_; ++tap)
        kept = Fold()(kept, hn::LoadU(d, phase(tap * dilation_) + w));
      if (args_.mode != PoolMode::max)
        kept = hn::Div(kept, hn::Mul(hn::Set(d, divisor), hn::LoadU(d, divisors_ + w)));
      const auto left = static_cast<std::size_t>(out_.w - w);
      if (left >= hn::Lanes(d)) {
        hn::StoreU(kept, d, y + w);
      } else {
        hn::BlendedStore(kept, hn::FirstN(d, left), d, y + w);
      }
    }
  }

  const PoolArgs& args_;
  const Plane &in_, &out_;
  std::int64_t stride_, padding_, dilation_, taps_, length_ = 0;
  float *phases_ = nullptr, *divisors_ = nullptr, *row_ = nullptr;
};

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // INGOT_POOL_PLANE_INL_H
