#include "ingot/kernels/optimizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

float scalar_or_one(const View& view) { return view ? *view.as<float>() : 1.0F; }

// The weight that a step changes: the parameter, or its master.
template <class T>
struct Weight {
  T* param;
  const View& master;

  Accumulator<T> get(std::int64_t i) const {
    if (!master) return load(param + i);
    if constexpr (std::is_same_v<T, bf16>) {
      return join_weight({param[i], master.as<std::int16_t>()[i]});
    } else {
      return master.as<Accumulator<T>>()[i];
    }
  }
  void set(std::int64_t i, Accumulator<T> value) const {
    if (!master) return store(param + i, value);
    if constexpr (std::is_same_v<T, bf16>) {
      const SplitWeight split = split_weight(value);
      param[i] = split.param;
      master.as<std::int16_t>()[i] = split.remainder;
    } else {
      master.as<Accumulator<T>>()[i] = value;
      store(param + i, value);
    }
  }
};

/// f(index, gradient, reference to the weight that the step changes), for the elements [begin, end).
template <class T, class F>
void step_elements(const View& param, const View& grad, const View& master, float grad_scale,
                   std::int64_t begin, std::int64_t end, F&& f) {
  using Acc = Accumulator<T>;
  if (!is_master_of(master, param))
    throw_unsupported_dtype(master.dtype, "master weight", name(master_dtype(param.dtype)));
  const Weight<T> weight{param.as<T>(), master};
  dispatch_float(grad.dtype, "optimizer", [&]<class G>() {
    for (std::int64_t i = begin; i < end; ++i) {
      Acc p = weight.get(i);
      f(i, static_cast<Acc>(load(grad.as<G>() + i)) * static_cast<Acc>(grad_scale), p);
      weight.set(i, p);
    }
  });
}

// A block of moments that are kept as codes, as numbers while a step changes them.
class MomentBlock {
 public:
  MomentBlock(const QuantMap8bit& map, const View& codes, const View& scales, std::int64_t block)
      : map_(map),
        codes_(codes.as<std::uint8_t>() + block * kMomentBlock),
        scale_(scales.as<float>() + block),
        n_(std::min(kMomentBlock, codes.numel() - block * kMomentBlock)) {
    for (std::int64_t i = 0; i < n_; ++i)
      values_[static_cast<std::size_t>(i)] = map.values[codes_[i]] * *scale_;
  }
  float* values() { return values_.data(); }
  std::int64_t size() const { return n_; }
  void store() const {
    std::uint32_t largest = 0;
    for (std::int64_t i = 0; i < n_; ++i)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(value(i)) & 0x7fffffffU);
    const MomentScale scale = moment_scale(largest);
    *scale_ = scale.scale;
    for (std::int64_t i = 0; i < n_; ++i) codes_[i] = moment_code(map_, value(i), scale.inverse);
  }

 private:
  float value(std::int64_t i) const { return values_[static_cast<std::size_t>(i)]; }

  const QuantMap8bit& map_;
  std::uint8_t* codes_;
  float* scale_;
  std::int64_t n_;
  std::array<float, kMomentBlock> values_{};
};

// AdamW for elements [begin, end) of a tensor, whose moments begin at m and v.
template <class T>
void adamw_elements(const AdamWArgs& args, const AdamWTensor& t, std::int64_t begin, std::int64_t end,
                    Accumulator<T>* m_from, Accumulator<T>* v_from) {
  using Acc = Accumulator<T>;
  // Scalars are combined in double and rounded once: 1 - 0.999F is off by 1e-5 already.
  const auto take1 = static_cast<Acc>(1 - args.beta1), beta2 = static_cast<Acc>(args.beta2);
  const auto take2 = static_cast<Acc>(1 - args.beta2), decay = static_cast<Acc>(t.weight_decay);
  const auto keep = static_cast<Acc>(1 - t.lr * t.weight_decay);
  const auto step = static_cast<Acc>(t.lr / t.bias_correction1);
  const auto root = static_cast<Acc>(std::sqrt(t.bias_correction2));
  step_elements<T>(t.param, t.grad, t.master, scalar_or_one(args.grad_scale), begin, end,
                   [&](std::int64_t i, Acc g, Acc& p) {
                     if (args.decoupled) {
                       p *= keep;
                     } else {
                       g += decay * p;
                     }
                     Acc &m = m_from[i - begin], &v = v_from[i - begin];
                     m += take1 * (g - m);
                     v = beta2 * v + take2 * g * g;
                     p -= step * m / (std::sqrt(v) / root + static_cast<Acc>(args.eps));
                   });
}

