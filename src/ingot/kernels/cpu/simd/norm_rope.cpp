#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/add_partials.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/rope_positions.h"
#include "ingot/kernels/cpu/simd/convert.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/norm_rope.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/rms_row-inl.h"
#include "ingot/kernels/cpu/simd/rope_head-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE T* token_of(const View& x, std::int64_t b, std::int64_t s) {
  return x ? x.as<T>() + b * x.stride(0) + s * x.stride(1) : nullptr;
}

// Whether the elements of a head rotate a register at a time, and all of them do.
inline bool in_registers(const Rotation& rotation, std::int64_t size) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  return !rotation.interleaved && 2 * rotation.half == size && rotation.half % lanes == 0;
}

// What the norm gives is rounded as it is in memory between the two operations, but stays in registers.
template <class T>
void scale_and_rotate(const T* x, const T* w, float rstd, float weight_offset, T* y,
                      const Rotation& rotation) {
  const D d;
  const auto scale = hn::Set(d, rstd), offset = hn::Set(d, weight_offset), signs = hn::Set(d, 1.0F);
  const auto normalized = [&](std::int64_t i) {
    const auto weight = hn::Add(offset, load_lanes(d, w + i));
    return rounded_lanes<T>(d, hn::Mul(hn::Mul(load_lanes(d, x + i), scale), weight));
  };
  for (std::int64_t i = 0; i < rotation.half; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto [first, second] = rotate_lanes(d, normalized(i), normalized(rotation.half + i),
                                              rotation.cos + i, rotation.sin + i, signs);
    store_lanes(d, first, y + i);
    store_lanes(d, second, y + rotation.half + i);
  }
}

template <class T>
void forward_token(const RmsNormRopeArgs& args, std::int64_t b, std::int64_t s) {
  const Rotation rotation = rotation_of(args.angles, rope_position(args.angles, b, s), false, false);
  const std::int64_t heads = args.x.dim(2), size = args.x.dim(3);
  const T* x = token_of<T>(args.x, b, s);
  T* y = token_of<T>(args.y, b, s);
  for (std::int64_t h = 0; h < heads; ++h, x += args.x.stride(2), y += args.y.stride(2)) {
    const float rstd = rms_rstd(x, size, args.eps);
    if (args.rstd) args.rstd.as<float>()[(b * args.x.dim(1) + s) * heads + h] = rstd;
    const bool rotates = h < args.angles.rotated_heads;
    if (rotates && in_registers(rotation, size)) {
      scale_and_rotate(x, args.weight.as<T>(), rstd, args.weight_offset, y, rotation);
      continue;
    }
    rms_scale(x, args.weight.as<T>(), size, rstd, args.weight_offset, y);
    if (rotates) rotate_head(y, y, rotation);
  }
}

void forward_tokens(const RmsNormRopeArgs& args, std::int64_t begin, std::int64_t end) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    for (std::int64_t token = begin; token < end; ++token)
      forward_token<T>(args, token / args.x.dim(1), token % args.x.dim(1));
  });
}

// dy rotated back, and rounded as it is in memory between the two operations.
template <class T>
void rotate_back(const T* dy, float* rotated, const Rotation& rotation) {
  const D d;
  const auto signs = hn::Set(d, -1.0F);
  for (std::int64_t i = 0; i < rotation.half; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto [first, second] = rotate_lanes(d, load_lanes(d, dy + i), load_lanes(d, dy + rotation.half + i),
                                              rotation.cos + i, rotation.sin + i, signs);
    store_lanes(d, rounded_lanes<T>(d, first), rotated + i);
    store_lanes(d, rounded_lanes<T>(d, second), rotated + rotation.half + i);
  }
}

