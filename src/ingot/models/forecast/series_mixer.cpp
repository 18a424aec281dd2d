#include "ingot/models/forecast/series_mixer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ingot/ops/cast.h"
#include "ingot/ops/complex.h"
#include "ingot/ops/fft.h"
#include "ingot/ops/index.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/topk.h"
#include "ingot/ops/view.h"
#include "ingot/ops/weighted_roll.h"

namespace ingot {

MixingLayer::MixingLayer(const ParamSource& source, std::int64_t d, std::shared_ptr<SeriesMixer> mixer_)
    : mixer(std::move(mixer_)),
      query(source.scope("query_projection"), {.in = d, .out = d}),
      key(source.scope("key_projection"), {.in = d, .out = d}),
      value(source.scope("value_projection"), {.in = d, .out = d}),
      out(source.scope("out_projection"), {.in = d, .out = d}) {}

Tensor MixingLayer::operator()(const Tensor& x, const Tensor& other, bool training) const {
  const SeriesMixer::Reads reads = mixer->reads();
  const auto project = [](bool wanted, const Linear& projection, const Tensor& from) {
    return wanted ? projection(from) : Tensor();
  };
  return out((*mixer)(project(reads.query, query, x), project(reads.key, key, other),
                      project(reads.value, value, other), training));
}

void MixingLayer::visit(ParamVisitor& v) {
  v("inner_correlation", *mixer);
  v("query_projection", query);
  v("key_projection", key);
  v("value_projection", value);
  v("out_projection", out);
}

Tensor fit_length(const Tensor& x, std::int64_t length) {
  const std::int64_t n = x.dim(1);
  if (n >= length) return slice(x, 1, 0, length);
  const Tensor zeros = Tensor::zeros(x.shape().with(1, length - n), x.dtype(), x.device());
  return concat(std::array{x, zeros}, 1);
}

Tensor AutoCorrelation::operator()(const Tensor& query, const Tensor& other_key, const Tensor& other_value,
                                   bool training) const {
  const std::int64_t batch = query.dim(0), length = query.dim(1);
  const Tensor key = fit_length(other_key, length), value = fit_length(other_value, length);
  // The mean over channels of the correlations is the transform of the mean cross-spectrum: one inverse
  // transform for all of them. Heads share their delays, so that they need no axis.
  const Tensor cross = mean(complex_multiply(rfft(query, 1), rfft(key, 1), true), {-1});
  const Tensor correlation = irfft(cross, length);  // [B, length]
  const auto count = static_cast<std::int64_t>(factor_ * std::log(static_cast<double>(length)));
  const std::int64_t k = std::clamp<std::int64_t>(count, 1, length);
  Tensor delays;
  if (training && !per_window_) {
    const Tensor shared = topk(mean(correlation.detach(), {0}), k).indices;
    delays = contiguous(broadcast_to(shared, {batch, k}));
  } else {
    delays = topk(correlation.detach(), k).indices;
  }
  return weighted_roll_within(value, delays, softmax(gather_within(correlation, 1, delays)));
}

}  // namespace ingot
