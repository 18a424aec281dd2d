#include "ingot/kernels/selective_scan.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/scan_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/selective_scan.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/loops-inl.h"
#include "ingot/kernels/cpu/simd/scan_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Rows [first, last) of a head's state, which do not depend on one another.
void scan_rows(const SelectiveScanArgs& args, const ScanHead& at, std::int64_t first, std::int64_t last) {
  float* state = args.state.as<float>() + at.state();
  for (std::int64_t t = 0; t < at.steps; ++t) {
    if (at.begins(args.starts, t)) std::fill(state + first * at.width, state + last * at.width, 0.0F);
    const float decay = std::exp(args.decay.as<float>()[at.step(t)]);
    const float* keys = args.keys.as<float>() + at.keys(t);
    const float* queries = args.queries.as<float>() + at.keys(t);
    const float* x = args.x.as<float>() + at.x(t);
    float* y = args.y.as<float>() + at.x(t);
    for (std::int64_t p = first; p < last; ++p)
      y[p] = scan_row(state + p * at.width, state + p * at.width, decay, x[p], keys, queries, at.width);
  }
}

void scan_queries_gradient(const SelectiveScanBackwardArgs& args, const ScanHead& at) {
  float* state = args.scratch.as<float>() + at.state();
  std::fill_n(state, at.size * at.width, 0.0F);
  for (std::int64_t t = 0; t < at.steps; ++t) {
    if (at.begins(args.starts, t)) std::fill_n(state, at.size * at.width, 0.0F);
    const float decay = std::exp(args.decay.as<float>()[at.step(t)]);
    const float* keys = args.keys.as<float>() + at.keys(t);
    float* dqueries = args.dqueries.as<float>() + at.dkeys(t);
    std::fill_n(dqueries, at.width, 0.0F);
    for (std::int64_t p = 0; p < at.size; ++p) {
      const float x = args.x.as<float>()[at.x(t) + p], dy = args.dy.as<float>()[at.x(t) + p];
      float* row = state + p * at.width;
      for_vectors(at.width, [&](auto d, std::int64_t n) HWY_ATTR {
        const auto s = hn::MulAdd(hn::Set(d, x), hn::LoadU(d, keys + n),
                                  hn::Mul(hn::Set(d, decay), hn::LoadU(d, row + n)));
        hn::StoreU(s, d, row + n);
        hn::StoreU(hn::MulAdd(hn::Set(d, dy), s, hn::LoadU(d, dqueries + n)), d, dqueries + n);
      });
    }
  }
}

// As the reference explains them.
void scan_gradients(const SelectiveScanBackwardArgs& args, const ScanHead& at) {
  float* state = args.scratch.as<float>() + at.state();
  std::fill_n(state, at.size * at.width, 0.0F);
  float decay = 0;
  double next = 0;
  for (std::int64_t t = at.steps - 1; t >= 0; --t) {
    const float* keys = args.keys.as<float>() + at.keys(t);
    const float* queries = args.queries.as<float>() + at.keys(t);
    float* dkeys = args.dkeys.as<float>() + at.dkeys(t);
    std::fill_n(dkeys, at.width, 0.0F);
    for (std::int64_t p = 0; p < at.size; ++p) {
      const std::int64_t i = at.x(t) + p;
      const float x = args.x.as<float>()[i], dy = args.dy.as<float>()[i];
      float* row = state + p * at.width;
      const float dx = sum_vectors(at.width, [&](auto d, std::int64_t n, auto sum) HWY_ATTR {
        const auto g = hn::MulAdd(hn::Set(d, dy), hn::LoadU(d, queries + n),
                                  hn::Mul(hn::Set(d, decay), hn::LoadU(d, row + n)));
        hn::StoreU(g, d, row + n);
        hn::StoreU(hn::MulAdd(hn::Set(d, x), g, hn::LoadU(d, dkeys + n)), d, dkeys + n);
        return hn::MulAdd(g, hn::LoadU(d, keys + n), sum);
      });
      next += static_cast<double>(dy) * static_cast<double>(args.y.as<float>()[i]) -
              static_cast<double>(dx) * static_cast<double>(x);
      if (args.dx) args.dx.as<float>()[i] = args.accumulate_dx ? args.dx.as<float>()[i] + dx : dx;
    }
    const bool first = t == 0 || at.begins(args.starts, t);
    decay = first ? 0 : std::exp(args.decay.as<float>()[at.step(t)]);
    if (first) {
      next = 0;
      std::fill_n(state, at.size * at.width, 0.0F);
    }
    if (!args.ddecay) continue;
    float& to = args.ddecay.as<float>()[at.step(t)];
    to = static_cast<float>(args.accumulate_ddecay ? static_cast<double>(to) + next : next);
  }
}

void scan_backward(const SelectiveScanBackwardArgs& args, const ScanHead& head) {
  scan_queries_gradient(args, head);
  scan_gradients(args, head);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(scan_rows);
HWY_EXPORT(scan_backward);

constexpr std::int64_t kGrainOfProducts = 32'768;

bool takes_scan(const SelectiveScanArgs& args) { return args.x.dtype == DType::f32; }

void run_selective_scan(const SelectiveScanArgs& args, Stream) {
  parallel_scan_rows(args.x, args.keys, kGrainOfProducts,
                     [&](const ScanHead& head, std::int64_t first, std::int64_t last) {
                       HWY_DYNAMIC_DISPATCH(scan_rows)(args, head, first, last);
                     });
}

bool takes_scan_backward(const SelectiveScanBackwardArgs& args) { return args.x.dtype == DType::f32; }

void run_selective_scan_backward(const SelectiveScanBackwardArgs& args, Stream) {
  parallel_scan_heads(args.x, args.keys, kGrainOfProducts, [&](const ScanHead& head) {
    HWY_DYNAMIC_DISPATCH(scan_backward)(args, head);
  });
}

}  // namespace

void register_selective_scan_simd() {
  selective_scan.add(DeviceType::cpu, {"simd", ImplKind::simd, takes_scan, run_selective_scan});
  selective_scan_backward.add(DeviceType::cpu,
                              {"simd", ImplKind::simd, takes_scan_backward, run_selective_scan_backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
