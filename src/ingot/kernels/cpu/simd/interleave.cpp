#include <cstdint>

#include "ingot/kernels/copy.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/strided.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/interleave.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Copies whose result interleaves a few elements, each from a row of its own: blocks of channels that
// become positions, and, where all rows are one, elements that repeat (an image enlarged by a whole factor).
// The runs are only that few elements long; here a row of them goes by whole vectors. And the way back: every
// second, third or fourth element.
HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

// y[i·count + k] = x[i + k·apart], i < n.
void interleave_row(const float* x, std::int64_t apart, std::int64_t count, float* y, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto row = [&](std::int64_t k) HWY_ATTR { return hn::LoadU(d, x + k * apart + i); };
  for (; count == 2 && i + lanes <= n; i += lanes) hn::StoreInterleaved2(row(0), row(1), d, y + 2 * i);
  for (; count == 3 && i + lanes <= n; i += lanes)
    hn::StoreInterleaved3(row(0), row(1), row(2), d, y + 3 * i);
  for (; count == 4 && i + lanes <= n; i += lanes)
    hn::StoreInterleaved4(row(0), row(1), row(2), row(3), d, y + 4 * i);
#endif
  for (; i < n; ++i) {
    for (std::int64_t k = 0; k < count; ++k) y[i * count + k] = x[i + k * apart];
  }
}

// y[i] = x[i·step], i < n.
void spaced_row(const float* x, std::int64_t step, float* y, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  const auto load = [&](const float* from) HWY_ATTR {
    if (step == 2) hn::LoadInterleaved2(d, from, a, b);
    if (step == 3) hn::LoadInterleaved3(d, from, a, b, c);
    if (step == 4) hn::LoadInterleaved4(d, from, a, b, c, e);
  };
  for (; i + lanes < n; i += lanes) {  // not the last, behind which nothing may be read
    load(x + i * step);
    hn::StoreU(a, d, y + i);
  }
#endif
  for (; i < n; ++i) y[i] = x[i * step];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(interleave_row);
HWY_EXPORT(spaced_row);

constexpr std::int64_t kGrain = 65536;  // elements, about 10 µs

bool are_alike(const CopyArgs& args) {
  return args.x.dtype == args.y.dtype && byte_size(args.x.dtype) == sizeof(float) && !args.accumulate &&
         args.x.numel() > 0;
}

struct Interleaving {
  View x, y;  // without the two innermost axes
  std::int64_t apart = 0, count = 0, n = 0;
};

// None: n is 0.
Interleaving interleaving(const CopyArgs& args) {
  constexpr std::int64_t kMost = 7, kLeast = 4;  // interleaved rows; positions in a row
  if (!are_alike(args)) return {};
  const StridedIterator<2> runs({args.x, args.y});
  const int turn = runs.rank() - 1, row = runs.rank() - 2;
  if (row < 0 || runs.inner() > kMost || runs.size(row) < kLeast) return {};
  if (runs.stride(turn, 1) != 1 || runs.stride(row, 1) != runs.inner() || runs.stride(row, 0) != 1) return {};
  Interleaving found{args.x, args.y, runs.stride(turn, 0), runs.inner(), runs.size(row)};
  found.x.rank = found.y.rank = static_cast<decltype(found.x.rank)>(row);
  for (int i = 0; i < row; ++i) {
    const auto at = static_cast<std::size_t>(i);
    found.x.shape[at] = found.y.shape[at] = runs.size(i);
    found.x.strides[at] = runs.stride(i, 0);
    found.y.strides[at] = runs.stride(i, 1);
  }
  return found;
}

bool accepts_interleaved(const CopyArgs& args) { return interleaving(args).n > 0; }

void run_interleaved(const CopyArgs& args, Stream) {
  const Interleaving rows = interleaving(args);
  parallel_runs<2>({rows.x, rows.y}, kGrain / (rows.n * rows.count) + 1,
                   [&](const auto& offsets, std::int64_t n, const auto& strides) {
                     const float* x = rows.x.as<float>() + offsets[0];
                     float* y = rows.y.as<float>() + offsets[1];
                     for (std::int64_t i = 0; i < n; ++i, x += strides[0], y += strides[1])
                       HWY_DYNAMIC_DISPATCH(interleave_row)(x, rows.apart, rows.count, y, rows.n);
                   });
}

bool accepts_spaced(const CopyArgs& args) {
  constexpr std::int64_t kMost = 4, kLeast = 8;  // apart; positions in a row
  if (!are_alike(args)) return false;
  const StridedIterator<2> runs({args.x, args.y});
  const int last = runs.rank() - 1;
  return runs.stride(last, 0) > 1 && runs.stride(last, 0) <= kMost && runs.stride(last, 1) == 1 &&
         runs.inner() >= kLeast;
}

void run_spaced(const CopyArgs& args, Stream) {
  parallel_runs<2>({args.x, args.y}, kGrain, [&](const auto& offsets, std::int64_t n, const auto& strides) {
    HWY_DYNAMIC_DISPATCH(spaced_row)
    (args.x.as<float>() + offsets[0], strides[0], args.y.as<float>() + offsets[1], n);
  });
}

}  // namespace

void register_interleave_simd() {
  copy.add(DeviceType::cpu, {"interleaved", ImplKind::simd, accepts_interleaved, run_interleaved});
  copy.add(DeviceType::cpu, {"spaced", ImplKind::simd, accepts_spaced, run_spaced});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
