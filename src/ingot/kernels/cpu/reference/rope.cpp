#include "ingot/kernels/rope.h"

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/rope_positions.h"

namespace ingot::kernels::cpu {
namespace {

void rope_all(const RopeArgs& args) {
  dispatch_float(args.x.dtype, "rope", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t half = args.cos.dim(1);
    for (std::int64_t b = 0; b < args.x.dim(0); ++b) {
      for (std::int64_t s = 0; s < args.x.dim(1); ++s) {
        const std::int64_t position = rope_position(args, b, s);
        const float* cos = args.cos.as<float>() + position * half;
        const float* sin = args.sin.as<float>() + position * half;
        for (std::int64_t h = 0; h < args.x.dim(2); ++h) {
          const T* x = args.x.as<T>() + b * args.x.stride(0) + s * args.x.stride(1) + h * args.x.stride(2);
          T* y = args.y.as<T>() + b * args.y.stride(0) + s * args.y.stride(1) + h * args.y.stride(2);
          const std::int64_t pairs = h < args.rotated_heads ? half : 0;
          for (std::int64_t i = 0; i < pairs; ++i) {
            const std::int64_t first = args.interleaved ? 2 * i : i,
                               second = args.interleaved ? 2 * i + 1 : i + half;
            const Acc u = load(x + first), v = load(x + second);
            const Acc c = static_cast<Acc>(cos[i]);
            const Acc w = static_cast<Acc>(args.inverse ? -sin[i] : sin[i]);
            store(y + first, u * c - v * w, args.accumulate);
            store(y + second, v * c + u * w, args.accumulate);
          }
          for (std::int64_t i = 2 * pairs; i < args.x.dim(3); ++i) store(y + i, load(x + i), args.accumulate);
        }
      }
    }
  });
}

void rope_reference(const RopeArgs& args, Stream) {
  rope_all(args);
  if (args.also_x) rope_all(args.also());
}

}  // namespace

void register_rope_reference() {
  rope.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, rope_reference});
}

}  // namespace ingot::kernels::cpu
