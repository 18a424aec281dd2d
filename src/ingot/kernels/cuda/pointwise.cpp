#include "ingot/kernels/pointwise.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "ingot/core/backend.h"
#include "ingot/kernels/cuda/launch.h"
#include "ingot/kernels/cuda/pointwise_source.h"
#include "ingot/kernels/cuda/register.h"

// Chains of element-wise operations as kernels from source, one for each chain and dtype.
namespace ingot::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;

std::uint64_t kernel_of(Device device, const std::string& source) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, std::uint64_t> loaded;
  const std::lock_guard lock(mutex);
  const auto [entry, missing] = loaded.try_emplace({device.index, source});
  if (missing) {
    try {
      entry->second = backend(device).kernel_executor()->load_kernel(source, kPointwiseFunction);
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
  long long n = args.y.numel();
  if (n == 0) return;
  const std::string source = pointwise_source(args.steps, args.inputs.size(), args.y.dtype, args.accumulate);
  std::vector<void*> operands;
  for (const View& input : args.inputs) operands.push_back(input.data);
  operands.push_back(args.y.data);
  std::vector<void*> arguments;
  arguments.reserve(operands.size() + 1);
  for (void*& operand : operands) arguments.push_back(&operand);
  arguments.push_back(&n);
  const auto pack = static_cast<std::int64_t>(16 / byte_size(args.y.dtype));
  backend(stream.device)
      .kernel_executor()
      ->execute_kernel(kernel_of(stream.device, source),
                       {grid_for(stream.device, (n + pack - 1) / pack, kThreads)}, {kThreads},
                       arguments.data(), stream);
}

}  // namespace

void register_pointwise() { pointwise.add(DeviceType::cuda, {"generated", ImplKind::cuda, takes, run}); }

}  // namespace ingot::kernels::cuda
