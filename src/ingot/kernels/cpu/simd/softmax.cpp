#include "ingot/kernels/softmax.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/softmax.cpp"
#include <hwy/foreach_target.h>

#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

float max_block(const float* x, std::int64_t n) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V largest = set(-INFINITY);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) largest = hn::Max(largest, hn::LoadU(d, x + i));
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < n; ++i) result = std::max(result, x[i]);
  return result;
}

// Σ f(i-th vector); the tail is a padded vector, of which f must make the padding 0 (n is passed for that).
template <std::size_t N, class F>
HWY_INLINE float sum_map(const float* const (&in)[N], std::int64_t n, F&& f) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = hn::Zero(d);
  const auto at = [&](std::int64_t i) HWY_ATTR {
    if constexpr (N == 1) return f(hn::LoadU(d, in[0] + i));
    if constexpr (N == 2) return f(hn::LoadU(d, in[0] + i), hn::LoadU(d, in[1] + i));
  };
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    s0 = hn::Add(s0, at(i));
    s1 = hn::Add(s1, at(i + lanes));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, at(i));
  if (i < n) {
    float padded[N][HWY_MAX_BYTES / sizeof(float)] = {};
    for (std::size_t k = 0; k < N; ++k) {
      std::memcpy(padded[k], in[k] + i, static_cast<std::size_t>(n - i) * sizeof(float));
    }
    V value = hn::Zero(d);
    if constexpr (N == 1) value = f(hn::LoadU(d, padded[0]));
    if constexpr (N == 2) value = f(hn::LoadU(d, padded[0]), hn::LoadU(d, padded[1]));
    s0 = hn::Add(s0, hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(n - i)), value));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
}

float exp_sum_block(const float* x, std::int64_t n, float largest) {
  const V shift = set(largest);
  return sum_map<1>({x}, n, [=](V v) HWY_ATTR { return exp(hn::Sub(v, shift)); });
}

// y = factor·exp(x − shift), or x − shift; or added to y.
void exp_block(const float* x, float* y, std::int64_t n, float shift, float factor, bool exponential,
               bool accumulate) {
  const V s = set(shift), f = set(factor);
  if (exponential) {
    map<1>({x}, y, n, accumulate, [=](V v) HWY_ATTR { return hn::Mul(f, exp(hn::Sub(v, s))); });
  } else {
    map<1>({x}, y, n, accumulate, [=](V v) HWY_ATTR { return hn::Sub(v, s); });
  }
}

float dot_block(const float* y, const float* dy, std::int64_t n, bool log) {
  if (log) return sum_map<1>({dy}, n, [](V g) HWY_ATTR { return g; });
  return sum_map<2>({y, dy}, n, [](V v, V g) HWY_ATTR { return hn::Mul(v, g); });
}

void backward_block(const float* y, const float* dy, float* dx, std::int64_t n, float sum, bool log,
                    bool accumulate) {
  const V s = set(sum);
  if (log) {
    map<2>({y, dy}, dx, n, accumulate, [=](V v, V g) HWY_ATTR { return hn::NegMulAdd(exp(v), s, g); });
  } else {
    map<2>({y, dy}, dx, n, accumulate, [=](V v, V g) HWY_ATTR { return hn::Mul(v, hn::Sub(g, s)); });
  }
}

// Rows of f32: the same numbers as through for_each_block, without its cost for each row.
void softmax_rows(const float* x, float* y, std::int64_t rows, std::int64_t n, bool log) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float largest = max_block(x, n), sum = exp_sum_block(x, n, largest);
    exp_block(x, y, n, log ? largest + std::log(sum) : largest, 1.0F / sum, !log, false);
  }
}

void softmax_backward_rows(const float* y, const float* dy, float* dx, std::int64_t rows, std::int64_t n,
                           bool log, bool accumulate) {
  for (std::int64_t r = 0; r < rows; ++r, y += n, dy += n, dx += n)
    backward_block(y, dy, dx, n, dot_block(y, dy, n, log), log, accumulate);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(max_block);
HWY_EXPORT(exp_sum_block);
HWY_EXPORT(exp_block);
HWY_EXPORT(dot_block);
HWY_EXPORT(backward_block);
HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_backward_rows);

constexpr std::int64_t kGrain = 8192;  // elements that take some 5 µs

// Row `row` of a contiguous view.
View row_of(View view, std::int64_t row) {
  if (!view) return view;
  const std::int64_t n = view.dim(-1);
  view.data = view.as<char>() + row * n * static_cast<std::int64_t>(byte_size(view.dtype));
  view.rank = 1;
  view.shape[0] = n;
  view.strides[0] = 1;
  return view;
}

constexpr std::int64_t kWhole = std::int64_t{1} << 62;  // grain: a row stays on its thread

