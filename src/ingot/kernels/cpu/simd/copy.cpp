#include "ingot/kernels/copy.h"

#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 65536;  // elements: 256 KiB, about 10 µs of memory traffic

bool accepts(const CopyArgs& args) {
  return args.x.dtype == args.y.dtype && args.x.is_contiguous() && args.y.is_contiguous() &&
         (!args.accumulate || args.x.dtype == DType::f32);
}

void run(const CopyArgs& args, Stream) {
  const std::size_t size = byte_size(args.x.dtype);
  parallel_for(args.x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (args.accumulate) {
      const float* x = args.x.as<float>();
      float* y = args.y.as<float>();
      for (std::int64_t i = begin; i < end; ++i) y[i] += x[i];
    } else {
      const auto offset = static_cast<std::size_t>(begin) * size;
      std::memcpy(args.y.as<char>() + offset, args.x.as<char>() + offset,
                  static_cast<std::size_t>(end - begin) * size);
    }
  });
}

}  // namespace

void register_copy_simd() { copy.add(DeviceType::cpu, {"contiguous", ImplKind::simd, accepts, run}); }

}  // namespace ingot::kernels::cpu
