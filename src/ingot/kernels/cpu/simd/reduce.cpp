#include "ingot/kernels/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"
#include "ingot/kernels/cpu/strided.h"
#include "ingot/kernels/reduce_axes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The first NaN met stays: comparisons with it are false.
template <ReduceOp op>
HWY_INLINE V combine(V a, V b) {
  if constexpr (op == ReduceOp::sum) return hn::Add(a, b);
  if constexpr (op == ReduceOp::max) return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  if constexpr (op == ReduceOp::min) return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
}

float combine_scalar(ReduceOp op, float a, float b) {
  if (op == ReduceOp::sum) return a + b;
  if (a != a) return a;
  if (b != b) return b;
  return op == ReduceOp::max ? std::max(a, b) : std::min(a, b);
}

template <ReduceOp op>
float fold(const float* x, std::int64_t n, float start) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V a0 = hn::Set(d, start), a1 = a0, a2 = a0, a3 = a0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = combine<op>(a0, hn::LoadU(d, x + i));
    a1 = combine<op>(a1, hn::LoadU(d, x + i + lanes));
    a2 = combine<op>(a2, hn::LoadU(d, x + i + 2 * lanes));
    a3 = combine<op>(a3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a0 = combine<op>(a0, hn::LoadU(d, x + i));
  float parts[HWY_MAX_BYTES / sizeof(float)];
  hn::StoreU(combine<op>(combine<op>(a0, a1), combine<op>(a2, a3)), d, parts);
  float result = start;
  for (std::int64_t k = 0; k < lanes; ++k) result = combine_scalar(op, result, parts[k]);
  for (; i < n; ++i) result = combine_scalar(op, result, x[i]);
  return result;
}

float fold_block(ReduceOp op, const float* x, std::int64_t n) {
  if (op == ReduceOp::sum) return fold<ReduceOp::sum>(x, n, 0.0F);
  if (op == ReduceOp::max) return fold<ReduceOp::max>(x, n, -INFINITY);
  return fold<ReduceOp::min>(x, n, INFINITY);
}

// The first index of `value`, where any NaN is as good as another; n where there is none.
std::int64_t first_position(const float* x, std::int64_t n, float value) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const bool nan = std::isnan(value);
  const auto wanted = hn::Set(d, value);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    const auto at = hn::FindFirstTrue(d, nan ? hn::IsNaN(v) : hn::Eq(v, wanted));
    if (at >= 0) return i + at;
  }
  while (i < n && x[i] != value && !(nan && std::isnan(x[i]))) ++i;
  return i;
}

template <ReduceOp op>
void add_row(const float* x, std::int64_t n, float* acc) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(combine<op>(hn::LoadU(d, acc + i), hn::LoadU(d, x + i)), d, acc + i);
  for (; i < n; ++i) acc[i] = combine_scalar(op, acc[i], x[i]);
}

std::int64_t fold_lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }

