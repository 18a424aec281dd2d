#include "ingot/kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 65536;  // elements: 256 KiB, about 10 µs of memory traffic

bool accepts_contiguous(const CopyArgs& args) {
  return args.x.dtype == args.y.dtype && args.x.is_contiguous() && args.y.is_contiguous() &&
         (!args.accumulate || args.x.dtype == DType::f32);
}

void run_contiguous(const CopyArgs& args, Stream) {
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

// Any strides, and conversions between f32 and the half types.
bool accepts_blocks(const CopyArgs& args) { return are_simd_floats(args.x, args.y); }

void run_blocks(const CopyArgs& args, Stream) {
  for_each_block<2>({reads(args.x), writes(args.y, args.accumulate)}, kGrain,
                    [&](const auto& at, std::int64_t n) {
                      const float* x = at[0];
                      float* y = at[1];
                      if (args.accumulate) {
                        for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
                      } else {
                        std::copy_n(x, n, y);
                      }
                    });
}

}  // namespace

void register_copy_simd() {
  copy.add(DeviceType::cpu, {"contiguous", ImplKind::simd, accepts_contiguous, run_contiguous});
  copy.add(DeviceType::cpu, {"blocks", ImplKind::simd, accepts_blocks, run_blocks});
}

}  // namespace ingot::kernels::cpu
