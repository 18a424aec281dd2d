#include "ingot/kernels/delta_rule.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/delta_chunk.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/scan_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/delta_rule.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/loops-inl.h"
#include "ingot/kernels/cpu/simd/scan_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float delta_dot(const float* a, const float* b, std::int64_t width) {
  return sum_vectors(width, [&](auto d, std::int64_t n, auto sum) HWY_ATTR {
    return hn::MulAdd(hn::LoadU(d, a + n), hn::LoadU(d, b + n), sum);
  });
}

// Rows [first, last) of a head's state, which do not depend on one another.
void delta_rows(const DeltaRuleArgs& args, const ScanHead& at, std::int64_t first, std::int64_t last,
                std::int64_t begin) {
  float* state = args.state.as<float>() + at.state();
  for (std::int64_t t = begin; t < at.steps; ++t) {
    if (at.begins(args.starts, t)) std::fill(state + first * at.width, state + last * at.width, 0.0F);
    const float decay = std::exp(args.decay.as<float>()[at.step(t)]),
                beta = args.beta.as<float>()[at.step(t)];
    const float* keys = args.keys.as<float>() + at.keys(t);
    const float* queries = args.queries.as<float>() + at.keys(t);
    const float* x = args.x.as<float>() + at.x(t);
    float* y = args.y.as<float>() + at.x(t);
    for (std::int64_t p = first; p < last; ++p) {
      float* row = state + p * at.width;
      const float error = beta * (x[p] - decay * delta_dot(row, keys, at.width));
      y[p] = scan_row(row, row, decay, error, keys, queries, at.width);
    }
  }
}

// As the reference explains them.
class DeltaBackward {
 public:
  DeltaBackward(const DeltaRuleBackwardArgs& args, const ScanHead& head)
      : args_(args), at_(head), parts_(args.states.dim(2)), steps_(args.history.dim(3)) {}

  void run() const {
    const std::int64_t head = at_.b * at_.heads + at_.h;
    float* gradient = args_.gradient.as<float>() + at_.state();
    float* states = args_.states.as<float>() + head * parts_ * at_.size * at_.width;
    std::fill_n(gradient, at_.size * at_.width, 0.0F);
    std::fill_n(states, at_.size * at_.width, 0.0F);
    for (std::int64_t part = 1; part < parts_; ++part) keep_states(states, part);
    for (std::int64_t part = parts_ - 1; part >= 0; --part) {
      const std::int64_t begin = part * steps_, end = std::min(begin + steps_, at_.steps);
      clear(begin, end);
      for (std::int64_t p = 0; p < at_.size; ++p) {
        const float* before = states + (part * at_.size + p) * at_.width;
        float* history = args_.history.as<float>() + (head * at_.size + p) * steps_ * at_.width;
        for (std::int64_t t = begin; t < end; ++t) {
          float* now = history + (t - begin) * at_.width;
          advance(now, t == begin ? before : now - at_.width, p, t);
        }
        for (std::int64_t t = end - 1; t >= begin; --t) {
          const float* now = history + (t - begin) * at_.width;
          step(p, t, t == begin ? before : now - at_.width, now, gradient + p * at_.width);
        }
      }
    }
  }

 private:
  const float* keys(std::int64_t t) const { return args_.keys.as<float>() + at_.keys(t); }
  bool first(std::int64_t t) const { return t == 0 || at_.begins(args_.starts, t); }

