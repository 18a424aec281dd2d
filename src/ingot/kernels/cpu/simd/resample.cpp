#include "ingot/kernels/resample.h"

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/resample.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

struct Taps {
  const std::int32_t* indices;
  const float* weights;
  std::int64_t count, n;
};

// Position i of the result, where its neighbours on the inner axis are neighbours in memory: whole rows.
template <class T>
void sum_rows(const T* x, const Taps& taps, std::int64_t i, T* y, std::int64_t inner, bool accumulate) {
  const auto part = [&](auto d, std::int64_t k) HWY_ATTR {
    auto sum = accumulate ? load_lanes(d, y + k) : hn::Zero(d);
    for (std::int64_t t = 0; t < taps.count; ++t) {
      const std::int64_t at = t * taps.n + i;
      sum = hn::MulAdd(load_lanes(d, x + taps.indices[at] * inner + k), hn::Set(d, taps.weights[at]), sum);
    }
    store_lanes(d, sum, y + k);
  };
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t k = 0;
  for (; k + lanes <= inner; k += lanes) part(d, k);
  for (; k < inner; ++k) part(hn::CappedTag<float, 1>(), k);
}

// One line along the axis itself.
template <class T, int kCount>
void sum_line(const T* x, const Taps& taps, T* y, bool accumulate) {
  const std::int64_t count = kCount > 0 ? kCount : taps.count;
  for (std::int64_t i = 0; i < taps.n; ++i) {
    float sum = accumulate ? static_cast<float>(y[i]) : 0.0F;
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t at = t * taps.n + i;
      sum += static_cast<float>(x[taps.indices[at]]) * taps.weights[at];
    }
    y[i] = static_cast<T>(sum);
  }
}

void resample_outer(const ResampleArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t m = args.x.dim(1), inner = args.x.dim(2), n = args.y.dim(1);
  const Taps taps{args.indices.as<std::int32_t>(), args.weights.as<float>(), args.indices.dim(0), n};
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t o = begin; o < end; ++o) {
      const T* x = args.x.as<T>() + o * m * inner;
      T* y = args.y.as<T>() + o * n * inner;
      if (inner > 1) {
        for (std::int64_t i = 0; i < n; ++i) sum_rows(x, taps, i, y + i * inner, inner, args.accumulate);
      } else if (taps.count == 2) {
        sum_line<T, 2>(x, taps, y, args.accumulate);
      } else if (taps.count == 4) {
        sum_line<T, 4>(x, taps, y, args.accumulate);
      } else {
        sum_line<T, 0>(x, taps, y, args.accumulate);
      }
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(resample_outer);

void run(const ResampleArgs& args, Stream) {
  constexpr std::int64_t kGrain = 16384;  // elements, some 10 µs
  const std::int64_t size = args.y.dim(1) * args.y.dim(2);
  parallel_for(args.y.dim(0), kGrain / (size + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(resample_outer)(args, begin, end);
  });
}

}  // namespace

void register_resample_simd() {
  resample.add(DeviceType::cpu, {"simd", ImplKind::simd,
                                 [](const ResampleArgs& args) { return is_simd_float(args.x.dtype); }, run});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
