#pragma once

#include <type_traits>

#include "ingot/kernels/cuda/optimizer/tensor_batch.h"
#include "ingot/kernels/master_weight.h"
#include "ingot/kernels/optimizer.h"

// What the steps of all optimizers do with parameters, their master weights and the scale of gradients.
namespace ingot::kernels::cuda {

__device__ __forceinline__ float scale_or_one(const float* scale) { return scale == nullptr ? 1.0F : *scale; }

// As split_weight and join_weight (kernels/master_weight.h) have it.
__device__ __forceinline__ float join(bfloat_t param, std::int16_t remainder) {
  const std::uint32_t upper = bits_as<std::uint16_t>(param);
  return bits_as<float>((upper << 16) + static_cast<std::uint32_t>(std::int32_t{remainder}));
}
__device__ __forceinline__ void split(float master, bfloat_t& param, std::int16_t& remainder) {
  const auto word = bits_as<std::uint32_t>(master);
  const bool nan = (word & 0x7fffffffU) > 0x7f800000U;
  param = bits_as<bfloat_t>(static_cast<std::uint16_t>(nan ? word >> 16 | 0x40U : (word + 0x8000U) >> 16));
  remainder = static_cast<std::int16_t>(nan ? 0 : word);
}

// Parameters and what their master weights are kept as.
template <class P>
struct Weights {
  static constexpr bool kSplit = std::is_same_v<P, bfloat_t>;
  using Master = std::conditional_t<kSplit, std::int16_t, float>;
  P* param;
  Master* master;  // may be null
};

template <class P, class T>
Weights<P> weights_of(const T& tensor) {
  return {tensor.param.template as<P>(), tensor.master.template as<typename Weights<P>::Master>()};
}

// The weights that a step changes, from element i on: parameters or, with `master`, what is kept of these.
template <int vec, class P>
__device__ __forceinline__ void load_weights(const Weights<P>& weights, bool master, std::int64_t i,
                                             float (&to)[vec]) {
  if (!master) return load_floats(weights.param + i, to);
  if constexpr (Weights<P>::kSplit) {
    const auto params = load_vector<vec>(weights.param + i);
    const auto remainders = load_vector<vec>(weights.master + i);
    INGOT_UNROLL
    for (int k = 0; k < vec; ++k) to[k] = join(params.values[k], remainders.values[k]);
  } else {
    load_floats(weights.master + i, to);
  }
}
template <int vec, class P>
__device__ __forceinline__ void store_weights(const Weights<P>& weights, bool master, std::int64_t i,
                                              const float (&from)[vec]) {
  if (!master) return store_floats(weights.param + i, from);
  if constexpr (Weights<P>::kSplit) {
    Vector<bfloat_t, vec> params;
    Vector<std::int16_t, vec> remainders;
    INGOT_UNROLL
    for (int k = 0; k < vec; ++k) split(from[k], params.values[k], remainders.values[k]);
    store_global(weights.param + i, params);
    store_global(weights.master + i, remainders);
  } else {
    store_floats(weights.master + i, from);
    store_floats(weights.param + i, from);
  }
}

inline bool takes_weights(const View& param, const View& master) {
  return is_device_float(param.dtype) && is_master_of(master, param);
}

}  // namespace ingot::kernels::cuda
