#include "ingot/kernels/gemm.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/gemm_plan.h"
#include "ingot/kernels/cpu/reads_backward.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/gemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/dot-inl.h"
#include "ingot/kernels/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Columns [begin, end) of c; b holds one row of k values per column.
template <class B, class T>
void skinny_columns(const Skinny& s, const float* a, const B* b, const T* bias, T* c, std::int64_t begin,
                    std::int64_t end) {
  float y[4 * 16];
  for (std::int64_t j = begin; j < end; j += 4) {
    const std::int64_t cols = std::min<std::int64_t>(4, end - j);
    if (cols == 4) {
      // Beyond this piece, too: the next one is mostly this thread's.
      dot_rows<4>(s.m, s.k, a, s.lda, b + j * s.ldb, s.ldb, y, 4, j + 8 <= s.n);
    } else {
      for (std::int64_t t = 0; t < cols; ++t)
        dot_rows<1>(s.m, s.k, a, s.lda, b + (j + t) * s.ldb, s.ldb, y + t, 4);
    }
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t t = 0; t < cols; ++t) {
        T* to = c + i * s.ldc + j + t;
        float value = s.alpha * y[i * 4 + t];
        if (s.beta != 0.0F) value += s.beta * static_cast<float>(*to);
        if (bias != nullptr) value += static_cast<float>(bias[j + t]);
        *to = static_cast<T>(value);
      }
    }
  }
}

void skinny_f32(const Skinny& s, const float* a, const void* b, const void* bias, void* c, std::int64_t begin,
                std::int64_t end) {
  skinny_columns(s, a, static_cast<const float*>(b), static_cast<const float*>(bias), static_cast<float*>(c),
                 begin, end);
}
void skinny_bf16(const Skinny& s, const float* a, const void* b, const void* bias, void* c,
                 std::int64_t begin, std::int64_t end) {
  skinny_columns(s, a, static_cast<const bf16*>(b), static_cast<const bf16*>(bias), static_cast<bf16*>(c),
                 begin, end);
}
void skinny_f16(const Skinny& s, const float* a, const void* b, const void* bias, void* c, std::int64_t begin,
                std::int64_t end) {
  skinny_columns(s, a, static_cast<const f16*>(b), static_cast<const f16*>(bias), static_cast<f16*>(c), begin,
                 end);
}

// Weights in half precision, everything else f32.
void skinny_bf16_f32(const Skinny& s, const float* a, const void* b, const void* bias, void* c,
                     std::int64_t begin, std::int64_t end) {
  skinny_columns(s, a, static_cast<const bf16*>(b), static_cast<const float*>(bias), static_cast<float*>(c),
                 begin, end);
}
void skinny_f16_f32(const Skinny& s, const float* a, const void* b, const void* bias, void* c,
                    std::int64_t begin, std::int64_t end) {
  skinny_columns(s, a, static_cast<const f16*>(b), static_cast<const float*>(bias), static_cast<float*>(c),
                 begin, end);
}

// to[j] (+)= Σ_i x[i, j] over rows [begin, end) and columns [first, last), eight vectors of columns at a
// time.
template <class T>
void column_sums_of(const T* x, std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t first,
                    std::int64_t last, float* to, bool accumulate) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t j = first;
  for (; j + 8 * lanes <= last; j += 8 * lanes) {
    hn::Vec<D> sum[8];
    INGOT_UNROLL
    for (int v = 0; v < 8; ++v) sum[v] = accumulate ? hn::LoadU(d, to + j + v * lanes) : hn::Zero(d);
    for (std::int64_t i = begin; i < end; ++i) {
      INGOT_UNROLL
      for (int v = 0; v < 8; ++v) sum[v] = hn::Add(sum[v], load_lanes(d, x + i * n + j + v * lanes));
    }
    INGOT_UNROLL
    for (int v = 0; v < 8; ++v) hn::StoreU(sum[v], d, to + j + v * lanes);
  }
  for (; j < last; ++j) {
    float sum = accumulate ? to[j] : 0.0F;
    for (std::int64_t i = begin; i < end; ++i) sum += static_cast<float>(x[i * n + j]);
    to[j] = sum;
  }
}

