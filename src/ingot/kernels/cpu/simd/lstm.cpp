#include "ingot/kernels/lstm.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/lstm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/loops-inl.h"
#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class DF, class VF>
HWY_INLINE VF logistic(DF d, VF x) {
  const auto one = hn::Set(d, 1.0F);
  // Beyond ±88 e^x is out of range, and the function 0 or 1; a NaN stays.
  const auto limited = hn::Min(hn::Max(x, hn::Set(d, -88.0F)), hn::Set(d, 88.0F));
  const auto y = hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(limited))));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}
template <class DF, class VF>
HWY_INLINE VF hyperbolic(DF d, VF x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x));
}

// Some units of a sequence.
void cell_run(const float* gates, std::int64_t hidden, const float* c, float* c_next, float* h,
              std::int64_t n) {
  for_vectors(n, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto gate = [&](std::int64_t k) HWY_ATTR { return hn::LoadU(d, gates + k * hidden + i); };
    const auto in = hn::Mul(logistic(d, gate(0)), hyperbolic(d, gate(3)));
    const auto next = hn::MulAdd(logistic(d, gate(2)), hn::LoadU(d, c + i), in);
    hn::StoreU(next, d, c_next + i);
    hn::StoreU(hn::Mul(logistic(d, gate(1)), hyperbolic(d, next)), d, h + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(cell_run);

void run(const LstmCellArgs& args, Stream) {
  constexpr std::int64_t kGrain = 4096;  // units, some 10 µs
  const std::int64_t hidden = args.c.dim(1);
  parallel_for(args.c.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t row = begin / hidden, unit = begin % hidden,
                         count = std::min(end - begin, hidden - unit);
      HWY_DYNAMIC_DISPATCH(cell_run)
      (args.gates.as<float>() + row * 4 * hidden + unit, hidden, args.c.as<float>() + begin,
       args.c_next.as<float>() + begin, args.h.as<float>() + begin, count);
      begin += count;
    }
  });
}

}  // namespace

void register_lstm_simd() { lstm_cell.add(DeviceType::cpu, {"simd", ImplKind::simd, nullptr, run}); }

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