// `buffer`: for a head.
template <class T>
void backward_token(const RmsNormRopeBackwardArgs& args, std::int64_t b, std::int64_t s, float* buffer,
                    float* dw) {
  const Rotation rotation = rotation_of(args.angles, rope_position(args.angles, b, s), true, false);
  const std::int64_t heads = args.x.dim(2), size = args.x.dim(3);
  const T* x = token_of<T>(args.x, b, s);
  const T* dy = token_of<T>(args.dy, b, s);
  T* dx = token_of<T>(args.dx, b, s);
  for (std::int64_t h = 0; h < heads; ++h, x += args.x.stride(2), dy += args.dy.stride(2)) {
    const auto backward = [&]<class Gradient>(const Gradient* gradient) {
      rms_row_backward(RmsRow<T, Gradient>{.x = x,
                                           .weight = args.weight.as<T>(),
                                           .dy = gradient,
                                           .dx = dx,
                                           .n = size,
                                           .rstd = args.rstd.as<float>()[(b * args.x.dim(1) + s) * heads + h],
                                           .weight_offset = args.weight_offset,
                                           .accumulate = args.accumulate_dx},
                       dw);
    };
    if (h >= args.angles.rotated_heads) {
      backward(dy);
    } else if (in_registers(rotation, size)) {
      rotate_back(dy, buffer, rotation);
      backward(static_cast<const float*>(buffer));
    } else {
      T* rotated = reinterpret_cast<T*>(buffer);
      rotate_head(dy, rotated, rotation);
      copy_elements(dy, rotated, 2 * rotation.half, size, false);
      backward(static_cast<const T*>(rotated));
    }
    if (dx != nullptr) dx += args.dx.stride(2);
  }
}

void backward_tokens(const RmsNormRopeBackwardArgs& args, std::int64_t begin, std::int64_t end, float* dw) {
  dispatch_simd_float(args.x.dtype, [&]<class T>() {
    float* buffer = thread_scratch(0, static_cast<std::size_t>(args.x.dim(3)));
    for (std::int64_t token = begin; token < end; ++token)
      backward_token<T>(args, token / args.x.dim(1), token % args.x.dim(1), buffer, dw);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(forward_tokens);
HWY_EXPORT(backward_tokens);

bool adjacent(const View& x) { return !x || x.dim(3) == 1 || x.stride(3) == 1; }

bool accepts(const RmsNormRopeArgs& args) {
  return is_simd_float(args.x.dtype) && adjacent(args.x) && adjacent(args.y) && adjacent(args.also_x) &&
         adjacent(args.also_y);
}

void forward(const RmsNormRopeArgs& args, Stream) {
  constexpr std::int64_t kGrainElements = 16384;  // about 5 µs
  const RmsNormRopeArgs also = args.also();
  const std::int64_t heads = args.x.dim(2) + (also.x ? also.x.dim(2) : 0);
  parallel_for(args.x.dim(0) * args.x.dim(1), kGrainElements / (heads * args.x.dim(3) + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(forward_tokens)(args, begin, end);
                 if (also.x) HWY_DYNAMIC_DISPATCH(forward_tokens)(also, begin, end);
               });
}

bool accepts_backward(const RmsNormRopeBackwardArgs& args) {
  return is_simd_float(args.x.dtype) && adjacent(args.x) && adjacent(args.dy) && adjacent(args.dx);
}

// Parts sum their tokens of dweight apart and are added in order, whoever was first.
void backward(const RmsNormRopeBackwardArgs& args, Stream) {
  const std::int64_t d = args.x.dim(3), tokens = args.x.dim(0) * args.x.dim(1);
  const std::int64_t parts = args.dweight ? args.partials.dim(0) : num_threads();
  parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      float* dw = args.dweight ? args.partials.as<float>() + part * d : nullptr;
      if (dw != nullptr) std::memset(dw, 0, static_cast<std::size_t>(d) * sizeof(float));
      HWY_DYNAMIC_DISPATCH(backward_tokens)(args, tokens * part / parts, tokens * (part + 1) / parts, dw);
    }
  });
  add_partials(args.dweight, args.partials.as<float>(), parts, d, args.accumulate_dweight);
}

}  // namespace

void register_norm_rope_simd() {
  rms_norm_rope.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, forward});
  rms_norm_rope_backward.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_backward, backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
