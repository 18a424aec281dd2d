#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>

#include "ingot/kernels/cuda/device/functions.h"
#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/optimizer/optimizer_weights.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

// M: float, or std::uint8_t for codes with scales.
template <class M>
struct Moments {
  M *m, *v;
  float *m_scale, *v_scale;
};
// Scalars are combined in double on the host and rounded once: 1 - 0.999F is off by 1e-5 already.
struct AdamWRates {
  float decay, keep;     // weight_decay, 1 - lr · weight_decay
  float step, inv_root;  // lr / bias_correction1, 1 / sqrt(bias_correction2)
};
template <class P, class G, class M>
struct AdamWItem {
  Weights<P> weights;
  const G* grad;
  Moments<M> moments;
  std::int64_t n;
  AdamWRates rates;
  bool packed;
};
struct AdamWOptions {
  float take1, beta2, take2, eps;  // take: 1 - beta
  bool decoupled;
};

// g: the gradient, scaled.
__device__ __forceinline__ void adamw_element(const AdamWOptions& o, const AdamWRates& rates, float g,
                                              float& p, float& m, float& v) {
  if (o.decoupled) {
    p *= rates.keep;
  } else {
    g += rates.decay * p;
  }
  m = m + o.take1 * (g - m);
  v = o.beta2 * v + o.take2 * g * g;
  // By the special units: exact, root and quotient were a seventh of what 8-bit moments take, and branch.
  p -= rates.step * m * fast_reciprocal(fast_sqrt(v) * rates.inv_root + o.eps);
}

template <class P, class G, bool has_master>
__global__ void adamw_kernel(const __grid_constant__ Batch<AdamWItem<P, G, float>> batch, AdamWOptions o,
                             const float* grad_scale) {
  std::int64_t begin = 0;
  const AdamWItem<P, G, float> item = batch.mine(begin);
  const float scale = scale_or_one(grad_scale);
  over_chunk(begin, item.n, item.packed, [&]<int vec>(std::int64_t i) {
    float p[vec], g[vec], m[vec], v[vec];
    load_floats(item.grad + i, g);
    load_floats(item.moments.m + i, m);
    load_floats(item.moments.v + i, v);
    load_weights(item.weights, has_master, i, p);
    INGOT_UNROLL
    for (int k = 0; k < vec; ++k) adamw_element(o, item.rates, g[k] * scale, p[k], m[k], v[k]);
    store_floats(item.moments.m + i, m);
    store_floats(item.moments.v + i, v);
    store_weights(item.weights, has_master, i, p);
  });
}

// 8-bit moments: a warp has one of their blocks at a time, 8 neighbours a lane, so that its largest
// magnitudes are known while all is still in registers.
constexpr int kLaneElements = static_cast<int>(kMomentBlock) / kWarp;

__device__ const QuantMap8bit kMaps[2] = {kSignedMap, kUnsignedMap};

// Both maps in shared memory, where every lane looks up another position. A block has a thread for each
// value.
struct MapTables {
  const float *m_values, *v_values, *m_limits, *v_limits;
};
__device__ __forceinline__ MapTables load_maps(float* shared) {
  static_assert(kBatchThreads == 256);
  const auto i = threadIdx.x;
  shared[i] = kMaps[0].values[i];
  shared[256 + i] = kMaps[1].values[i];
  shared[512 + i] = kMaps[0].limits[i];
  shared[768 + i] = kMaps[1].limits[i];
  __syncthreads();
  return {shared, shared + 256, shared + 512, shared + 768};
}

template <int decade = kDecades - 1>
__device__ __forceinline__ float magnitude_index(float t) {
  constexpr MagnitudeLine line = kMagnitudeLines[decade];
  const float index = fmaf(t, line.slope, line.offset);
  if constexpr (decade == 0) {
    return index;
  } else {
    return fminf(index, magnitude_index<decade - 1>(t));
  }
}

