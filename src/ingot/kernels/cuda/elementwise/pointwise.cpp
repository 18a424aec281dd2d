#include "ingot/kernels/pointwise.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "ingot/core/backend.h"
#include "ingot/core/kernel_executor.h"
#include "ingot/kernels/cuda/elementwise/pointwise_source.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/runtime/launch_site.h"

// Chains of element-wise operations as kernels from source, one for each chain and dtype.
namespace ingot::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;

// All that the source depends on: its text takes as long to write as several launches.
using ChainKey = std::vector<std::uint64_t>;

ChainKey key_of(const PointwiseArgs& args) {
  ChainKey key{args.inputs.size(), static_cast<std::uint64_t>(args.y.dtype), args.accumulate ? 1U : 0U};
  for (const PointwiseStep& s : args.steps) {
    const std::uint64_t parts[] = {
        static_cast<std::uint64_t>(s.kind),    static_cast<std::uint64_t>(s.unary),
        static_cast<std::uint64_t>(s.binary),  static_cast<std::uint64_t>(s.a),
        static_cast<std::uint64_t>(s.b),       static_cast<std::uint64_t>(s.c),
        std::bit_cast<std::uint64_t>(s.alpha),  // as bits: -0 and NaN have literals of their own
        std::bit_cast<std::uint64_t>(s.beta),  static_cast<std::uint64_t>(s.sum)};
    key.insert(key.end(), std::begin(parts), std::end(parts));
  }
  return key;
}

std::uint64_t kernel_of(Device device, const PointwiseArgs& args) {
  static std::mutex mutex;
  static std::map<std::pair<int, ChainKey>, std::uint64_t> loaded;
  const std::lock_guard lock(mutex);
  const auto [entry, missing] = loaded.try_emplace({device.index, key_of(args)});
  if (missing) {
    try {
      entry->second = backend(device).kernel_executor()->load_kernel(
          pointwise_source(args.steps, args.inputs.size(), args.y.dtype, args.accumulate),
          kPointwiseFunction);
    } catch (...) {
      loaded.erase(entry);
      throw;
    }
  }
  return entry->second;
}

bool fits(const View& x, const View& y) {
  return x.is_contiguous() && x.dtype == y.dtype && x.numel() == y.numel() &&
         reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

bool takes(const PointwiseArgs& args) {
  return args.inputs.size() <= kMostPointwiseInputs && !args.steps.empty() &&
         (args.y.dtype == DType::f32 || is_half_precision(args.y.dtype)) && fits(args.y, args.y) &&
         std::ranges::all_of(args.inputs, [&](const View& x) { return fits(x, args.y); }) &&
         backend(args.y.device).kernel_executor() != nullptr;
}

void run(const PointwiseArgs& args, Stream stream) {
  const long long n = args.y.numel();
  if (n == 0) return;
  std::vector<KernelArgument> arguments(args.inputs.begin(), args.inputs.end());
  arguments.emplace_back(args.y);
  arguments.emplace_back(n);
  const auto vector = static_cast<std::int64_t>(16 / byte_size(args.y.dtype));
  backend(stream.device)
      .kernel_executor()
      ->execute_kernel(
          kernel_of(stream.device, args),
          {.blocks = {grid_for(stream.device, (n + vector - 1) / vector, kThreads)}, .threads = {kThreads}},
          arguments, stream);
}

}  // namespace

void register_pointwise() { pointwise.add(DeviceType::cuda, {"generated", ImplKind::cuda, takes, run}); }

}  // namespace ingot::kernels::cuda
