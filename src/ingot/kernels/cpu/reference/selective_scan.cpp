#include "ingot/kernels/selective_scan.h"

#include <algorithm>
#include <cmath>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/scan_rows.h"

namespace ingot::kernels::cpu {
namespace {

template <class T>
void scan_head(const SelectiveScanArgs& args, const ScanHead& at) {
  T* state = args.state.as<T>() + at.state();
  for (std::int64_t t = 0; t < at.steps; ++t) {
    if (at.begins(args.starts, t)) std::fill_n(state, at.size * at.width, T{0});
    const T decay = std::exp(args.decay.as<T>()[at.step(t)]);
    const T* keys = args.keys.as<T>() + at.keys(t);
    const T* queries = args.queries.as<T>() + at.keys(t);
    for (std::int64_t p = 0; p < at.size; ++p) {
      const T x = args.x.as<T>()[at.x(t) + p];
      T sum = 0;
      for (std::int64_t n = 0; n < at.width; ++n) {
        T& s = state[p * at.width + n];
        s = decay * s + x * keys[n];
        sum += s * queries[n];
      }
      args.y.as<T>()[at.x(t) + p] = sum;
    }
  }
}

// Gradients of queries: of the states, which are made once more.
template <class T>
void scan_queries_gradient(const SelectiveScanBackwardArgs& args, const ScanHead& at) {
  T* state = args.scratch.as<T>() + at.state();
  std::fill_n(state, at.size * at.width, T{0});
  for (std::int64_t t = 0; t < at.steps; ++t) {
    if (at.begins(args.starts, t)) std::fill_n(state, at.size * at.width, T{0});
    const T decay = std::exp(args.decay.as<T>()[at.step(t)]);
    const T* keys = args.keys.as<T>() + at.keys(t);
    T* dqueries = args.dqueries.as<T>() + at.dkeys(t);
    std::fill_n(dqueries, at.width, T{0});
    for (std::int64_t p = 0; p < at.size; ++p) {
      const T x = args.x.as<T>()[at.x(t) + p], dy = args.dy.as<T>()[at.x(t) + p];
      for (std::int64_t n = 0; n < at.width; ++n) {
        T& s = state[p * at.width + n];
        s = decay * s + x * keys[n];
        dqueries[n] += dy * s;
      }
    }
  }
}

// The others: G[t] = dy[t] · queries[t]ᵀ + exp(decay[t + 1]) · G[t + 1] is the gradient of S[t]. That of
// decay[t] is G[t] : exp(decay[t]) · S[t − 1], and G[t] : S[t] is this plus dx[t] · x[t], but also dy[t] ·
// y[t] plus the gradient of decay[t + 1]: so it needs no states.
template <class T>
void scan_gradients(const SelectiveScanBackwardArgs& args, const ScanHead& at) {
  T* state = args.scratch.as<T>() + at.state();
  std::fill_n(state, at.size * at.width, T{0});
  T decay = 0, next = 0;  // exp(decay[t + 1]), the gradient of decay[t + 1]; 0: t + 1 begins a document
  for (std::int64_t t = at.steps - 1; t >= 0; --t) {
    const T* keys = args.keys.as<T>() + at.keys(t);
    const T* queries = args.queries.as<T>() + at.keys(t);
    T* dkeys = args.dkeys.as<T>() + at.dkeys(t);
    std::fill_n(dkeys, at.width, T{0});
    for (std::int64_t p = 0; p < at.size; ++p) {
      const std::int64_t i = at.x(t) + p;
      const T x = args.x.as<T>()[i], dy = args.dy.as<T>()[i];
      T dx = 0;
      for (std::int64_t n = 0; n < at.width; ++n) {
        T& g = state[p * at.width + n];
        g = decay * g + dy * queries[n];
        dx += g * keys[n];
        dkeys[n] += g * x;
      }
      next += dy * args.y.as<T>()[i] - dx * x;
      if (args.dx) args.dx.as<T>()[i] = args.accumulate_dx ? args.dx.as<T>()[i] + dx : dx;
    }
    const bool first = t == 0 || at.begins(args.starts, t);
    decay = first ? T{0} : std::exp(args.decay.as<T>()[at.step(t)]);
    if (first) {  // not by a product with 0, which would keep infinities
      next = 0;
      std::fill_n(state, at.size * at.width, T{0});
    }
    if (!args.ddecay) continue;
    T& to = args.ddecay.as<T>()[at.step(t)];
    to = args.accumulate_ddecay ? to + next : next;
  }
}

void selective_scan_reference(const SelectiveScanArgs& args, Stream) {
  for_scan_heads(args.x, args.keys, [&](const ScanHead& head) {
    args.x.dtype == DType::f64 ? scan_head<double>(args, head) : scan_head<float>(args, head);
  });
}

void selective_scan_backward_reference(const SelectiveScanBackwardArgs& args, Stream) {
  const bool f64 = args.x.dtype == DType::f64;
  for_scan_heads(args.x, args.keys, [&](const ScanHead& head) {
    f64 ? scan_queries_gradient<double>(args, head) : scan_queries_gradient<float>(args, head);
    f64 ? scan_gradients<double>(args, head) : scan_gradients<float>(args, head);
  });
}

}  // namespace

void register_selective_scan_reference() {
  selective_scan.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, selective_scan_reference});
  selective_scan_backward.add(DeviceType::cpu,
                              {"reference", ImplKind::reference, nullptr, selective_scan_backward_reference});
}

}  // namespace ingot::kernels::cpu