// As moment_code (kernels/quant_map_8bit.h) has it.
template <bool is_signed>
__device__ __forceinline__ std::uint8_t code_of(float value, float inverse, const float* limits) {
  const float y = inverse == 0.0F ? 0.0F : value * inverse, t = fabsf(y);
  const float index = magnitude_index(t);
  int magnitude = static_cast<int>(is_signed ? index - 0.25F : 2.0F * index - 1.25F);
  magnitude += t > limits[magnitude] ? 1 : 0;
  if constexpr (!is_signed) return static_cast<std::uint8_t>(magnitude);
  return static_cast<std::uint8_t>(y < 0.0F ? 127 - (magnitude < 127 ? magnitude : 127) : 127 + magnitude);
}

// The codes of a warp's block, of which each lane has 8 elements, and its scale.
template <bool is_signed>
__device__ __forceinline__ Vector<std::uint8_t, kLaneElements> encode(const float (&from)[kLaneElements],
                                                                      const float* limits, float* scale) {
  std::uint32_t largest = 0;
  INGOT_UNROLL
  for (int k = 0; k < kLaneElements; ++k) {
    const std::uint32_t bits = bits_as<std::uint32_t>(from[k]) & 0x7fffffffU;
    largest = bits > largest ? bits : largest;
  }
  largest = combine_lanes<kWarp>(largest, [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; });
  const MomentScale of = moment_scale(largest);
  if (threadIdx.x % kWarp == 0) *scale = of.scale;
  Vector<std::uint8_t, kLaneElements> codes;
  INGOT_UNROLL
  for (int k = 0; k < kLaneElements; ++k) codes.values[k] = code_of<is_signed>(from[k], of.inverse, limits);
  return codes;
}

// f.template operator()<vec>(k, i): element i of the tensor is element k of this lane.
template <class F>
__device__ __forceinline__ void over_lane(std::int64_t at, std::int64_t n, bool packed, F f) {
  if (packed && at + kLaneElements <= n) {
    f.template operator()<kLaneElements>(0, at);
    return;
  }
  INGOT_UNROLL
  for (int k = 0; k < kLaneElements; ++k)
    if (at + k < n) f.template operator()<1>(k, at + k);
}

template <int vec>
__device__ __forceinline__ void put(const float (&from)[vec], float (&to)[kLaneElements], int k) {
  INGOT_UNROLL
  for (int e = 0; e < vec; ++e) to[k + e] = from[e];
}

template <class P, class G, bool has_master>
__global__ void __launch_bounds__(kBatchThreads, 3)
    adamw_codes_kernel(const __grid_constant__ Batch<AdamWItem<P, G, std::uint8_t>> batch, AdamWOptions o,
                       const float* grad_scale) {
  INGOT_SHARED_ARRAY(float, shared, 4 * 256);
  const MapTables maps = load_maps(shared);
  std::int64_t begin = 0;
  const AdamWItem<P, G, std::uint8_t> item = batch.mine(begin);
  const Moments<std::uint8_t>& moments = item.moments;
  const float by = scale_or_one(grad_scale);
  const std::int64_t end = begin + kBatchChunk < item.n ? begin + kBatchChunk : item.n;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t from = begin + warp * kMomentBlock; from < end;
       from += kBatchThreads / kWarp * kMomentBlock) {
    const std::int64_t at = from + lane * kLaneElements, block = from / kMomentBlock;
    const float m_scale = moments.m_scale[block], v_scale = moments.v_scale[block];
    float p[kLaneElements] = {}, g[kLaneElements] = {}, m[kLaneElements] = {}, v[kLaneElements] = {};
    over_lane(at, item.n, item.packed, [&]<int vec>(int k, std::int64_t i) {
      float part[vec];
      load_floats(item.grad + i, part);
      put(part, g, k);
      load_weights(item.weights, has_master, i, part);
      put(part, p, k);
      const auto m_codes = load_vector<vec>(moments.m + i), v_codes = load_vector<vec>(moments.v + i);
      INGOT_UNROLL
      for (int e = 0; e < vec; ++e) {
        m[k + e] = maps.m_values[m_codes.values[e]] * m_scale;
        v[k + e] = maps.v_values[v_codes.values[e]] * v_scale;
      }
    });
    INGOT_UNROLL
    for (int k = 0; k < kLaneElements; ++k) adamw_element(o, item.rates, g[k] * by, p[k], m[k], v[k]);
    __syncwarp();  // every lane has read the scales, which now change
    const auto m_codes = encode<true>(m, maps.m_limits, moments.m_scale + block);
    const auto v_codes = encode<false>(v, maps.v_limits, moments.v_scale + block);
    over_lane(at, item.n, item.packed, [&]<int vec>(int k, std::int64_t i) {
      float part[vec];
      Vector<std::uint8_t, vec> m_part, v_part;
      INGOT_UNROLL
      for (int e = 0; e < vec; ++e) {
        part[e] = p[k + e];
        m_part.values[e] = m_codes.values[k + e];
        v_part.values[e] = v_codes.values[k + e];
      }
      store_weights(item.weights, has_master, i, part);
      store_global(moments.m + i, m_part);
      store_global(moments.v + i, v_part);
    });
  }
}