template <class T>
void adamw_tensor(const AdamWArgs& args, const AdamWTensor& t) {
  using Acc = Accumulator<T>;
  if (t.m.dtype != DType::u8)
    return adamw_elements<T>(args, t, 0, t.param.numel(), t.m.as<Acc>(), t.v.as<Acc>());
  if constexpr (std::is_same_v<Acc, float>) {
    for (std::int64_t block = 0; block < moment_blocks(t.param.numel()); ++block) {
      MomentBlock m(kSignedMap, t.m, t.m_scale, block), v(kUnsignedMap, t.v, t.v_scale, block);
      const std::int64_t begin = block * kMomentBlock;
      adamw_elements<T>(args, t, begin, begin + m.size(), m.values(), v.values());
      m.store();
      v.store();
    }
  }
}

void adamw_reference(const AdamWArgs& args, Stream) {
  for (const AdamWTensor& t : args.tensors) {
    if (!has_moments(t))
      throw_unsupported_dtype(t.m.dtype, "adamw", "two moments of one dtype, f32 or (with scales) u8");
    dispatch_float(t.param.dtype, "adamw", [&]<class T>() { adamw_tensor<T>(args, t); });
  }
}

void sgd_reference(const SgdArgs& args, Stream) {
  const float grad_scale = scalar_or_one(args.grad_scale);
  for (const SgdTensor& t : args.tensors) {
    dispatch_float(t.param.dtype, "sgd", [&]<class T>() {
      using Acc = Accumulator<T>;
      const auto momentum = static_cast<Acc>(args.momentum), take = static_cast<Acc>(1 - args.dampening);
      step_elements<T>(t.param, t.grad, t.master, grad_scale, 0, t.param.numel(),
                       [&](std::int64_t i, Acc g, Acc& p) {
                         g += static_cast<Acc>(t.weight_decay) * p;
                         if (t.momentum) {
                           Acc& b = t.momentum.as<Acc>()[i];
                           b = t.first ? g : momentum * b + take * g;
                           g = args.nesterov ? g + momentum * b : b;
                         }
                         p -= static_cast<Acc>(t.lr) * g;
                       });
    });
  }
}

void global_norm_reference(const GlobalNormArgs& args, Stream) {
  double sum = 0;
  std::int64_t partial = 0;
  for (const View& tensor : args.tensors) {
    dispatch_float(tensor.dtype, "global_norm", [&]<class T>() {
      for (std::int64_t begin = 0; begin < tensor.numel(); begin += kNormBlock) {
        double block = 0;
        for (std::int64_t i = begin; i < std::min(begin + kNormBlock, tensor.numel()); ++i) {
          const auto value = static_cast<double>(load(tensor.as<T>() + i));
          block += value * value;
        }
        args.partials.as<double>()[partial++] = block;
      }
    });
  }
  for (std::int64_t i = 0; i < norm_blocks(args.tensors, args.partials); ++i)
    sum += args.partials.as<double>()[i];
  const double norm = std::sqrt(sum);
  *args.norm.as<float>() = static_cast<float>(norm);
  // std::min would turn a NaN into 1
  const double clip = args.max_norm / (norm + 1e-6);
  if (args.clip) *args.clip.as<float>() = clip > 1 ? 1.0F : static_cast<float>(clip);
}

void scale_reference(const ScaleAllArgs& args, Stream) {
  const float factor = scalar_or_one(args.factor);
  if (factor == 1 && args.limit <= 0) return;
  for (const View& tensor : args.tensors) {
    dispatch_float(tensor.dtype, "scale_all", [&]<class T>() {
      using Acc = Accumulator<T>;
      const auto limit = static_cast<Acc>(args.limit);
      for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        Acc value = load(tensor.as<T>() + i) * static_cast<Acc>(factor);
        if (limit > 0 && value > limit) value = limit;  // a NaN passes
        if (limit > 0 && value < -limit) value = -limit;
        store(tensor.as<T>() + i, value);
      }
    });
  }
}

void lerp_reference(const LerpAllArgs& args, Stream) {
  for (const LerpTensor& t : args.tensors) {
    dispatch_float(t.from.dtype, "lerp_all", [&]<class T>() {
      using Acc = Accumulator<T>;
      for (std::int64_t i = 0; i < t.from.numel(); ++i) {
        Acc& to = t.to.as<Acc>()[i];
        to += static_cast<Acc>(args.weight) * (load(t.from.as<T>() + i) - to);
      }
    });
  }
}

}  // namespace

void register_optimizer_reference() {
  adamw.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, adamw_reference});
  sgd.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, sgd_reference});
  global_norm.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, global_norm_reference});
  scale_all.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, scale_reference});
  lerp_all.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, lerp_reference});
}

}  // namespace ingot::kernels::cpu
