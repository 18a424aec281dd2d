#include "ingot/kernels/low_rank.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/low_rank.h"
#include "ingot/kernels/cpu/simd/convert.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/low_rank.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/dot-inl.h"
#include "ingot/kernels/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// inner[:, first, last) of rows [row, row + rows) of the update; `first` is a multiple of four, so that the
// split does not change how ranks are grouped.
template <class W>
void shrink_rows(const View& x, const LowRankUpdate& update, std::int64_t row, std::int64_t rows,
                 std::int64_t first, std::int64_t last, float* inner) {
  const std::int64_t in = x.dim(1), rank = update.rank(), lda = update.a.stride(0), ldx = x.stride(0);
  const float* from = x.as<float>() + (update.begin + row) * ldx;
  float* to = inner + row * rank;
  const W* a = update.a.as<W>();
  std::int64_t r = first;
  for (; r + 4 <= last; r += 4)
    dot_rows<4>(rows, in, from, ldx, a + r * lda, lda, to + r, rank, r + 8 <= rank);
  for (; r < last; ++r) dot_rows<1>(rows, in, from, ldx, a + r * lda, lda, to + r, rank);
}

// y[:, o..] += scale · Σ_r c[:, r] · b[r, o..] of M rows and V vectors of columns. What comes next of b is
// wanted from memory: its rows are too short for the processor to see that by itself.
template <int M, int V, class Tag, class W>
HWY_INLINE void expand_block(Tag d, const W* b, std::int64_t ldb, const float* c, std::int64_t rank,
                             float scale, float* y, std::int64_t ldy) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t kLine = 64 / sizeof(W);
  hn::Vec<Tag> sums[M][V];
  INGOT_UNROLL
  for (int i = 0; i < M; ++i) {
    INGOT_UNROLL
    for (int v = 0; v < V; ++v) sums[i][v] = hn::Zero(d);
  }
  for (std::int64_t r = 0; r < rank; ++r) {
    const W* row = b + r * ldb;
    if constexpr (V > 1) {
      for (std::int64_t ahead = 0; ahead < V * lanes; ahead += kLine)
        __builtin_prefetch(row + V * lanes + ahead, 0, 3);
    }
    hn::Vec<Tag> w[V];
    INGOT_UNROLL
    for (int v = 0; v < V; ++v) w[v] = load_lanes(d, row + v * lanes);
    INGOT_UNROLL
    for (int i = 0; i < M; ++i) {
      const auto factor = hn::Set(d, c[i * rank + r]);
      INGOT_UNROLL
      for (int v = 0; v < V; ++v) sums[i][v] = hn::MulAdd(factor, w[v], sums[i][v]);
    }
  }
  INGOT_UNROLL
  for (int i = 0; i < M; ++i) {
    INGOT_UNROLL
    for (int v = 0; v < V; ++v) {
      float* to = y + i * ldy + v * lanes;
      hn::StoreU(hn::MulAdd(hn::Set(d, scale), sums[i][v], hn::LoadU(d, to)), d, to);
    }
  }
}

// Columns [first, last) of M rows.
template <int M, class W>
void expand_few(const W* b, std::int64_t ldb, const float* c, std::int64_t rank, float scale, float* y,
                std::int64_t ldy, std::int64_t first, std::int64_t last) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t o = first;
  for (; o + 4 * lanes <= last; o += 4 * lanes) expand_block<M, 4>(d, b + o, ldb, c, rank, scale, y + o, ldy);
  for (; o + lanes <= last; o += lanes) expand_block<M, 1>(d, b + o, ldb, c, rank, scale, y + o, ldy);
  const hn::CappedTag<float, 1> one;
  for (; o < last; ++o) expand_block<M, 1>(one, b + o, ldb, c, rank, scale, y + o, ldy);
}

// Columns [first, last) of `rows` rows: y += scale · c·b, where b has adjacent columns.
template <class W>
void expand_columns(const W* b, std::int64_t ldb, const float* c, std::int64_t rank, float scale, float* y,
                    std::int64_t ldy, std::int64_t rows, std::int64_t first, std::int64_t last) {
  const auto few = [&]<int M>(std::integral_constant<int, M>, std::int64_t i) {
    expand_few<M>(b, ldb, c + i * rank, rank, scale, y + i * ldy, ldy, first, last);
  };
  std::int64_t i = 0;
  for (; i + 4 <= rows; i += 4) few(std::integral_constant<int, 4>(), i);
  switch (rows - i) {
    case 3:
      return few(std::integral_constant<int, 3>(), i);
    case 2:
      return few(std::integral_constant<int, 2>(), i);
    case 1:
      return few(std::integral_constant<int, 1>(), i);
    default:
      return;
  }
}

// The same where b has adjacent ranks, as training keeps it: some of its columns at once are transposed, so
// that no sum goes over the lanes of a vector.
void expand_transposed(const LowRankUpdate& update, const float* c, float* y, std::int64_t rows,
                       std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kColumns = 256;
  const std::int64_t rank = update.rank(), ldb = update.b.stride(0);
  const auto element = static_cast<std::int64_t>(byte_size(update.b.dtype));
  float* b = thread_scratch(0, static_cast<std::size_t>(rank * kColumns));
  for (std::int64_t o = first; o < last; o += kColumns) {
    const std::int64_t columns = std::min(kColumns, last - o);
    load_tile_transposed({update.b.as<std::byte>() + o * ldb * element, update.b.dtype, columns, rank, ldb},
                         b, kColumns);
    expand_columns(b, kColumns, c, rank, update.scale, y + o, update.y.stride(0), rows, 0, columns);
  }
}

template <class F>
void dispatch_matrix(DType dtype, F&& f) {
  if (dtype == DType::i8) return f.template operator()<std::int8_t>();
  dispatch_simd_float(dtype, f);
}

