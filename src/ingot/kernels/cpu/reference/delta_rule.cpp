#include "ingot/kernels/delta_rule.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/scan_rows.h"

namespace ingot::kernels::cpu {
namespace {

// One step of one row of a state; a document begins: with what is there before taken for zero.
template <class T>
void correct(T* row, bool begins, T decay, T beta, T value, const T* keys, std::int64_t width) {
  T answer = 0;
  for (std::int64_t n = 0; n < width; ++n) {
    row[n] = begins ? T{0} : decay * row[n];
    answer += row[n] * keys[n];
  }
  const T error = beta * (value - answer);
  for (std::int64_t n = 0; n < width; ++n) row[n] += error * keys[n];
}

template <class T>
void delta_head(const DeltaRuleArgs& args, const ScanHead& at) {
  T* state = args.state.as<T>() + at.state();
  for (std::int64_t t = 0; t < at.steps; ++t) {
    const T decay = std::exp(args.decay.as<T>()[at.step(t)]), beta = args.beta.as<T>()[at.step(t)];
    const T* keys = args.keys.as<T>() + at.keys(t);
    const T* queries = args.queries.as<T>() + at.keys(t);
    for (std::int64_t p = 0; p < at.size; ++p) {
      T* row = state + p * at.width;
      correct(row, at.begins(args.starts, t), decay, beta, args.x.as<T>()[at.x(t) + p], keys, at.width);
      T sum = 0;
      for (std::int64_t n = 0; n < at.width; ++n) sum += row[n] * queries[n];
      args.y.as<T>()[at.x(t) + p] = sum;
    }
  }
}

// The states before each part of the steps, then, from the last part back, those of its steps, of which
// G[t], the gradient of S[t], and the others follow. With S' and the error e = beta · (x − S' · k):
//   de = G · k, dk = Gᵀ · e − beta · S'ᵀ · de, dq = S[t]ᵀ · dy, dbeta = de · (x − S' · k), dx = beta · de,
//   dS' = G − beta · de · kᵀ, ddecay = dS' : S', G[t − 1] = exp(decay) · dS' + dy[t − 1] · q[t − 1]ᵀ.
template <class T>
class DeltaGradients {
 public:
  DeltaGradients(const DeltaRuleBackwardArgs& args, const ScanHead& head)
      : args_(args), at_(head), parts_(args.states.dim(2)), steps_(args.history.dim(3)) {}

  void run() {
    T* gradient = args_.gradient.as<T>() + at_.state();
    std::fill_n(gradient, at_.size * at_.width, T{0});
    for (std::int64_t p = 0; p < at_.size; ++p) keep_states(p);
    for (std::int64_t part = parts_ - 1; part >= 0; --part) {
      const std::int64_t begin = part * steps_, end = std::min(begin + steps_, at_.steps);
      clear(begin, end);
      for (std::int64_t p = 0; p < at_.size; ++p) {
        remember(p, part, begin, end);
        for (std::int64_t t = end - 1; t >= begin; --t) step(p, t, part, gradient + p * at_.width);
      }
    }
  }

 private:
  T* state_before(std::int64_t part, std::int64_t p) const {
    return args_.states.as<T>() + (((at_.b * at_.heads + at_.h) * parts_ + part) * at_.size + p) * at_.width;
  }
  T* history(std::int64_t p, std::int64_t step) const {
    return args_.history.as<T>() + (((at_.b * at_.heads + at_.h) * at_.size + p) * steps_ + step) * at_.width;
  }
  void advance(T* row, std::int64_t p, std::int64_t t) const {
    correct(row, at_.begins(args_.starts, t), std::exp(args_.decay.as<T>()[at_.step(t)]),
            args_.beta.as<T>()[at_.step(t)], args_.x.as<T>()[at_.x(t) + p], args_.keys.as<T>() + at_.keys(t),
            at_.width);
  }

  void keep_states(std::int64_t p) const {
    std::fill_n(state_before(0, p), at_.width, T{0});
    for (std::int64_t part = 1; part < parts_; ++part) {
      T* row = state_before(part, p);
      std::copy_n(state_before(part - 1, p), at_.width, row);
      for (std::int64_t t = (part - 1) * steps_; t < part * steps_; ++t) advance(row, p, t);
    }
  }

