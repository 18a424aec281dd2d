#include "ingot/kernels/rope.h"

#include "ingot/kernels/cpu/reference/rows.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/rope_positions.h"

namespace ingot::kernels::cpu {
namespace {

void rope_all(const RopeArgs& args) {
  dispatch_float(args.x.dtype, "rope", [&]<class T>() {
    for (std::int64_t b = 0; b < args.x.dim(0); ++b) {
      for (std::int64_t s = 0; s < args.x.dim(1); ++s) {
        const std::int64_t position = rope_position(args.angles, b, s);
        for (std::int64_t h = 0; h < args.x.dim(2); ++h) {
          rotate_head(head_of<T>(args.x, b, s, h), head_of<T>(args.y, b, s, h), args.x.dim(3),
                      {.angles = args.angles,
                       .position = position,
                       .head = h,
                       .inverse = args.inverse,
                       .accumulate = args.accumulate});
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
