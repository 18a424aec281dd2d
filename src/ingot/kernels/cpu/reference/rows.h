#pragma once

#include <cmath>
#include <cstdint>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/rope.h"

namespace ingot::kernels::cpu {

/// Head h of token (b, s) of a view [B, S, H, D]; null where that is absent.
template <class T>
T* head_of(const View& x, std::int64_t b, std::int64_t s, std::int64_t h) {
  return x ? x.as<T>() + b * x.stride(0) + s * x.stride(1) + h * x.stride(2) : nullptr;
}

struct HeadRotation {
  const RopeAngles& angles;
  std::int64_t position, head;
  bool inverse = false, accumulate = false;
};

/// y (+)= the head x of `size` elements rotated; y may be x.
template <class T>
void rotate_head(const T* x, T* y, std::int64_t size, const HeadRotation& rotation) {
  using Acc = Accumulator<T>;
  const RopeAngles& angles = rotation.angles;
  const std::int64_t half = angles.cos.dim(1), pairs = rotation.head < angles.rotated_heads ? half : 0;
  const float* cos = angles.cos.as<float>() + rotation.position * half;
  const float* sin = angles.sin.as<float>() + rotation.position * half;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int64_t first = angles.interleaved ? 2 * i : i,
                       second = angles.interleaved ? 2 * i + 1 : i + half;
    const Acc u = load(x + first), v = load(x + second);
    const Acc c = static_cast<Acc>(cos[i]);
    const Acc w = static_cast<Acc>(rotation.inverse ? -sin[i] : sin[i]);
    store(y + first, u * c - v * w, rotation.accumulate);
    store(y + second, v * c + u * w, rotation.accumulate);
  }
  for (std::int64_t i = 2 * pairs; i < size; ++i) store(y + i, load(x + i), rotation.accumulate);
}

/// y = the RMS norm of the row x of d elements; returns 1 / its root mean square.
template <class T>
Accumulator<T> rms_norm_row(const T* x, const T* w, T* y, std::int64_t d, float eps, float weight_offset) {
  using Acc = Accumulator<T>;
  const auto offset = static_cast<Acc>(weight_offset);
  Acc sum = 0;
  for (std::int64_t i = 0; i < d; ++i) sum += load(x + i) * load(x + i);
  const Acc rstd = 1 / std::sqrt(sum / static_cast<Acc>(d) + static_cast<Acc>(eps));
  for (std::int64_t i = 0; i < d; ++i) store(y + i, load(x + i) * rstd * (offset + load(w + i)));
  return rstd;
}

template <class T>
struct RmsNormRow {
  const T *x, *weight, *dy;
  T* dx;  ///< or null
  std::int64_t d;
  Accumulator<T> rstd;
  float weight_offset;
  bool accumulate;  ///< to dx
};

/// With x̂ = x·rstd, and w including the offset: dx = rstd · (w·dy − x̂ · mean(w·dy·x̂)); adds dy·x̂ to `dw`
/// unless that is null.
template <class T>
void rms_norm_row_backward(const RmsNormRow<T>& row, Accumulator<T>* dw) {
  using Acc = Accumulator<T>;
  const auto weighted = [&, offset = static_cast<Acc>(row.weight_offset)](std::int64_t i) {
    return (offset + load(row.weight + i)) * load(row.dy + i);
  };
  Acc dot = 0;
  for (std::int64_t i = 0; i < row.d; ++i) dot += weighted(i) * load(row.x + i) * row.rstd;
  const Acc mean = dot / static_cast<Acc>(row.d);
  for (std::int64_t i = 0; i < row.d; ++i) {
    const Acc normalized = load(row.x + i) * row.rstd;
    if (row.dx != nullptr) store(row.dx + i, row.rstd * (weighted(i) - normalized * mean), row.accumulate);
    if (dw != nullptr) dw[i] += load(row.dy + i) * normalized;
  }
}

}  // namespace ingot::kernels::cpu