  void remember(std::int64_t p, std::int64_t part, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t t = begin; t < end; ++t) {
      T* row = history(p, t - begin);
      std::copy_n(t == begin ? state_before(part, p) : history(p, t - begin - 1), at_.width, row);
      advance(row, p, t);
    }
  }

  void clear(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t t = begin; t < end; ++t) {
      for (const View& sums : {args_.dkeys, args_.dqueries})
        std::fill_n(sums.as<T>() + at_.dkeys(t), at_.width, T{0});
      put(args_.ddecay, args_.accumulate_ddecay, t, T{0});
      put(args_.dbeta, args_.accumulate_dbeta, t, T{0});
    }
  }

  void put(const View& to, bool accumulate, std::int64_t t, T value) const {
    if (!to) return;
    T& place = to.as<T>()[at_.step(t)];
    place = accumulate ? place + value : value;
  }

  // g: the gradient of this row of S[t] but for what y[t] adds, and then of S[t − 1].
  void step(std::int64_t p, std::int64_t t, std::int64_t part, T* g) const {
    const std::int64_t i = at_.x(t) + p, in_part = t - part * steps_;
    const bool first = t == 0 || at_.begins(args_.starts, t);
    const T decay = first ? T{0} : std::exp(args_.decay.as<T>()[at_.step(t)]),
            beta = args_.beta.as<T>()[at_.step(t)];
    const T x = args_.x.as<T>()[i], dy = args_.dy.as<T>()[i];
    const T* keys = args_.keys.as<T>() + at_.keys(t);
    const T* queries = args_.queries.as<T>() + at_.keys(t);
    const T* before = in_part == 0 ? state_before(part, p) : history(p, in_part - 1);
    const T* after = history(p, in_part);
    T* dkeys = args_.dkeys.as<T>() + at_.dkeys(t);
    T* dqueries = args_.dqueries.as<T>() + at_.dkeys(t);
    T answer = 0, derror = 0, kept = 0;  // S' · k, de, G : S'
    for (std::int64_t n = 0; n < at_.width; ++n) {
      const T s = first ? T{0} : decay * before[n];
      g[n] += dy * queries[n];
      answer += s * keys[n];
      derror += g[n] * keys[n];
      kept += g[n] * s;
    }
    const T error = beta * (x - answer), back = beta * derror;
    for (std::int64_t n = 0; n < at_.width; ++n) {
      const T s = first ? T{0} : decay * before[n];
      dkeys[n] += g[n] * error - back * s;
      dqueries[n] += dy * after[n];
      g[n] = first ? T{0} : decay * (g[n] - back * keys[n]);
    }
    if (args_.dx) args_.dx.as<T>()[i] = args_.accumulate_dx ? args_.dx.as<T>()[i] + back : back;
    put(args_.ddecay, true, t, kept - back * answer);
    put(args_.dbeta, true, t, derror * (x - answer));
  }

  const DeltaRuleBackwardArgs& args_;
  const ScanHead& at_;
  std::int64_t parts_, steps_;
};

void delta_rule_reference(const DeltaRuleArgs& args, Stream) {
  for_scan_heads(args.x, args.keys, [&](const ScanHead& head) {
    args.x.dtype == DType::f64 ? delta_head<double>(args, head) : delta_head<float>(args, head);
  });
}

void delta_rule_backward_reference(const DeltaRuleBackwardArgs& args, Stream) {
  const bool f64 = args.x.dtype == DType::f64;
  for_scan_heads(args.x, args.keys, [&](const ScanHead& head) {
    f64 ? DeltaGradients<double>(args, head).run() : DeltaGradients<float>(args, head).run();
  });
}

}  // namespace

void register_delta_rule_reference() {
  delta_rule.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, delta_rule_reference});
  delta_rule_backward.add(DeviceType::cpu,
                          {"reference", ImplKind::reference, nullptr, delta_rule_backward_reference});
}

}  // namespace ingot::kernels::cpu
