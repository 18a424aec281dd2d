// Reductions over the lanes of several vectors at once. Included once per Highway target; absent on targets
// without vectors of known length (INGOT_HAS_FOLD).
#if defined(INGOT_FOLD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_FOLD_INL_H
#undef INGOT_FOLD_INL_H
#else
#define INGOT_FOLD_INL_H
#endif

#include <hwy/highway.h>

#undef INGOT_HAS_FOLD
#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR
#define INGOT_HAS_FOLD 0
#else
#define INGOT_HAS_FOLD 1

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct AddOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct MaxOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

// Halves are combined until four lanes are left.
template <class Op, class DV, class V>
HWY_INLINE auto fold_to_four(Op op, DV d, V v) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<DV> half;
    return fold_to_four(op, half, op(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}

// Lane j: all lanes of the j-th vector combined, those at a distance of two first (as in SumOfLanes).
template <class Op, class DV, class V>
HWY_INLINE auto fold_each(Op op, DV d, V v0, V v1, V v2, V v3) {
  const hn::FixedTag<hn::TFromD<DV>, 4> four;
  const auto a = fold_to_four(op, d, v0), b = fold_to_four(op, d, v1);
  const auto c = fold_to_four(op, d, v2), e = fold_to_four(op, d, v3);
  const auto first = op(hn::InterleaveLower(four, a, b), hn::InterleaveUpper(four, a, b));
  const auto second = op(hn::InterleaveLower(four, c, e), hn::InterleaveUpper(four, c, e));
  return op(hn::ConcatLowerLower(four, second, first), hn::ConcatUpperUpper(four, second, first));
}

}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
#endif