void shrink(const View& x, const LowRankUpdate& update, std::int64_t row, std::int64_t rows,
            std::int64_t first, std::int64_t last, float* inner) {
  dispatch_matrix(update.a.dtype,
                  [&]<class W>() { shrink_rows<W>(x, update, row, rows, first, last, inner); });
}

void expand(const LowRankUpdate& update, std::int64_t row, std::int64_t rows, std::int64_t first,
            std::int64_t last, const float* inner) {
  const std::int64_t rank = update.rank(), ldy = update.y.stride(0);
  const float* c = inner + row * rank;
  float* y = update.y.as<float>() + row * ldy;
  if (update.b.stride(0) != 1) return expand_transposed(update, c, y, rows, first, last);
  dispatch_matrix(update.b.dtype, [&]<class W>() {
    expand_columns(update.b.as<W>(), update.b.stride(1), c, rank, update.scale, y, ldy, rows, first, last);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(shrink);
HWY_EXPORT(expand);

constexpr std::int64_t kUnitRows = 32;      // of an update, by one thread in one piece
constexpr std::int64_t kUnitColumns = 256;  // of y, likewise
constexpr std::int64_t kGrain = 1 << 17;    // multiply-adds: 5 µs, which waking a thread is worth
constexpr std::int64_t kUnitsForEach = 3;   // of whole updates: then threads end at about the same time

// A piece of an update: rows of it, and ranks of a or columns of b.
struct Unit {
  const LowRankUpdate* update;
  float* inner;
  std::int64_t row, rows, first, last;
};

bool accepts(const LowRankArgs& args) {
  return args.x.dtype == DType::f32 && std::ranges::all_of(args.updates, [](const LowRankUpdate& update) {
           return (is_simd_float(update.a.dtype) || update.a.dtype == DType::i8) &&
                  update.b.dtype == update.a.dtype;
         });
}

// Brings the beginning of a matrix of the next unit into L2: the matrices of many adapters lie here and
// there, and the processor's own prefetching begins anew with each.
void prefetch(const View& matrix) {
  constexpr std::size_t kLine = 64, kMost = 32 << 10;
  const std::size_t bytes =
      std::min(kMost, static_cast<std::size_t>(matrix.dim(0) * matrix.dim(1)) * byte_size(matrix.dtype));
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(matrix.as<std::byte>() + at, 0, 2);
}

void run_whole(const View& x, const Unit& unit) {
  const LowRankUpdate& update = *unit.update;
  HWY_DYNAMIC_DISPATCH(shrink)(x, update, unit.row, unit.rows, 0, update.rank(), unit.inner);
  HWY_DYNAMIC_DISPATCH(expand)(update, unit.row, unit.rows, 0, update.b.dim(0), unit.inner);
}

// Units of `step` neighbours of [0, extent(update)).
std::vector<Unit> split(const LowRankArgs& args, std::int64_t most_rows, std::int64_t step,
                        FunctionRef<std::int64_t(const LowRankUpdate&)> extent) {
  std::vector<Unit> units;
  units.reserve(args.updates.size());
  auto* inner = args.inner.as<float>();
  for (const LowRankUpdate& update : args.updates) {
    const std::int64_t count = update.y.dim(0), whole = extent(update);
    for (std::int64_t row = 0; row < count; row += most_rows) {
      for (std::int64_t at = 0; at < whole; at += step)
        units.push_back(
            {&update, inner, row, std::min(most_rows, count - row), at, std::min(at + step, whole)});
    }
    inner += update.inner();
  }
  return units;
}

// In multiply-adds: reading an element of a or b takes as long as four.
std::int64_t work_of_all(const LowRankArgs& args) {
  std::int64_t work = 0;
  for (const LowRankUpdate& update : args.updates)
    work += update.rank() * (update.a.dim(1) + update.b.dim(0)) * (4 + update.y.dim(0));
  return work;
}

void run_units(const std::vector<Unit>& units, std::int64_t work, FunctionRef<void(const Unit&)> f) {
  const std::int64_t count = std::ssize(units);
  parallel_share(count, kGrain * count / std::max<std::int64_t>(work, 1) + 1, 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) f(units[static_cast<std::size_t>(i)]);
                 });
}

// Whole updates, where there are enough for all threads to be busy: nobody waits in between. Else all ranks
// of a first, then all columns of b.
void run(const LowRankArgs& args, Stream) {
  const std::int64_t work = work_of_all(args);
  const std::vector<Unit> whole = split(args, kUnitRows, 1, [](const LowRankUpdate&) { return 1; });
  if (work < 2 * kGrain || std::ssize(whole) >= kUnitsForEach * num_threads()) {
    return run_units(whole, work, [&](const Unit& unit) {
      const Unit* next = &unit + 1;
      if (next < whole.data() + whole.size() && next->update != unit.update) {
        prefetch(next->update->a);
        prefetch(next->update->b);
      }
      run_whole(args.x, unit);
    });
  }
  run_units(split(args, kUnitRows, 4, [](const LowRankUpdate& update) { return update.rank(); }), work / 2,
            [&](const Unit& u) {
              HWY_DYNAMIC_DISPATCH(shrink)(args.x, *u.update, u.row, u.rows, u.first, u.last, u.inner);
            });
  run_units(split(args, kUnitRows, kUnitColumns, [](const LowRankUpdate& update) { return update.b.dim(0); }),
            work / 2, [&](const Unit& u) {
              HWY_DYNAMIC_DISPATCH(expand)(*u.update, u.row, u.rows, u.first, u.last, u.inner);
            });
}

}  // namespace

void register_low_rank_simd() { low_rank.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run}); }

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
