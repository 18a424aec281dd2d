#include "ingot/kernels/optimizer.h"

#include <algorithm>
#include <cmath>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/flat.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/float_block.h"
#include "ingot/kernels/cpu/simd/moment_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/optimizer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Every element goes through the same vector instructions, also at the end of a tensor (masked), so that the
// split over threads changes no bit. Non-temporal stores would not help the steps: they read every line that
// they write, so no line is fetched for nothing. Half precision is converted block by block, in L1.
HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
#ifndef INGOT_OPTIMIZER_BLOCKS
#define INGOT_OPTIMIZER_BLOCKS
// Weights that a step changes: `values` as f32 or, where that is null, bf16 parameters with the remainders of
// their master weights.
struct WeightBlock {
  float* values;
  std::uint16_t* param;
  std::int16_t* remainder;
};
// n elements of one parameter, the others all as f32.
struct AdamWBlock {
  WeightBlock weight;
  const float* grad;
  float *m, *v;
  std::int64_t n;
};
struct SgdBlock {
  WeightBlock weight;
  const float* grad;
  float* momentum;  // null without
  std::int64_t n;
};
#endif
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Words = hn::RebindToUnsigned<D>;

// Scalars are combined in double and rounded once: 1 - 0.999F is off by 1e-5 already.
V set(double value) { return hn::Set(D(), static_cast<float>(value)); }

// As many elements as a register has lanes of f32, from memory and back: all, or the first `n`.
struct Whole {
  template <class T>
  auto load(const T* p) const {
    return hn::LoadU(hn::Rebind<T, D>(), p);
  }
  template <class T>
  void store(hn::Vec<hn::Rebind<T, D>> v, T* p) const {
    hn::StoreU(v, hn::Rebind<T, D>(), p);
  }
};
// Lanes of 16 bits go through an array: without AVX-512 there are no masks for them, and what lies behind the
// tensor is not ours to read or to write back.
struct Part {
  std::size_t n;
  template <class T>
  auto load(const T* p) const {
    const hn::Rebind<T, D> d;
    if constexpr (sizeof(T) == sizeof(float)) {
      return hn::MaskedLoad(hn::FirstN(d, n), d, p);
    } else {
      T lanes[hn::MaxLanes(D())] = {};
      std::copy_n(p, n, lanes);
      return hn::LoadU(d, lanes);
    }
  }
  template <class T>
  void store(hn::Vec<hn::Rebind<T, D>> v, T* p) const {
    const hn::Rebind<T, D> d;
    if constexpr (sizeof(T) == sizeof(float)) {
      hn::BlendedStore(v, hn::FirstN(d, n), d, p);
    } else {
      T lanes[hn::MaxLanes(D())];
      hn::StoreU(v, d, lanes);
      std::copy_n(lanes, n, p);
    }
  }
};

// The weights of a block. For every lane what split_weight and join_weight do.
struct FloatWeights {
  float* HWY_RESTRICT values;
  template <class Access>
  V load(Access access, std::int64_t i) const {
    return access.load(values + i);
  }
  template <class Access>
  void store(Access access, V v, std::int64_t i) const {
    access.store(v, values + i);
  }
};
struct SplitWeights {
  std::uint16_t* HWY_RESTRICT param;
  std::int16_t* HWY_RESTRICT remainder;
  template <class Access>
  V load(Access access, std::int64_t i) const {
    const hn::RebindToSigned<D> ints;
    const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(ints, access.load(param + i)));
    return hn::BitCast(D(), hn::Add(upper, hn::PromoteTo(ints, access.load(remainder + i))));
  }
  template <class Access>
  void store(Access access, V v, std::int64_t i) const {
    const Words words;
    const hn::Rebind<std::uint16_t, D> halves;
    const auto bits = hn::BitCast(words, v);
    const auto nan = hn::RebindMask(words, hn::IsNaN(v));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Set(words, 0x8000)));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(words, 0x40));
    access.store(hn::TruncateTo(halves, hn::IfThenElse(nan, quiet, rounded)), param + i);
    access.store(
        hn::BitCast(hn::Rebind<std::int16_t, D>(), hn::TruncateTo(halves, hn::IfThenZeroElse(nan, bits))),
        remainder + i);
  }
};
template <class F>
void with_weights(const WeightBlock& block, F&& f) {
  if (block.values != nullptr) {
    f(FloatWeights{block.values});
  } else {
    f(SplitWeights{block.param, block.remainder});
  }
}

