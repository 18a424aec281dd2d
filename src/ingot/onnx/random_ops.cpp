#include <array>
#include <cmath>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"

// Random numbers: the same in each run of a graph. Those of a node with a seed depend on it alone.

namespace ingot::onnx {
namespace {

template <class F>
Tensor drawn(const OpCall& call, const Shape& shape, DType dtype, F next) {
  Rng rng(call.random_key());
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& v : values) v = next(rng);
  return from_doubles(values, shape, dtype);
}

Tensor normal_numbers(const OpCall& call, const Shape& shape, DType dtype) {
  const double mean = call.number("mean", 0), deviation = call.number("scale", 1);
  return drawn(call, shape, dtype, [&](Rng& rng) { return mean + deviation * rng.normal(); });
}
Tensor uniform_numbers(const OpCall& call, const Shape& shape, DType dtype) {
  const double low = call.number("low", 0), high = call.number("high", 1);
  return drawn(call, shape, dtype, [&](Rng& rng) { return low + (high - low) * rng.uniform_double(); });
}

using Draw = Tensor (*)(const OpCall&, const Shape&, DType);

template <Draw draw>
Values of_shape(const OpCall& call) {
  return {draw(call, to_shape(call.integers("shape")), call.dtype("dtype", 1))};
}
template <Draw draw>
Values of_like(const OpCall& call) {
  const Tensor& x = call.in(0);
  return {draw(call, x.shape(), call.has_attribute("dtype") ? call.dtype("dtype", 1) : x.dtype())};
}

/// 1 with the probability that x holds.
Values bernoulli(const OpCall& call) {
  const Tensor& x = call.in(0);
  Rng rng(call.random_key());
  std::vector<double> values = as_doubles(x);
  for (double& v : values) v = rng.uniform_double() < v ? 1 : 0;
  return {from_doubles(values, x.shape(), call.has_attribute("dtype") ? call.dtype("dtype", 1) : x.dtype())};
}

/// Classes by their unnormalized log-probabilities [N, classes]: [N, sample_size].
Values multinomial(const OpCall& call) {
  const Tensor& x = call.in(0, 2, 2);
  const std::int64_t samples = call.integer("sample_size", 1), classes = x.dim(1);
  INGOT_CHECK(samples >= 0 && classes > 0, DimensionMismatch(call.where() + ": nothing to choose from"));
  Rng rng(call.random_key());
  const std::vector<double> logits = as_doubles(x);
  const Shape shape = to_shape({x.dim(0), samples});
  std::vector<std::int64_t> chosen;
  chosen.reserve(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t row = 0; row < x.dim(0); ++row) {
    const auto* begin = logits.data() + row * classes;
    for (std::int64_t i = 0; i < samples; ++i) {
      // The largest of log-probabilities with Gumbel noise is drawn by them (Gumbel 1954).
      std::int64_t best = 0;
      double largest = -INFINITY;
      for (std::int64_t c = 0; c < classes; ++c) {
        const double noisy = begin[c] - std::log(-std::log1p(-rng.uniform_double()));
        if (noisy > largest) largest = noisy, best = c;
      }
      chosen.push_back(best);
    }
  }
  return {from_integers(chosen, shape, call.dtype("dtype", 6))};
}

constexpr std::array kRandomOps = {OpRow{"Bernoulli", bernoulli},
                                   OpRow{"Multinomial", multinomial},
                                   OpRow{"RandomNormal", of_shape<normal_numbers>},
                                   OpRow{"RandomNormalLike", of_like<normal_numbers>},
                                   OpRow{"RandomUniform", of_shape<uniform_numbers>},
                                   OpRow{"RandomUniformLike", of_like<uniform_numbers>}};

}  // namespace

std::span<const OpRow> random_ops() { return kRandomOps; }

}  // namespace ingot::onnx
