#include "ingot/kernels/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "ingot/kernels/cpu/attention_ranges.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

template <class T>
T* row(const View& view, std::int64_t b, std::int64_t i, std::int64_t h) {
  return view.as<T>() + b * view.stride(0) + i * view.stride(1) + h * view.stride(2);
}

template <class T, class K>
Accumulator<T> dot(const T* a, const K* b, std::int64_t n) {
  Accumulator<T> sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += load(a + i) * static_cast<Accumulator<T>>(load(b + i));
  return sum;
}

// What the elements of row (b, j, h) of an i8 cache are multiplied with; 1 for the other dtypes.
float row_scale(const View& scale, std::int64_t b, std::int64_t j, std::int64_t h) {
  return scale ? scale.as<float>()[b * scale.stride(0) + j * scale.stride(1) + h * scale.stride(2)] : 1.0F;
}

// The score of one pair before the softmax; `slope` is its derivative by q·k.
template <class Acc>
Acc score_of(Acc product, float scale, float softcap, Acc* slope) {
  const Acc s = product * static_cast<Acc>(scale);
  *slope = static_cast<Acc>(scale);
  if (softcap <= 0.0F) return s;
  const Acc t = std::tanh(s / static_cast<Acc>(softcap));
  *slope *= 1 - t * t;
  return static_cast<Acc>(softcap) * t;
}

// T: of q and out; K: of k and v.
template <class T, class K>
void attention_of(const AttentionArgs& args) {
  using Acc = Accumulator<T>;
  const View &q = args.q, &k = args.k, &v = args.v;
  const std::int64_t group = q.dim(2) / k.dim(2), dv = v.dim(3);
  std::vector<Acc> p(static_cast<std::size_t>(k.dim(1))), sum(static_cast<std::size_t>(dv));
  for (std::int64_t b = 0; b < q.dim(0); ++b) {
    for (std::int64_t h = 0; h < q.dim(2); ++h) {
      for (std::int64_t i = 0; i < q.dim(1); ++i) {
        KeyRange range;
        key_ranges(args.mask, b, q.dim(1), k.dim(1), i, 1, &range);
        Acc top = -std::numeric_limits<Acc>::infinity(), total = 0, slope = 0;
        for (std::int64_t j = range.lo; j < range.hi; ++j) {
          Acc& score = p[static_cast<std::size_t>(j)];
          const Acc product = dot(row<T>(q, b, i, h), row<K>(k, b, j, h / group), q.dim(3));
          score = score_of(product * static_cast<Acc>(row_scale(args.k_scale, b, j, h / group)), args.scale,
                           args.softcap, &slope);
          top = std::max(top, score);
        }
        std::fill(sum.begin(), sum.end(), Acc{0});
        for (std::int64_t j = range.lo; j < range.hi; ++j) {
          const Acc e = std::exp(p[static_cast<std::size_t>(j)] - top);
          total += e;
          const Acc weight = e * static_cast<Acc>(row_scale(args.v_scale, b, j, h / group));
          for (std::int64_t c = 0; c < dv; ++c)
            sum[static_cast<std::size_t>(c)] +=
                weight * static_cast<Acc>(load(row<K>(v, b, j, h / group) + c));
        }
        for (std::int64_t c = 0; c < dv; ++c) {
          store(row<T>(args.out, b, i, h) + c, range.empty() ? 0 : sum[static_cast<std::size_t>(c)] / total);
        }
        if (args.lse) args.lse.as<Acc>()[(b * q.dim(2) + h) * q.dim(1) + i] = top + std::log(total);
      }
    }
  }
}

void attention_reference(const AttentionArgs& args, Stream) {
  dispatch_float(args.q.dtype, "attention", [&]<class T>() {
    if (args.k.dtype == args.q.dtype) return attention_of<T, T>(args);
    if (args.k.dtype == DType::bf16) return attention_of<T, bf16>(args);
    if (args.k.dtype == DType::f16) return attention_of<T, f16>(args);
    attention_of<T, std::int8_t>(args);
  });
}

// With P = exp(s − lse): dV = Pᵀ·dO, dP = dO·Vᵀ, ds = P ∘ (dP − rowsum(dO ∘ O)), dQ = ds·K, dK = dsᵀ·Q.
// Sums are kept in the accumulator type and written once.
void attention_backward_reference(const AttentionBackwardArgs& args, Stream) {
  dispatch_float(args.q.dtype, "attention_backward", [&]<class T>() {
    using Acc = Accumulator<T>;
    const View &q = args.q, &k = args.k, &v = args.v;
    const std::int64_t group = q.dim(2) / k.dim(2), d = q.dim(3), dv = v.dim(3), keys = k.dim(1);
    std::vector<Acc> dk(static_cast<std::size_t>(keys * d)), dvs(static_cast<std::size_t>(keys * dv)),
        dq(static_cast<std::size_t>(d));
    for (std::int64_t b = 0; b < q.dim(0); ++b) {
      for (std::int64_t kv = 0; kv < k.dim(2); ++kv) {
        std::fill(dk.begin(), dk.end(), Acc{0});
        std::fill(dvs.begin(), dvs.end(), Acc{0});
        for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
          for (std::int64_t i = 0; i < q.dim(1); ++i) {
            KeyRange range;
            key_ranges(args.mask, b, q.dim(1), keys, i, 1, &range);
            const T* dout = row<T>(args.dout, b, i, h);
            const Acc lse = args.lse.as<Acc>()[(b * q.dim(2) + h) * q.dim(1) + i];
            const Acc delta = dot(dout, row<T>(args.out, b, i, h), dv);
            std::fill(dq.begin(), dq.end(), Acc{0});
            for (std::int64_t j = range.lo; j < range.hi; ++j) {
              const T *qi = row<T>(q, b, i, h), *kj = row<T>(k, b, j, kv), *vj = row<T>(v, b, j, kv);
              Acc slope = 0;
              const Acc p = std::exp(score_of(dot(qi, kj, d), args.scale, args.softcap, &slope) - lse);
              const Acc ds = p * (dot(dout, vj, dv) - delta) * slope;
              for (std::int64_t c = 0; c < dv; ++c)
                dvs[static_cast<std::size_t>(j * dv + c)] += p * load(dout + c);
              for (std::int64_t c = 0; c < d; ++c) {
                dq[static_cast<std::size_t>(c)] += ds * load(kj + c);
                dk[static_cast<std::size_t>(j * d + c)] += ds * load(qi + c);
              }
            }
            for (std::int64_t c = 0; args.dq && c < d; ++c)
              store(row<T>(args.dq, b, i, h) + c, dq[static_cast<std::size_t>(c)], args.accumulate_dq);
          }
        }
        for (std::int64_t j = 0; j < keys; ++j) {
          for (std::int64_t c = 0; args.dk && c < d; ++c)
            store(row<T>(args.dk, b, j, kv) + c, dk[static_cast<std::size_t>(j * d + c)], args.accumulate_dk);
          for (std::int64_t c = 0; args.dv && c < dv; ++c)
            store(row<T>(args.dv, b, j, kv) + c, dvs[static_cast<std::size_t>(j * dv + c)],
                  args.accumulate_dv);
        }
      }
    }
  });
}

}  // namespace

void register_attention_reference() {
  attention.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, attention_reference});
  attention_backward.add(DeviceType::cpu,
                         {"reference", ImplKind::reference, nullptr, attention_backward_reference});
}

}  // namespace ingot::kernels::cpu