// f(access, offset) over n elements.
template <class F>
void for_each_vector(std::int64_t n, F&& f) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(Whole{}, i);
  if (i < n) f(Part{static_cast<std::size_t>(n - i)}, i);
}

template <bool kDecoupled, class Weights>
void adamw_form(const AdamWArgs& args, const AdamWTensor& t, const AdamWBlock& block, Weights p,
                float grad_scale) {
  const float* HWY_RESTRICT g = block.grad;
  float* HWY_RESTRICT m = block.m;
  float* HWY_RESTRICT v = block.v;
  const V scale = set(grad_scale), eps = set(args.eps);
  const V take1 = set(1 - args.beta1), beta2 = set(args.beta2);
  const V take2 = set(1 - args.beta2);
  const V inv_root = set(1 / std::sqrt(t.bias_correction2));
  const V step = set(t.lr / t.bias_correction1);
  const V keep = set(1 - t.lr * t.weight_decay), decay = set(t.weight_decay);
  for_each_vector(block.n, [&](auto access, std::int64_t i) {
    V grad = hn::Mul(access.load(g + i), scale);
    V param = p.load(access, i);
    if constexpr (kDecoupled) {
      param = hn::Mul(param, keep);
    } else {
      grad = hn::MulAdd(decay, param, grad);
    }
    const V m_old = access.load(m + i);
    const V m_new = hn::MulAdd(take1, hn::Sub(grad, m_old), m_old);
    const V v_new = hn::MulAdd(hn::Mul(take2, grad), grad, hn::Mul(beta2, access.load(v + i)));
    const V denominator = hn::MulAdd(hn::Sqrt(v_new), inv_root, eps);
    access.store(m_new, m + i);
    access.store(v_new, v + i);
    p.store(access, hn::NegMulAdd(step, hn::Div(m_new, denominator), param), i);
  });
}

void adamw_block(const AdamWArgs& args, const AdamWTensor& t, const AdamWBlock& block, float grad_scale) {
  with_weights(block.weight, [&](auto weights) {
    if (args.decoupled) {
      adamw_form<true>(args, t, block, weights, grad_scale);
    } else {
      adamw_form<false>(args, t, block, weights, grad_scale);
    }
  });
}

template <class Weights>
void sgd_form(const SgdArgs& args, const SgdTensor& t, const SgdBlock& block, Weights p, float grad_scale) {
  const float* HWY_RESTRICT g = block.grad;
  float* HWY_RESTRICT b = block.momentum;
  const V scale = set(grad_scale), decay = set(t.weight_decay), lr = set(t.lr);
  const V momentum = set(args.momentum), take = set(1 - args.dampening);
  for_each_vector(block.n, [&](auto access, std::int64_t i) {
    const V param = p.load(access, i);
    V grad = hn::MulAdd(decay, param, hn::Mul(access.load(g + i), scale));
    if (b != nullptr) {
      const V buffer = t.first ? grad : hn::MulAdd(momentum, access.load(b + i), hn::Mul(take, grad));
      access.store(buffer, b + i);
      grad = args.nesterov ? hn::MulAdd(momentum, buffer, grad) : buffer;
    }
    p.store(access, hn::NegMulAdd(lr, grad, param), i);
  });
}

void sgd_block(const SgdArgs& args, const SgdTensor& t, const SgdBlock& block, float grad_scale) {
  with_weights(block.weight, [&](auto weights) { sgd_form(args, t, block, weights, grad_scale); });
}

// In eight sums of vectors.
float square_sum_of_piece(const float* x, std::int64_t n) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  std::int64_t i = 0;
  const auto add = [&](V& sum, std::int64_t at) {
    const V value = hn::LoadU(d, x + at);
    sum = hn::MulAdd(value, value, sum);
  };
  for (; i + 8 * lanes <= n; i += 8 * lanes) {
    add(s0, i);
    add(s1, i + lanes);
    add(s2, i + 2 * lanes);
    add(s3, i + 3 * lanes);
    add(s4, i + 4 * lanes);
    add(s5, i + 5 * lanes);
    add(s6, i + 6 * lanes);
    add(s7, i + 7 * lanes);
  }
  for_each_vector(n - i, [&](auto access, std::int64_t k) {
    const V value = access.load(x + i + k);
    s0 = hn::MulAdd(value, value, s0);
  });
  const V sum = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Sum of squares of one block: however wide a vector is, f32 adds at most 128 values to a lane.
