#include "ingot/kernels/rope.h"

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/rope_positions.h"
#include "ingot/kernels/cpu/simd/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/rope.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/rope_head-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void rotate_token(const RopeArgs& args, std::int64_t b, std::int64_t s, std::int64_t position) {
  const Rotation rotation = rotation_of(args.angles, position, args.inverse, args.accumulate);
  const std::int64_t size = args.x.dim(3);
  const T* x = args.x.as<T>() + b * args.x.stride(0) + s * args.x.stride(1);
  T* y = args.y.as<T>() + b * args.y.stride(0) + s * args.y.stride(1);
  const bool copies = x != y || args.accumulate;
  for (std::int64_t h = 0; h < args.x.dim(2); ++h) {
    const bool rotated = h < args.angles.rotated_heads;
    if (rotated) rotate_head(x, y, rotation);
    if (copies) copy_elements(x, y, rotated ? 2 * rotation.half : 0, size, args.accumulate);
    x += args.x.stride(2);
    y += args.y.stride(2);
  }
}

void rope_tokens(const RopeArgs& args, std::int64_t begin, std::int64_t end) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t b = token / args.x.dim(1), s = token % args.x.dim(1);
      rotate_token<T>(args, b, s, rope_position(args.angles, b, s));
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(rope_tokens);

bool adjacent(const RopeArgs& args) {
  return args.x.dim(3) == 1 || (args.x.stride(3) == 1 && args.y.stride(3) == 1);
}

bool accepts(const RopeArgs& args) {
  return args.x.dtype != DType::f64 && adjacent(args) && (!args.also_x || adjacent(args.also()));
}

void run(const RopeArgs& args, Stream) {
  constexpr std::int64_t kGrainElements = 16384;  // about 5 µs
  const RopeArgs also = args.also();
  const std::int64_t heads = args.x.dim(2) + (also.x ? also.x.dim(2) : 0);
  parallel_for(args.x.dim(0) * args.x.dim(1), kGrainElements / (heads * args.x.dim(3) + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(rope_tokens)(args, begin, end);
                 if (also.x) HWY_DYNAMIC_DISPATCH(rope_tokens)(also, begin, end);
               });
}

}  // namespace

void register_rope_simd() { rope.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run}); }

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
