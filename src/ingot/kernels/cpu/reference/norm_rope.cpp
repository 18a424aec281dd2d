#include <algorithm>
#include <vector>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/reference/rows.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/rope_positions.h"
#include "ingot/kernels/rope.h"

namespace ingot::kernels::cpu {
namespace {

/// f(b, s, h, position of the token, number of the head among all) for each head of x.
template <class F>
void for_heads(const View& x, const RopeAngles& angles, F&& f) {
  std::int64_t row = 0;
  for (std::int64_t b = 0; b < x.dim(0); ++b) {
    for (std::int64_t s = 0; s < x.dim(1); ++s) {
      const std::int64_t position = rope_position(angles, b, s);
      for (std::int64_t h = 0; h < x.dim(2); ++h) f(b, s, h, position, row++);
    }
  }
}

void forward(const RmsNormRopeArgs& args) {
  dispatch_float(args.x.dtype, "rms_norm_rope", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t d = args.x.dim(3);
    for_heads(args.x, args.angles,
              [&](std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t position, std::int64_t row) {
                T* y = head_of<T>(args.y, b, s, h);
                const Acc rstd = rms_norm_row(head_of<T>(args.x, b, s, h), args.weight.as<T>(), y, d,
                                              args.eps, args.weight_offset);
                if (args.rstd) args.rstd.as<Acc>()[row] = rstd;
                rotate_head(y, y, d, {.angles = args.angles, .position = position, .head = h});
              });
  });
}

void rms_norm_rope_reference(const RmsNormRopeArgs& args, Stream) {
  forward(args);
  if (args.also_x) forward(args.also());
}

void rms_norm_rope_backward_reference(const RmsNormRopeBackwardArgs& args, Stream) {
  dispatch_float(args.x.dtype, "rms_norm_rope_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t d = args.x.dim(3);
    Acc* dw = args.dweight ? args.partials.as<Acc>() : nullptr;
    if (dw != nullptr) std::fill_n(dw, d, Acc{0});
    std::vector<T> dy(static_cast<std::size_t>(d));  // rotated back
    for_heads(args.x, args.angles,
              [&](std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t position, std::int64_t row) {
                rotate_head(head_of<T>(args.dy, b, s, h), dy.data(), d,
                            {.angles = args.angles, .position = position, .head = h, .inverse = true});
                rms_norm_row_backward(RmsNormRow<T>{.x = head_of<T>(args.x, b, s, h),
                                                    .weight = args.weight.as<T>(),
                                                    .dy = dy.data(),
                                                    .dx = head_of<T>(args.dx, b, s, h),
                                                    .d = d,
                                                    .rstd = args.rstd.as<Acc>()[row],
                                                    .weight_offset = args.weight_offset,
                                                    .accumulate = args.accumulate_dx},
                                      dw);
              });
    for (std::int64_t i = 0; dw != nullptr && i < d; ++i)
      store(args.dweight.as<T>() + i, dw[i], args.accumulate_dweight);
  });
}

}  // namespace

void register_norm_rope_reference() {
  rms_norm_rope.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, rms_norm_rope_reference});
  rms_norm_rope_backward.add(DeviceType::cpu,
                             {"reference", ImplKind::reference, nullptr, rms_norm_rope_backward_reference});
}

}  // namespace ingot::kernels::cpu