double square_sum(const float* x, std::int64_t n) {
  const std::int64_t piece = 8 * 128 * static_cast<std::int64_t>(hn::Lanes(D()));
  double sum = 0;
  for (std::int64_t i = 0; i < n; i += piece) sum += square_sum_of_piece(x + i, std::min(piece, n - i));
  return sum;
}

void scale_range(float* x, std::int64_t n, float factor, double limit) {
  const V scale = set(factor), high = set(limit), low = set(-limit);
  for_each_vector(n, [&](auto access, std::int64_t i) {
    V value = hn::Mul(access.load(x + i), scale);
    if (limit > 0) {  // comparisons, because Min and Max may drop a NaN
      value = hn::IfThenElse(hn::Gt(value, high), high, value);
      value = hn::IfThenElse(hn::Lt(value, low), low, value);
    }
    access.store(value, x + i);
  });
}

void lerp_range(const float* from, float* to, std::int64_t n, double weight) {
  const V w = set(weight);
  for_each_vector(n, [&](auto access, std::int64_t i) {
    const V old = access.load(to + i);
    access.store(hn::MulAdd(w, hn::Sub(access.load(from + i), old), old), to + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(adamw_block);
HWY_EXPORT(sgd_block);
HWY_EXPORT(square_sum);
HWY_EXPORT(scale_range);
HWY_EXPORT(lerp_range);

constexpr std::int64_t kBlock = FloatBlock::kMax;
static_assert(kBlock == MomentBlock::kMax && kBlock % kMomentBlock == 0);
constexpr std::int64_t kGrain = 16;  // blocks: about 10 µs of memory traffic

bool is_f32(const View& view) { return !view || (view.dtype == DType::f32 && view.is_contiguous()); }
bool is_float(const View& view) { return !view || (is_simd_float(view.dtype) && view.is_contiguous()); }

float scalar_or_one(const View& view) { return view ? *view.as<float>() : 1.0F; }

// One parallel loop over the elements of all tensors: body(tensor, begin, n), n <= kBlock.
template <class T, class Count, class Body>
void parallel_blocks(std::span<const T> tensors, Count&& count, Body&& body) {
  parallel_for(count_blocks(tensors, kBlock, count), kGrain, [&](std::int64_t first, std::int64_t last) {
    for_each_piece(tensors, kBlock, first, last, count,
                   [&](const T& tensor, std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; i += kBlock) {
                       body(tensor, i, std::min(kBlock, end - i));
                     }
                   });
  });
}

// step(weight, grad) on a block of one tensor; an f16 parameter is then rounded from its master, if it has
// one.
template <class T, class Step>
void step_block(const T& t, std::int64_t begin, std::int64_t n, Step&& step) {
  FloatBlock grad(t.grad, begin, n);
  if (t.master.dtype == DType::i16)
    return step(
        {nullptr, t.param.template as<std::uint16_t>() + begin, t.master.template as<std::int16_t>() + begin},
        grad.data());
  FloatBlock weight(t.master ? t.master : t.param, begin, n);
  step({weight.data(), nullptr, nullptr}, grad.data());
  if (t.master) {
    FloatBlock(t.param, begin, n).store(weight.data());
  } else {
    weight.store(weight.data());
  }
}

bool accepts_weights(const View& param, const View& master) {
  return is_float(param) && is_master_of(master, param) && (!master || master.is_contiguous());
}

bool accepts_adamw(const AdamWArgs& args) {
  return std::ranges::all_of(args.tensors, [](const AdamWTensor& t) {
    return accepts_weights(t.param, t.master) && is_float(t.grad) && has_moments(t) && t.m.is_contiguous() &&
           t.v.is_contiguous();
  });
}

void run_adamw(const AdamWArgs& args, Stream) {
  const float grad_scale = scalar_or_one(args.grad_scale);
  parallel_blocks(
      args.tensors, [](const AdamWTensor& t) { return t.param.numel(); },
      [&](const AdamWTensor& t, std::int64_t begin, std::int64_t n) {
        step_block(t, begin, n, [&](const WeightBlock& weight, const float* grad) {
          MomentBlock m(kSignedMap, t.m, t.m_scale, begin, n), v(kUnsignedMap, t.v, t.v_scale, begin, n);
          HWY_DYNAMIC_DISPATCH(adamw_block)
          (args, t, AdamWBlock{weight, grad, m.data(), v.data(), n}, grad_scale);
          m.store();
          v.store();
        });
      });
}

bool accepts_sgd(const SgdArgs& args) {
  return std::ranges::all_of(args.tensors, [](const SgdTensor& t) {
    return accepts_weights(t.param, t.master) && is_float(t.grad) && is_f32(t.momentum);
  });
}

void run_sgd(const SgdArgs& args, Stream) {
  const float grad_scale = scalar_or_one(args.grad_scale);
  parallel_blocks(
      args.tensors, [](const SgdTensor& t) { return t.param.numel(); },
      [&](const SgdTensor& t, std::int64_t begin, std::int64_t n) {
        step_block(t, begin, n, [&](const WeightBlock& weight, const float* grad) {
          const SgdBlock block{weight, grad, t.momentum ? t.momentum.as<float>() + begin : nullptr, n};
          HWY_DYNAMIC_DISPATCH(sgd_block)(args, t, block, grad_scale);
        });
      });
}

bool all_floats(std::span<const View> tensors) { return std::ranges::all_of(tensors, is_float); }

// Elements [begin, begin + n) of a tensor, one norm block.
double square_sum_of(const View& view, std::int64_t begin, std::int64_t n) {
  if (view.dtype == DType::f32) return HWY_DYNAMIC_DISPATCH(square_sum)(view.as<float>() + begin, n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t size = std::min(kBlock, n - i);
    sum += HWY_DYNAMIC_DISPATCH(square_sum)(FloatBlock(view, begin + i, size).data(), size);
  }
  return sum;
}

void run_global_norm(const GlobalNormArgs& args, Stream) {
  const auto count = [](const View& view) { return view.numel(); };
  auto* partials = args.partials.as<double>();
  const std::int64_t blocks = count_blocks(args.tensors, kNormBlock, count);
  parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t partial = begin;
    for_each_piece(args.tensors, kNormBlock, begin, end, count,
                   [&](const View& view, std::int64_t first, std::int64_t last) {
                     for (std::int64_t i = first; i < last; i += kNormBlock) {
                       partials[partial++] = square_sum_of(view, i, std::min(kNormBlock, last - i));
                     }
                   });
  });
  double sum = 0;
  for (std::int64_t i = 0; i < norm_blocks(args.tensors, args.partials); ++i) sum += partials[i];
  const double norm = std::sqrt(sum);
  *args.norm.as<float>() = static_cast<float>(norm);
  const double clip = args.max_norm / (norm + 1e-6);
  if (args.clip) *args.clip.as<float>() = clip > 1 ? 1.0F : static_cast<float>(clip);
}

void run_scale(const ScaleAllArgs& args, Stream) {
  const float factor = scalar_or_one(args.factor);
  if (factor == 1 && args.limit <= 0) return;
  parallel_blocks(
      args.tensors, [](const View& view) { return view.numel(); },
      [&](const View& view, std::int64_t begin, std::int64_t n) {
        FloatBlock block(view, begin, n);
        HWY_DYNAMIC_DISPATCH(scale_range)(block.data(), n, factor, args.limit);
        block.store(block.data());
      });
}

void run_lerp(const LerpAllArgs& args, Stream) {
  parallel_blocks(
      args.tensors, [](const LerpTensor& t) { return t.to.numel(); },
      [&](const LerpTensor& t, std::int64_t begin, std::int64_t n) {
        FloatBlock from(t.from, begin, n);
        HWY_DYNAMIC_DISPATCH(lerp_range)(from.data(), t.to.as<float>() + begin, n, args.weight);
      });
}

}  // namespace

void register_optimizer_simd() {
  adamw.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_adamw, run_adamw});
  sgd.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts_sgd, run_sgd});
  global_norm.add(DeviceType::cpu,
                  {"simd", ImplKind::simd,
                   [](const GlobalNormArgs& args) { return all_floats(args.tensors); }, run_global_norm});
  scale_all.add(
      DeviceType::cpu,
      {"simd", ImplKind::simd, [](const ScaleAllArgs& args) { return all_floats(args.tensors); }, run_scale});
  lerp_all.add(DeviceType::cpu, {"simd", ImplKind::simd,
                                 [](const LerpAllArgs& args) {
                                   return std::ranges::all_of(args.tensors, [](const LerpTensor& t) {
                                     return is_float(t.from) && is_f32(t.to);
                                   });
                                 },
                                 run_lerp});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