template <class P, class G, class M>
AdamWItem<P, G, M> item_of(const AdamWTensor& t) {
  return {.weights = weights_of<P>(t),
          .grad = t.grad.as<G>(),
          .moments = {t.m.as<M>(), t.v.as<M>(), t.m_scale.as<float>(), t.v_scale.as<float>()},
          .n = t.param.numel(),
          .rates = {.decay = static_cast<float>(t.weight_decay),
                    .keep = static_cast<float>(1 - t.lr * t.weight_decay),
                    .step = static_cast<float>(t.lr / t.bias_correction1),
                    .inv_root = static_cast<float>(1 / std::sqrt(t.bias_correction2))},
          .packed = aligned({t.param, t.grad, t.m, t.v, t.master},
                            std::is_same_v<M, float> ? kBatchVec : kLaneElements)};
}

// All of one kind.
template <class P, class G>
void adamw_of(const std::vector<AdamWTensor>& tensors, const AdamWOptions& options, const float* grad_scale,
              Stream stream) {
  const LaunchSite site{"adamw", stream, tensors[0].param};
  const bool has_master = static_cast<bool>(tensors[0].master);
  const auto run = [&]<class M>(auto kernel, M) {
    std::vector<AdamWItem<P, G, M>> items;
    for (const AdamWTensor& tensor : tensors) items.push_back(item_of<P, G, M>(tensor));
    for_batches(site, kernel, items, options, grad_scale);
  };
  if (tensors[0].m.dtype == DType::u8) {
    run(has_master ? adamw_codes_kernel<P, G, true> : adamw_codes_kernel<P, G, false>, std::uint8_t{});
  } else {
    run(has_master ? adamw_kernel<P, G, true> : adamw_kernel<P, G, false>, float{});
  }
}

void run_adamw(const AdamWArgs& args, Stream stream) {
  const AdamWOptions options{static_cast<float>(1 - args.beta1), static_cast<float>(args.beta2),
                             static_cast<float>(1 - args.beta2), static_cast<float>(args.eps),
                             args.decoupled};
  const auto kind = [](const AdamWTensor& t) {
    return std::tuple{t.param.dtype, t.grad.dtype, t.m.dtype, static_cast<bool>(t.master)};
  };
  for_kinds(args.tensors, kind, [&](const std::vector<AdamWTensor>& tensors) {
    dispatch_device_float(tensors[0].param.dtype, "adamw", [&]<class P>() {
      dispatch_device_float(tensors[0].grad.dtype, "adamw", [&]<class G>() {
        adamw_of<P, G>(tensors, options, args.grad_scale.as<float>(), stream);
      });
    });
  });
}

bool takes_adamw(const AdamWArgs& args) {
  return std::ranges::all_of(args.tensors, [](const AdamWTensor& t) {
    return takes_weights(t.param, t.master) && is_device_float(t.grad.dtype) && has_moments(t);
  });
}

}  // namespace

void register_adamw() { adamw.add(DeviceType::cuda, {"cuda", ImplKind::cuda, takes_adamw, run_adamw}); }

}  // namespace ingot::kernels::cuda