template <class Body>
void for_each_row(const View& view, Body&& body) {
  parallel_for(view.rows(), kGrain / (view.dim(-1) + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

struct RowSum {
  float largest, sum;
};

// Blocks of a row are summed apart, in order, in f64.
RowSum exp_sum(const View& x) {
  float largest = -INFINITY;
  for_each_block<1>({reads(x)}, kWhole, [&](const auto& p, std::int64_t n) {
    largest = std::max(largest, HWY_DYNAMIC_DISPATCH(max_block)(p[0], n));
  });
  const float shift = largest;
  double sum = 0;
  for_each_block<1>({reads(x)}, kWhole, [&](const auto& p, std::int64_t n) {
    sum += HWY_DYNAMIC_DISPATCH(exp_sum_block)(p[0], n, shift);
  });
  return {largest, static_cast<float>(sum)};
}

template <class... Views>
bool are_f32(const Views&... views) {
  return ((views.dtype == DType::f32) && ...);
}

template <class Body>
void for_each_rows(const View& view, Body&& body) {
  parallel_for(view.rows(), kGrain / (view.dim(-1) + 1), body);
}

void run_softmax(const SoftmaxArgs& args, Stream) {
  if (are_f32(args.x, args.y)) {
    const std::int64_t n = args.x.dim(-1);
    for_each_rows(args.x, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(softmax_rows)
      (args.x.as<float>() + begin * n, args.y.as<float>() + begin * n, end - begin, n, args.log);
    });
    return;
  }
  for_each_row(args.x, [&](std::int64_t row) {
    const View x = row_of(args.x, row);
    const RowSum total = exp_sum(x);
    const float shift = args.log ? total.largest + std::log(total.sum) : total.largest;
    for_each_block<2>({reads(x), writes(row_of(args.y, row), false)}, kWhole,
                      [&](const auto& p, std::int64_t n) {
                        HWY_DYNAMIC_DISPATCH(exp_block)
                        (p[0], p[1], n, shift, 1.0F / total.sum, !args.log, false);
                      });
  });
}

void run_softmax_backward(const SoftmaxBackwardArgs& args, Stream) {
  if (are_f32(args.y, args.dy, args.dx)) {
    const std::int64_t n = args.y.dim(-1);
    for_each_rows(args.y, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(softmax_backward_rows)
      (args.y.as<float>() + begin * n, args.dy.as<float>() + begin * n, args.dx.as<float>() + begin * n,
       end - begin, n, args.log, args.accumulate);
    });
    return;
  }
  for_each_row(args.y, [&](std::int64_t row) {
    const Operand y = reads(row_of(args.y, row)), dy = reads(row_of(args.dy, row));
    double sum = 0;
    for_each_block<2>({y, dy}, kWhole, [&](const auto& p, std::int64_t n) {
      sum += HWY_DYNAMIC_DISPATCH(dot_block)(p[0], p[1], n, args.log);
    });
    for_each_block<3>({y, dy, writes(row_of(args.dx, row), args.accumulate)}, kWhole,
                      [&](const auto& p, std::int64_t n) {
                        HWY_DYNAMIC_DISPATCH(backward_block)
                        (p[0], p[1], p[2], n, static_cast<float>(sum), args.log, args.accumulate);
                      });
  });
}

void run_logsumexp(const LogSumExpArgs& args, Stream) {
  for_each_row(args.x, [&](std::int64_t row) {
    const RowSum total = exp_sum(row_of(args.x, row));
    const float value = std::isinf(total.largest) ? total.largest : total.largest + std::log(total.sum);
    args.y.as<float>()[row] = value;
  });
}

void run_logsumexp_backward(const LogSumExpBackwardArgs& args, Stream) {
  for_each_row(args.x, [&](std::int64_t row) {
    for_each_block<2>({reads(row_of(args.x, row)), writes(row_of(args.dx, row), args.accumulate)}, kWhole,
                      [&](const auto& p, std::int64_t n) {
                        HWY_DYNAMIC_DISPATCH(exp_block)
                        (p[0], p[1], n, args.y.as<float>()[row], args.dy.as<float>()[row], true,
                         args.accumulate);
                      });
  });
}

}  // namespace

void register_softmax_simd() {
  softmax.add(DeviceType::cpu,
              {"simd", ImplKind::simd,
               [](const SoftmaxArgs& args) { return are_simd_floats(args.x, args.y); }, run_softmax});
  softmax_backward.add(DeviceType::cpu, {"simd", ImplKind::simd,
                                         [](const SoftmaxBackwardArgs& args) {
                                           return are_simd_floats(args.y, args.dy, args.dx);
                                         },
                                         run_softmax_backward});
  logsumexp.add(DeviceType::cpu,
                {"simd", ImplKind::simd, [](const LogSumExpArgs& args) { return args.x.dtype == DType::f32; },
                 run_logsumexp});
  logsumexp_backward.add(
      DeviceType::cpu,
      {"simd", ImplKind::simd, [](const LogSumExpBackwardArgs& args) { return args.x.dtype == DType::f32; },
       run_logsumexp_backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