void add_row_block(ReduceOp op, const float* x, std::int64_t n, float* acc) {
  if (op == ReduceOp::sum) return add_row<ReduceOp::sum>(x, n, acc);
  if (op == ReduceOp::max) return add_row<ReduceOp::max>(x, n, acc);
  add_row<ReduceOp::min>(x, n, acc);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(fold_block);
HWY_EXPORT(first_position);
HWY_EXPORT(fold_lanes);
HWY_EXPORT(add_row_block);

constexpr std::int64_t kGrain = 32768;   // elements: some 5 µs
constexpr std::int64_t kBlock = 1024;    // elements at once; fold_block sums four vectors at once, so that
constexpr std::int64_t kChain = 16;      // block_size() makes chains of 16 in f32
constexpr std::int64_t kColumns = 512;   // results that are built at once: 4 KiB of f64
constexpr std::int64_t kFlushRows = 16;  // rows summed in f32 before f64 takes over
constexpr std::int64_t kMaxParts = 16;
constexpr std::int64_t kArgmaxPiece = 8192;  // 1 µs

double start_value(ReduceOp op) {
  const double infinity = std::numeric_limits<double>::infinity();
  return op == ReduceOp::sum ? 0.0 : op == ReduceOp::max ? -infinity : infinity;
}

double combine_double(ReduceOp op, double a, double b) {
  if (op == ReduceOp::sum) return a + b;
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return op == ReduceOp::max ? std::max(a, b) : std::min(a, b);
}

const void* element(const View& view, std::int64_t offset) {
  return view.as<char>() + offset * static_cast<std::int64_t>(byte_size(view.dtype));
}

// n elements as contiguous floats: in place where they are that, else in `buffer`.
const float* floats(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t n,
                    float* buffer) {
  const void* from = element(view, offset);
  if (view.dtype == DType::f32 && (stride == 1 || n == 1)) return static_cast<const float*>(from);
  load_floats(from, view.dtype, stride, n, buffer);
  return buffer;
}

// Writes n results, `step` elements of y apart.
void write(const ReduceArgs& args, std::int64_t offset, std::int64_t step, const double* values,
           std::int64_t n) {
  void* to = args.y.as<char>() + offset * static_cast<std::int64_t>(byte_size(args.y.dtype));
  float results[kColumns], before[kColumns];
  for (std::int64_t k = 0; k < n; ++k) results[k] = static_cast<float>(values[k] * args.scale);
  if (args.accumulate) {
    load_floats(to, args.y.dtype, step, n, before);
    for (std::int64_t k = 0; k < n; ++k) results[k] += before[k];
  }
  store_floats(results, n, to, args.y.dtype, step);
}

std::int64_t block_size() { return std::min(kBlock, 4 * kChain * HWY_DYNAMIC_DISPATCH(fold_lanes)()); }

// The elements [begin, end) of what belongs to the result at x offset `base`.
double fold_range(const ReduceArgs& args, const StridedIterator<1>& reduced, std::int64_t base,
                  std::int64_t begin, std::int64_t end) {
  double value = start_value(args.op);
  float buffer[kBlock];
  const std::int64_t block = block_size();
  reduced.walk(begin, end, [&](const auto& at, std::int64_t n, const auto& step) {
    for (std::int64_t i = 0; i < n; i += block) {
      const std::int64_t size = std::min(block, n - i);
      const float* x = floats(args.x, base + at[0] + i * step[0], step[0], size, buffer);
      value = combine_double(args.op, value, HWY_DYNAMIC_DISPATCH(fold_block)(args.op, x, size));
    }
  });
  return value;
}

std::int64_t part_count(std::int64_t elements) {
  return std::min<std::int64_t>({num_threads(), kMaxParts, (elements + kGrain - 1) / kGrain});
}

// The innermost axis is summed.
void reduce_rows(const ReduceArgs& args, const ReduceAxes& axes) {
  const StridedIterator<2> kept({axes.x_kept, axes.y});
  const StridedIterator<1> reduced({axes.x_reduced});
  const bool few = kept.total() < num_threads() && part_count(reduced.total()) > 1;
  const auto each = [&](std::int64_t begin, std::int64_t end, auto&& fold) {
    kept.walk(begin, end, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        const double value = fold(at[0] + i * step[0]);
        write(args, at[1] + i * step[1], 1, &value, 1);
      }
    });
  };
  if (!few) {
    parallel_for(kept.total(), kGrain / (reduced.total() + 1), [&](std::int64_t begin, std::int64_t end) {
      each(begin, end,
           [&](std::int64_t base) { return fold_range(args, reduced, base, 0, reduced.total()); });
    });
    return;
  }
  const std::int64_t parts = part_count(reduced.total());
  each(0, kept.total(), [&](std::int64_t base) {
    std::array<double, kMaxParts> values;
    parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t p = first; p < last; ++p) {
        values[static_cast<std::size_t>(p)] =
            fold_range(args, reduced, base, reduced.total() * p / parts, reduced.total() * (p + 1) / parts);
      }
    });
    double value = values[0];
    for (std::int64_t p = 1; p < parts; ++p)
      value = combine_double(args.op, value, values[static_cast<std::size_t>(p)]);
    return value;
  });
}

using Columns = std::array<double, kColumns>;

// Reduces rows [begin, end) of `n` columns that start at x offset `base`.
void fold_columns(const ReduceArgs& args, const StridedIterator<1>& rows, std::int64_t base,
                  std::int64_t stride, std::int64_t n, std::int64_t begin, std::int64_t end,
                  Columns& result) {
  const double start = start_value(args.op);
  const auto width = static_cast<std::size_t>(n);
  float partial[kColumns], buffer[kColumns];
  std::fill_n(result.begin(), width, start);
  std::fill_n(partial, width, static_cast<float>(start));
  const auto flush = [&] {
    if (args.op == ReduceOp::sum) {  // apart, so that it becomes vector code
      for (std::size_t k = 0; k < width; ++k) result[k] += static_cast<double>(partial[k]);
    } else {
      for (std::size_t k = 0; k < width; ++k) result[k] = combine_double(args.op, result[k], partial[k]);
    }
    std::fill_n(partial, width, static_cast<float>(start));
  };
  std::int64_t count = 0;
  rows.walk(begin, end, [&](const auto& at, std::int64_t m, const auto& step) {
    for (std::int64_t i = 0; i < m; ++i) {
      const float* x = floats(args.x, base + at[0] + i * step[0], stride, n, buffer);
      HWY_DYNAMIC_DISPATCH(add_row_block)(args.op, x, n, partial);
      if (++count % kFlushRows == 0) flush();
    }
  });
  flush();
}

