#include "ingot/kernels/index.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/float_block.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 32768;   // elements: some 5 µs of memory traffic
constexpr std::int64_t kCacheLine = 16;  // floats: column ranges of threads begin on lines of their own

void run_embedding(const EmbeddingArgs& args, Stream) {
  const std::int64_t d = args.weight.dim(1);
  const auto row_bytes = static_cast<std::size_t>(d) * byte_size(args.weight.dtype);
  dispatch_index(args.ids.dtype, "embedding", [&]<class I>() {
    parallel_for(args.ids.numel(), kGrain / (d + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto id = static_cast<std::size_t>(args.ids.as<I>()[i]);
        std::memcpy(args.y.as<char>() + static_cast<std::size_t>(i) * row_bytes,
                    args.weight.as<char>() + id * row_bytes, row_bytes);
      }
    });
  });
}

void clear(const View& view) {
  const auto size = static_cast<std::int64_t>(byte_size(view.dtype));
  parallel_for(view.numel(), 2 * kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memset(view.as<char>() + begin * size, 0, static_cast<std::size_t>((end - begin) * size));
  });
}

// Threads own columns, so that one row is never written by two, and every row is summed in dy's order.
// Columns share the work evenly where rows would not: few tokens make up most of a text.
void run_embedding_backward(const EmbeddingBackwardArgs& args, Stream) {
  const std::int64_t d = args.dweight.dim(1), n = args.ids.numel();
  auto* dweight = args.dweight.as<float>();
  if (!args.accumulate) clear(args.dweight);
  const std::int64_t groups = (d + kCacheLine - 1) / kCacheLine;
  dispatch_index(args.ids.dtype, "embedding_backward", [&]<class I>() {
    parallel_for(groups, kGrain / (n * kCacheLine + 1), [&](std::int64_t first, std::int64_t last) {
      const std::int64_t begin = first * kCacheLine, end = std::min(last * kCacheLine, d);
      for (std::int64_t i = 0; i < n; ++i) {
        float* row = dweight + static_cast<std::int64_t>(args.ids.as<I>()[i]) * d;
        const float* dy = args.dy.as<float>() + i * d;
        for (std::int64_t k = begin; k < end; ++k) row[k] += dy[k];
      }
    });
  });
}

// dweight[row] += the sum of dy over `places`, in f32, rounded once.
void add_rows(const EmbeddingBackwardArgs& args, std::int64_t row, std::span<const std::int64_t> places) {
  const std::int64_t d = args.dweight.dim(1);
  for (std::int64_t column = 0; column < d; column += FloatBlock::kMax) {
    const std::int64_t n = std::min(FloatBlock::kMax, d - column);
    FloatBlock sum(args.dweight, row * d + column, n);
    for (const std::int64_t place : places) {
      FloatBlock dy(args.dy, place * d + column, n);
      for (std::int64_t k = 0; k < n; ++k) sum.data()[k] += dy.data()[k];
    }
    sum.store(sum.data());
  }
}

// For half types, whose own sums would lose the small gradients of a frequent token: the places of one id are
// brought together, so that its row is summed in f32, in dy's order, and rounded once. Threads own rows.
void run_embedding_backward_by_row(const EmbeddingBackwardArgs& args, Stream) {
  if (!args.accumulate) clear(args.dweight);
  dispatch_index(args.ids.dtype, "embedding_backward", [&]<class I>() {
    const std::span<const I> ids(args.ids.as<I>(), static_cast<std::size_t>(args.ids.numel()));
    std::vector<std::int64_t> places(ids.size());
    std::iota(places.begin(), places.end(), 0);
    const auto id_at = [&](std::int64_t place) { return ids[static_cast<std::size_t>(place)]; };
    std::ranges::stable_sort(places, {}, id_at);
    std::vector<std::size_t> starts;  // of the runs of one id
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i == 0 || id_at(places[i]) != id_at(places[i - 1])) starts.push_back(i);
    }
    const auto rows = static_cast<std::int64_t>(starts.size());
    starts.push_back(places.size());
    parallel_for(rows, kGrain / (args.dweight.dim(1) + 1), [&](std::int64_t begin, std::int64_t end) {
      for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r) {
        add_rows(args, static_cast<std::int64_t>(id_at(places[starts[r]])),
                 std::span(places).subspan(starts[r], starts[r + 1] - starts[r]));
      }
    });
  });
}

}  // namespace

void register_index_simd() {
  embedding.add(DeviceType::cpu, {"rows", ImplKind::simd, nullptr, run_embedding});
  embedding_backward.add(DeviceType::cpu,
                         {"columns", ImplKind::simd,
                          [](const EmbeddingBackwardArgs& args) { return args.dweight.dtype == DType::f32; },
                          run_embedding_backward});
  embedding_backward.add(DeviceType::cpu, {"rows", ImplKind::simd,
                                           [](const EmbeddingBackwardArgs& args) {
                                             return is_half_precision(args.dweight.dtype);
                                           },
                                           run_embedding_backward_by_row});
}

}  // namespace ingot::kernels::cpu