void column_sums(const View& x, std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t last,
                 float* to, bool accumulate) {
  dispatch_simd_float(x.dtype, [&]<class T>() {
    column_sums_of(x.as<T>(), x.dim(1), begin, end, first, last, to, accumulate);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(skinny_f32);
HWY_EXPORT(skinny_bf16);
HWY_EXPORT(skinny_f16);
HWY_EXPORT(skinny_bf16_f32);
HWY_EXPORT(skinny_f16_f32);
HWY_EXPORT(column_sums);

constexpr std::int64_t kMaxRows = 16;

// A few rows against a matrix stored with k adjacent, x·Wᵀ: each weight is read once, at memory bandwidth.
bool as_skinny(GemmPlan& plan, const GemmArgs& args) {
  const bool mixed = args.b.dtype != args.c.dtype;  // then a and b cannot change positions
  if (!mixed && (plan.m > kMaxRows || plan.b_row != 1)) plan.transpose();
  return plan.m <= kMaxRows && plan.b_row == 1 && plan.a_col == 1 && plan.c_col == 1;
}

bool accepts_skinny(const GemmArgs& args) {
  if (args.c.dtype == DType::f64) return false;
  GemmPlan plan(args);
  const std::int64_t n = plan.n;
  if (plan.empty() || plan.summed_count != 1 || !as_skinny(plan, args)) return false;
  return !args.bias || (args.bias.is_contiguous() && plan.n == n && n == args.bias.dim(0));
}

void run_skinny(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  as_skinny(plan, args);
  const DType dtype = args.c.dtype, weights = args.b.dtype;
  const auto size = static_cast<std::int64_t>(byte_size(dtype));
  const auto weight_size = static_cast<std::int64_t>(byte_size(weights));
  const auto kernel = [dtype, weights](auto&&... arguments) {
    if (weights != dtype) {
      if (weights == DType::bf16) return HWY_DYNAMIC_DISPATCH(skinny_bf16_f32)(arguments...);
      return HWY_DYNAMIC_DISPATCH(skinny_f16_f32)(arguments...);
    }
    if (dtype == DType::f32) return HWY_DYNAMIC_DISPATCH(skinny_f32)(arguments...);
    if (dtype == DType::bf16) return HWY_DYNAMIC_DISPATCH(skinny_bf16)(arguments...);
    HWY_DYNAMIC_DISPATCH(skinny_f16)(arguments...);
  };
  const auto bytes = [size](const void* p, std::int64_t offset) {
    return static_cast<const char*>(p) + offset * size;
  };
  const auto* b = static_cast<const char*>(plan.b);
  const auto multiply = [&](std::int64_t item, std::int64_t begin, std::int64_t end) {
    const auto at = plan.batch_offsets(item);
    Skinny s{plan.m, plan.n, plan.k, plan.a_row, plan.b_col, plan.c_row, args.alpha, args.beta};
    const float* a = reinterpret_cast<const float*>(bytes(plan.a, at.a));
    if (dtype != DType::f32) {
      float* wide = thread_scratch(0, static_cast<std::size_t>(plan.m * plan.k));
      load_tile({bytes(plan.a, at.a), dtype, plan.m, plan.k, plan.a_row}, wide, plan.k);
      a = wide;
      s.lda = plan.k;
    }
    kernel(s, a, b + at.b * weight_size, args.bias.data, const_cast<char*>(bytes(plan.c, at.c)), begin, end);
  };
  constexpr std::int64_t kGrain = 1 << 16;  // elements of b: 256 KiB, about 8 µs of memory traffic
  if (plan.batch_count > 1) {
    parallel_for(plan.batch_count, kGrain / (plan.n * plan.k) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) multiply(i, 0, plan.n);
    });
    return;
  }
  // In groups of four columns, so that the split does not change how they are grouped.
  constexpr std::int64_t kPiece = 1 << 15;  // elements: 64 or 128 KiB
  const std::int64_t groups = (plan.n + 3) / 4, piece = 1 + kPiece / (4 * plan.k);
  const auto columns = [&](std::int64_t begin, std::int64_t end) {
    multiply(0, begin * 4, std::min(end * 4, plan.n));
  };
  const bool backward = reads_backward(plan.b);
  parallel_share(groups, kGrain / (4 * plan.k) + 1, piece, [&](std::int64_t begin, std::int64_t end) {
    if (!backward) return columns(begin, end);
    for (std::int64_t last = groups - begin; last > groups - end; last -= piece)
      columns(std::max(groups - end, last - piece), last);
  });
}

bool accepts_column_sum(const ColumnSumArgs& args) { return is_simd_float(args.x.dtype); }

void run_column_sum(const ColumnSumArgs& args, Stream) {
  const std::int64_t m = args.x.dim(0), n = args.x.dim(1);
  constexpr std::int64_t kGrain = 1 << 15;         // elements, about 5 µs
  constexpr std::int64_t kColumns = 128;           // per item: one block of column_sums
  const bool direct = args.y.dtype == DType::f32;  // half precision is summed apart and rounded once
  if (direct && (n >= 2 * kColumns * num_threads() || m * n <= kGrain)) {
    parallel_for((n + kColumns - 1) / kColumns, kGrain / (kColumns * m + 1) + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   HWY_DYNAMIC_DISPATCH(column_sums)
                   (args.x, 0, m, begin * kColumns, std::min(end * kColumns, n), args.y.as<float>(),
                    args.accumulate);
                 });
    return;
  }
  const std::int64_t parts = args.partials.dim(0);
  float* partials = args.partials.as<float>();
  parallel_for(parts, kGrain / (m * n / parts + 1) + 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      HWY_DYNAMIC_DISPATCH(column_sums)
      (args.x, m * part / parts, m * (part + 1) / parts, 0, n, partials + part * n, false);
    }
  });
  HWY_DYNAMIC_DISPATCH(column_sums)(args.partials, 1, parts, 0, n, partials, true);
  store_tile(partials, n, {args.y.data, args.y.dtype, 1, n, n}, args.accumulate);
}

}  // namespace

void register_gemm_simd() {
  gemm.add(DeviceType::cpu, {"skinny", ImplKind::simd, accepts_skinny, run_skinny});
  column_sum.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_column_sum, run_column_sum});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
