#pragma once

#include "ingot/kernels/cuda/device/functions.h"
#include "ingot/kernels/cuda/device/row_vectors.h"

namespace ingot::kernels::cuda {

/// Σ exp(x) of a row in one pass: `sum` is that of exp(x − top) with the greatest x so far, or of exp(x)
/// where that is infinite, for infinity minus infinity is NaN.
struct OnlineSoftmax {
  float top = -INFINITY, sum = 0;

  /// Adds the elements get(vector, element) of a batch, and calls take(vector, element, exp) with what is
  /// added.
  template <class Config, class Get, class Take>
  __device__ __forceinline__ void add(const Get& get, const Take& take) {
    float above = top;
    Config::each([&](int p, int v) { above = fmaxf(above, get(p, v)); });
    sum *= factor(above);
    top = above;
    const float by = fabsf(top) == INFINITY ? 0.0F : top;
    Config::each([&](int p, int v) {
      const float exp = fast_exp(get(p, v) - by);
      sum += exp;
      take(p, v, exp);
    });
  }
  template <class Config, class Get>
  __device__ __forceinline__ void add(const Get& get) {
    add<Config>(get, [](int, int, float) {});
  }
  /// The same of whole vectors, with the fewest instructions.
  template <class Config>
  __device__ __forceinline__ void add(const RowVectors<Config>& x) {
    const float above = fmaxf(top, x.top());
    sum *= factor(above);
    top = above;
    const float by = fabsf(top) == INFINITY ? 0.0F : -top * kLog2E;
    Config::each([&](int p, int v) { sum += fast_exp2(fmaf(x.get(p, v), kLog2E, by)); });
  }
  /// That of a thread group, of what its threads have, and with it the sum of `value`.
  template <class ThreadGroup>
  __device__ __forceinline__ OnlineSoftmax over_group(ThreadGroupExchange<ThreadGroup>& exchange,
                                                      float& value) const {
    float all[3] = {top, sum, value};
    exchange.all(all, [&]<int lanes>(float(&parts)[3]) {
      OnlineSoftmax{parts[0], parts[1]}.template over_lanes<lanes>(parts[0], parts[1]);
      parts[2] = lanes_sum<lanes>(parts[2]);
    });
    value = all[2];
    return {all[0], all[1]};
  }
  template <class ThreadGroup>
  __device__ __forceinline__ OnlineSoftmax over_group(ThreadGroupExchange<ThreadGroup>& exchange) const {
    float all[2] = {top, sum};
    exchange.all(all, [&]<int lanes>(float(&parts)[2]) {
      OnlineSoftmax{parts[0], parts[1]}.template over_lanes<lanes>(parts[0], parts[1]);
    });
    return {all[0], all[1]};
  }

  /// What exp(x − top) is to be multiplied by where the greatest x is `above`.
  __device__ __forceinline__ float factor(float above) const {
    return top == above ? 1.0F : fast_exp(top - above);
  }
  /// log Σ exp(x): −∞ where all of x is, ∞ where x has that.
  __device__ __forceinline__ float log() const { return (fabsf(top) == INFINITY ? 0.0F : top) + logf(sum); }
  /// Σ exp(x − top) as it reads: NaN where top is infinite.
  __device__ __forceinline__ float plain_sum() const { return fabsf(top) == INFINITY ? NAN : sum; }

 private:
  template <int lanes>
  __device__ __forceinline__ void over_lanes(float& top_of_all, float& sum_of_all) const {
    const float above = lanes_max<lanes>(top);
    sum_of_all = lanes_sum<lanes>(sum * factor(above));
    top_of_all = above;
  }
};

}  // namespace ingot::kernels::cuda
