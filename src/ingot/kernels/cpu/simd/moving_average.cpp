#include "ingot/kernels/moving_average.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/moving_average.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;  // sums
using F = hn::Rebind<float, D>;     // values
using V = hn::Vec<D>;

// Neighbouring columns of one line: as many as a vector of sums has lanes.
struct Columns {
  const float* x;
  float* y;
  std::int64_t length, stride, window;
  bool accumulate;

  HWY_INLINE V at(std::int64_t i) const { return hn::PromoteTo(D(), hn::LoadU(F(), x + i * stride)); }
  HWY_INLINE void write(std::int64_t i, V sum) const {
    float* to = y + i * stride;
    auto mean = hn::DemoteTo(F(), hn::Mul(sum, hn::Set(D(), 1.0 / static_cast<double>(window))));
    if (accumulate) mean = hn::Add(mean, hn::LoadU(F(), to));
    hn::StoreU(mean, F(), to);
  }
};

// A sum that slides along: the reference explains both directions.
void average(const Columns& c) {
  const std::int64_t before = c.window / 2, after = c.window - 1 - before, last = c.length - 1;
  V sum = hn::Zero(D());
  for (std::int64_t i = -before; i <= after; ++i) {
    sum = hn::Add(sum, c.at(std::clamp<std::int64_t>(i, 0, last)));
  }
  c.write(0, sum);
  for (std::int64_t i = 1; i <= last; ++i) {
    sum = hn::Add(sum, c.at(std::min(i + after, last)));
    sum = hn::Sub(sum, c.at(std::max<std::int64_t>(i - before - 1, 0)));
    c.write(i, sum);
  }
}

void spread(const Columns& c) {
  const std::int64_t before = c.window / 2, after = c.window - 1 - before, n = c.length;
  const auto times = [](std::int64_t k, V v)
                         HWY_ATTR { return hn::Mul(hn::Set(D(), static_cast<double>(k)), v); };
  V sum = hn::Zero(D());
  for (std::int64_t i = 0; i < std::min(n, before); ++i) sum = hn::Add(sum, c.at(i));
  for (std::int64_t j = 0; j < n; ++j) {
    if (j + before < n) sum = hn::Add(sum, c.at(j + before));
    if (j - after - 1 >= 0) sum = hn::Sub(sum, c.at(j - after - 1));
    V all = sum;
    for (std::int64_t i = 0; j == 0 && i < std::min(n, before); ++i) {
      all = hn::Add(all, times(before - i, c.at(i)));
    }
    for (std::int64_t i = std::max<std::int64_t>(0, n - after); j == n - 1 && i < n; ++i) {
      all = hn::Add(all, times(i + after + 1 - n, c.at(i)));
    }
    c.write(j, all);
  }
}

std::int64_t columns_at_once() { return static_cast<std::int64_t>(hn::Lanes(D())); }

void run_columns(const MovingAverageArgs& args, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = args.x.dim(1), inner = args.x.dim(2), blocks = inner / columns_at_once();
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t offset = item / blocks * n * inner + item % blocks * columns_at_once();
    const Columns columns{
        args.x.as<float>() + offset, args.y.as<float>() + offset, n, inner, args.window, args.accumulate};
    args.transposed ? spread(columns) : average(columns);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(columns_at_once);
HWY_EXPORT(run_columns);

// Whole vectors of columns: the widths of networks.
bool accepts(const MovingAverageArgs& args) {
  return args.x.dtype == DType::f32 && args.x.dim(2) % HWY_DYNAMIC_DISPATCH(columns_at_once)() == 0;
}

void run(const MovingAverageArgs& args, Stream) {
  const std::int64_t columns = HWY_DYNAMIC_DISPATCH(columns_at_once)();
  parallel_for(args.x.dim(0) * args.x.dim(2) / columns,
               std::max<std::int64_t>(1, 16'384 / (args.x.dim(1) * columns)),
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(run_columns)
                 (args, begin, end);
               });
}

}  // namespace

void register_moving_average_simd() {
  moving_average.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
