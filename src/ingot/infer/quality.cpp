#include "ingot/infer/quality.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/infer/load.h"
#include "ingot/infer/matrix_sizes.h"
#include "ingot/models/language/format_plan.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

constexpr std::int64_t kRows = 128;  // logits at once

struct RowDivergence {
  double kl = 0, loss = 0;
  bool same_top = false;
};

// log Σ exp(x), in double.
double log_sum(std::span<const float> x) {
  const float top = *std::ranges::max_element(x);
  double sum = 0;
  for (const float v : x) sum += std::exp(v - top);
  return std::log(sum) + top;
}

RowDivergence diverge(std::span<const float> p, std::span<const float> q, std::int32_t target) {
  const double p_sum = log_sum(p), q_sum = log_sum(q);
  RowDivergence row;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - p_sum;
    row.kl += std::exp(log_p) * (log_p - (q[i] - q_sum));
  }
  row.loss = q_sum - q[static_cast<std::size_t>(target)];
  row.same_top = std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin();
  return row;
}

}  // namespace

QualityReport::QualityReport(std::string path, std::vector<std::int32_t> tokens,
                             const PerplexityOptions& options,
                             const std::function<void(std::int64_t)>& on_progress)
    : path_(std::move(path)),
      tokens_(std::move(tokens)),
      options_(options),
      model_(load_model(path_, "f32")) {
  visit_windows(*model_, tokens_, {}, options_,
                [&](const Tensor& states, std::span<const std::int32_t> targets) {
                  states_.push_back(contiguous(states));
                  reference_.tokens += static_cast<std::int64_t>(targets.size());
                  if (on_progress) on_progress(reference_.tokens);
                });
  reference_.negative_log_likelihood = compare(*model_).text.negative_log_likelihood;
}

QualityReport::~QualityReport() = default;

Divergence QualityReport::compare(const LanguageModel& candidate) const {
  const NoGrad no_grad;
  Divergence sum;
  std::size_t window = 0;
  visit_windows(candidate, tokens_, {}, options_,
                [&](const Tensor& states, std::span<const std::int32_t> targets) {
                  const Tensor& own = states_[window++];
                  const auto count = static_cast<std::int64_t>(targets.size());
                  for (std::int64_t at = 0; at < count; at += kRows) {
                    const std::int64_t n = std::min(kRows, count - at);
                    const Tensor p = to(model_->logits(narrow(own, 0, at, n)), DType::f32);
                    const Tensor q = to(candidate.logits(narrow(contiguous(states), 0, at, n)), DType::f32);
                    const auto vocabulary = static_cast<std::size_t>(p.dim(1));
                    std::vector<RowDivergence> rows(static_cast<std::size_t>(n));
                    parallel_for(n, 4, [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        const auto row = static_cast<std::size_t>(i);
                        rows[row] = diverge({p.data<float>() + row * vocabulary, vocabulary},
                                            {q.data<float>() + row * vocabulary, vocabulary},
                                            targets[static_cast<std::size_t>(at) + row]);
                      }
                    });
                    for (const RowDivergence& row : rows) {
                      sum.kl += row.kl;
                      sum.same_top += row.same_top ? 1 : 0;
                      sum.text.negative_log_likelihood += row.loss;
                    }
                  }
                  sum.text.tokens += count;
                });
  sum.kl /= static_cast<double>(sum.text.tokens);
  sum.same_top /= static_cast<double>(sum.text.tokens);
  return sum;
}

void QualityReport::check_same_model(LanguageModel& copy, const std::string& path) const {
  const auto ours = named_parameters(*model_), theirs = named_parameters(copy);
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    INGOT_CHECK(
        ours[i].first == theirs[i].first && ours[i].second->value.shape() == theirs[i].second->value.shape(),
        InvalidConfig("model", fmt::format("{} is not a copy of {}: '{}' is {} there, '{}' {} here", path,
                                           path_, theirs[i].first, to_string(theirs[i].second->value.shape()),
                                           ours[i].first, to_string(ours[i].second->value.shape()))));
  }
  INGOT_CHECK(ours.size() == theirs.size(),
              InvalidConfig("model", fmt::format("{} is not a copy of {}: it has {} weights, not {}", path,
                                                 path_, theirs.size(), ours.size())));
}

double QualityReport::weight_error(LanguageModel& rounded) const {
  const auto ours = named_parameters(*model_), theirs = named_parameters(rounded);
  double error = 0, power = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const Tensor &w = ours[i].second->value, &r = theirs[i].second->value;
    if (w.rank() < 2) continue;
    for (std::int64_t k = 0; k < w.numel(); ++k) {
      const double exact = w.data<float>()[k], off = exact - r.data<float>()[k];
      error += off * off;
      power += exact * exact;
    }
  }
  return power > 0 ? std::sqrt(error / power) : 0;
}

// One after the other, so that no more than one copy of the model is in memory.
void QualityReport::compare_both(const OpenModel& open_rounded, const OpenModel& open_packed,
                                 FormatQuality& quality) const {
  auto model = open_rounded();
  quality.weight_error = weight_error(*model);
  quality.weights = compare(*model);
  model.reset();
  model = open_packed();
  const MatrixSizes sizes = matrix_sizes(*model);
  quality.bits_per_weight = 8 * sizes.bytes / sizes.elements;
  quality.as_run = compare(*model);
}

FormatQuality QualityReport::measure(const std::string& format) const {
  FormatQuality quality;
  quality.format = format;
  quality.stand_ins = stand_ins_of(model_->config, format);
  try {
    compare_both([&] { return load_rounded_model(path_, format); },
                 [&] { return load_model(path_, format, {.where = "off"}); }, quality);
  } catch (const InvalidConfig& error) {  // rows longer than the format can sum
    quality.refusal = error.what();
  }
  return quality;
}

FormatQuality QualityReport::measure_written(const std::string& path, const std::string& name) const {
  FormatQuality quality;
  quality.format = name;
  compare_both(
      [&] {
        auto model = load_model(path, "f32");
        check_same_model(*model, path);
        return model;
      },
      [&] { return load_model(path, {}, {.where = "off"}); }, quality);
  return quality;
}

}  // namespace ingot::infer