  void advance(float* to, const float* from, std::int64_t p, std::int64_t t) const {
    const float beta = args_.beta.as<float>()[at_.step(t)], x = args_.x.as<float>()[at_.x(t) + p];
    const float* k = keys(t);
    if (first(t)) {
      for_vectors(at_.width, [&](auto d, std::int64_t n) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::Set(d, beta * x), hn::LoadU(d, k + n)), d, to + n);
      });
      return;
    }
    const float decay = std::exp(args_.decay.as<float>()[at_.step(t)]);
    scan_row(to, from, decay, beta * (x - decay * delta_dot(from, k, at_.width)), k, k, at_.width);
  }

  // Those before `part`, from those before the part in front of it.
  void keep_states(float* states, std::int64_t part) const {
    for (std::int64_t p = 0; p < at_.size; ++p) {
      const float* from = states + ((part - 1) * at_.size + p) * at_.width;
      float* to = states + (part * at_.size + p) * at_.width;
      for (std::int64_t t = (part - 1) * steps_; t < part * steps_; ++t) {
        advance(to, from, p, t);
        from = to;
      }
    }
  }

  void clear(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t t = begin; t < end; ++t) {
      std::fill_n(args_.dkeys.as<float>() + at_.dkeys(t), at_.width, 0.0F);
      std::fill_n(args_.dqueries.as<float>() + at_.dkeys(t), at_.width, 0.0F);
      if (args_.ddecay && !args_.accumulate_ddecay) args_.ddecay.as<float>()[at_.step(t)] = 0;
      if (args_.dbeta && !args_.accumulate_dbeta) args_.dbeta.as<float>()[at_.step(t)] = 0;
    }
  }

  void step(std::int64_t p, std::int64_t t, const float* before, const float* after, float* g) const {
    const std::int64_t i = at_.x(t) + p;
    const float x = args_.x.as<float>()[i], dy = args_.dy.as<float>()[i];
    const float beta = args_.beta.as<float>()[at_.step(t)];
    const float decay = first(t) ? 0.0F : std::exp(args_.decay.as<float>()[at_.step(t)]);
    const float* k = keys(t);
    const float* queries = args_.queries.as<float>() + at_.keys(t);
    const float derror = sum_vectors(at_.width, [&](auto d, std::int64_t n, auto sum) HWY_ATTR {
      const auto s = hn::MulAdd(hn::Set(d, dy), hn::LoadU(d, queries + n), hn::LoadU(d, g + n));
      hn::StoreU(s, d, g + n);
      return hn::MulAdd(s, hn::LoadU(d, k + n), sum);
    });
    const float answer = first(t) ? 0.0F : decay * delta_dot(before, k, at_.width);
    const float kept = first(t) ? 0.0F : decay * delta_dot(before, g, at_.width);
    const float back = beta * derror;
    add_to_keys(t, after, g, {.dy = dy, .error = beta * (x - answer)});
    if (first(t)) {
      std::fill_n(g, at_.width, 0.0F);
    } else {
      through_state(t, before, g, decay, back);
    }
    if (args_.dx) args_.dx.as<float>()[i] = args_.accumulate_dx ? args_.dx.as<float>()[i] + back : back;
    if (args_.ddecay) args_.ddecay.as<float>()[at_.step(t)] += kept - back * answer;
    if (args_.dbeta) args_.dbeta.as<float>()[at_.step(t)] += derror * (x - answer);
  }

  struct Factors {
    float dy, error;
  };
  void add_to_keys(std::int64_t t, const float* after, const float* g, Factors by) const {
    float* dkeys = args_.dkeys.as<float>() + at_.dkeys(t);
    float* dqueries = args_.dqueries.as<float>() + at_.dkeys(t);
    for_vectors(at_.width, [&](auto d, std::int64_t n) HWY_ATTR {
      hn::StoreU(hn::MulAdd(hn::Set(d, by.error), hn::LoadU(d, g + n), hn::LoadU(d, dkeys + n)), d,
                 dkeys + n);
      hn::StoreU(hn::MulAdd(hn::Set(d, by.dy), hn::LoadU(d, after + n), hn::LoadU(d, dqueries + n)), d,
                 dqueries + n);
    });
  }

  void through_state(std::int64_t t, const float* before, float* g, float decay, float back) const {
    const float* k = keys(t);
    float* dkeys = args_.dkeys.as<float>() + at_.dkeys(t);
    for_vectors(at_.width, [&](auto d, std::int64_t n) HWY_ATTR {
      hn::StoreU(hn::NegMulAdd(hn::Set(d, back * decay), hn::LoadU(d, before + n), hn::LoadU(d, dkeys + n)),
                 d, dkeys + n);
      const auto less = hn::NegMulAdd(hn::Set(d, back), hn::LoadU(d, k + n), hn::LoadU(d, g + n));
      hn::StoreU(hn::Mul(hn::Set(d, decay), less), d, g + n);
    });
  }

  const DeltaRuleBackwardArgs& args_;
  const ScanHead& at_;
  std::int64_t parts_, steps_;
};

void delta_backward(const DeltaRuleBackwardArgs& args, const ScanHead& head) {
  DeltaBackward(args, head).run();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(delta_rows);
HWY_EXPORT(delta_backward);

constexpr std::int64_t kGrainOfDeltas = 16'384;

bool takes_delta_rule(const DeltaRuleArgs& args) { return args.x.dtype == DType::f32; }

void run_delta_rule(const DeltaRuleArgs& args, Stream) {
  parallel_scan_rows(args.x, args.keys, kGrainOfDeltas,
                     [&](const ScanHead& head, std::int64_t first, std::int64_t last) {
                       delta_rule_rows(args, head, first, last, 0);
                     });
}

bool takes_delta_backward(const DeltaRuleBackwardArgs& args) { return args.x.dtype == DType::f32; }

void run_delta_rule_backward(const DeltaRuleBackwardArgs& args, Stream) {
  parallel_scan_heads(args.x, args.keys, kGrainOfDeltas, [&](const ScanHead& head) {
    HWY_DYNAMIC_DISPATCH(delta_backward)(args, head);
  });
}

}  // namespace

void delta_rule_rows(const DeltaRuleArgs& args, const ScanHead& head, std::int64_t first, std::int64_t last,
                     std::int64_t begin) {
  HWY_DYNAMIC_DISPATCH(delta_rows)(args, head, first, last, begin);
}

void register_delta_rule_simd() {
  register_delta_chunks_simd();
  register_delta_chunks_backward_simd();
  delta_rule.add(DeviceType::cpu, {"simd", ImplKind::simd, takes_delta_rule, run_delta_rule});
  delta_rule_backward.add(DeviceType::cpu,
                          {"simd", ImplKind::simd, takes_delta_backward, run_delta_rule_backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