// The innermost axis is kept: whole stretches of results are built together.
void reduce_columns(const ReduceArgs& args, ReduceAxes axes) {
  const int last = axes.y.rank - 1;
  const auto inner = static_cast<std::size_t>(last);
  const std::int64_t width = axes.y.shape[inner];
  const std::int64_t x_stride = axes.x_kept.strides[inner], y_stride = axes.y.strides[inner];
  axes.x_kept.rank = axes.y.rank = last;
  const StridedIterator<2> outer({axes.x_kept, axes.y});
  const StridedIterator<1> rows({axes.x_reduced});
  const std::int64_t stretches = (width + kColumns - 1) / kColumns, jobs = outer.total() * stretches;

  // Job j: the stretch j % stretches of outer index j / stretches.
  const auto job = [&](std::int64_t j, auto&& fold) {
    const std::int64_t column = j % stretches * kColumns, n = std::min(kColumns, width - column);
    outer.walk(j / stretches, j / stretches + 1, [&](const auto& at, std::int64_t, const auto&) {
      Columns result;
      fold(at[0] + column * x_stride, n, result);
      write(args, at[1] + column * y_stride, y_stride, result.data(), n);
    });
  };
  const std::int64_t work = std::min(width, kColumns) * rows.total();
  if (jobs >= num_threads() || part_count(work) < 2) {
    parallel_for(jobs, kGrain / (work + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) {
        job(j, [&](std::int64_t base, std::int64_t n, Columns& result) {
          fold_columns(args, rows, base, x_stride, n, 0, rows.total(), result);
        });
      }
    });
    return;
  }
  const std::int64_t parts = part_count(work);
  for (std::int64_t j = 0; j < jobs; ++j) {
    job(j, [&](std::int64_t base, std::int64_t n, Columns& result) {
      std::array<Columns, kMaxParts> partial;
      parallel_for(parts, 1, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t p = first; p < end; ++p) {
          fold_columns(args, rows, base, x_stride, n, rows.total() * p / parts,
                       rows.total() * (p + 1) / parts, partial[static_cast<std::size_t>(p)]);
        }
      });
      result = partial[0];
      for (std::size_t p = 1; p < static_cast<std::size_t>(parts); ++p) {
        for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k) {
          result[k] = combine_double(args.op, result[k], partial[p][k]);
        }
      }
    });
  }
}

void run_reduce(const ReduceArgs& args, Stream) {
  const ReduceAxes axes(args);
  if (axes.inner_is_reduced || axes.y.rank == 0) {
    reduce_rows(args, axes);
  } else {
    reduce_columns(args, axes);
  }
}

float largest_of(const float* x, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(fold_block)(ReduceOp::max, x, n);
}

std::int64_t find_first(const float* x, std::int64_t n, float value) {
  return HWY_DYNAMIC_DISPATCH(first_position)(x, n, value);
}

// One long row, a vocabulary's logits, by all threads: only the piece with the largest is looked through
// again.
std::int64_t argmax_in_pieces(const float* x, std::int64_t n) {
  const std::int64_t pieces = std::clamp<std::int64_t>(n / kArgmaxPiece, 1, kMaxParts);
  const auto start = [=](std::int64_t piece) { return n * piece / pieces; };
  std::array<float, kMaxParts> tops{};
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      tops[static_cast<std::size_t>(p)] = largest_of(x + start(p), start(p + 1) - start(p));
  });
  const float largest = largest_of(tops.data(), pieces);
  const std::int64_t first = find_first(tops.data(), pieces, largest);
  return start(first) + find_first(x + start(first), start(first + 1) - start(first), largest);
}

void run_argmax(const ArgmaxArgs& args, Stream) {
  const std::int64_t n = args.x.dim(-1);
  const auto* x = args.x.as<float>();
  auto* y = args.y.as<std::int64_t>();
  if (args.x.rows() == 1) {
    *y = argmax_in_pieces(x, n);
    return;
  }
  parallel_for(args.x.rows(), kGrain / (n + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      y[row] = find_first(x + row * n, n, largest_of(x + row * n, n));
  });
}

}  // namespace

void register_reduce_simd() {
  reduce.add(DeviceType::cpu, {"simd", ImplKind::simd,
                               [](const ReduceArgs& args) {
                                 return is_simd_float(args.x.dtype) && args.x.dtype == args.y.dtype;
                               },
                               run_reduce});
  argmax.add(DeviceType::cpu,
             {"simd", ImplKind::simd, [](const ArgmaxArgs& args) { return args.x.dtype == DType::f32; },
              run_argmax});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
