#include "ingot/kernels/index.h"

#include <algorithm>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"

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

// Threads own columns, so that one row is never written by two, and every row is summed in dy's order.
// Columns share the work evenly where rows would not: few tokens make up most of a text.
void run_embedding_backward(const EmbeddingBackwardArgs& args, Stream) {
  const std::int64_t d = args.dweight.dim(1), n = args.ids.numel();
  auto* dweight = args.dweight.as<float>();
  if (!args.accumulate) {
    parallel_for(args.dweight.numel(), 2 * kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memset(dweight + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  }
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

}  // namespace

void register_index_simd() {
  embedding.add(DeviceType::cpu, {"rows", ImplKind::simd, nullptr, run_embedding});
  embedding_backward.add(DeviceType::cpu,
                         {"columns", ImplKind::simd,
                          [](const EmbeddingBackwardArgs& args) { return args.dweight.dtype == DType::f32; },
                          run_embedding_backward});
}

}  // namespace ingot::kernels::cpu
