#include <array>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Losses over classes that lie on axis 1: scores [N, C, ...], targets [N, ...].

namespace ingot::onnx {
namespace {

Tensor negative_log_likelihood(const OpCall& call, const Tensor& log_probabilities, const Tensor& targets,
                               const Tensor& weight) {
  const std::int64_t batch = log_probabilities.dim(0), classes = log_probabilities.dim(1);
  const std::int64_t positions =
      batch == 0 || classes == 0 ? 0 : log_probabilities.numel() / (batch * classes);
  const std::vector<double> scores = as_doubles(log_probabilities);
  const std::vector<std::int64_t> ids = as_integers(targets);
  INGOT_CHECK(
      static_cast<std::int64_t>(ids.size()) == batch * positions,
      ShapeMismatch(call.where(), log_probabilities.shape().to_vector(), targets.shape().to_vector()));
  INGOT_CHECK(!weight.defined() || weight.numel() == classes,
              DimensionMismatch(call.where() + ": one weight for each class"));
  const std::vector<double> weights =
      weight.defined() ? as_doubles(weight) : std::vector<double>(static_cast<std::size_t>(classes), 1);
  const bool ignores = call.has_attribute("ignore_index");
  const std::int64_t ignored = call.integer("ignore_index", 0);
  std::vector<double> losses(ids.size(), 0);
  double total_weight = 0, total = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ignores && ids[i] == ignored) continue;
    INGOT_CHECK(ids[i] >= 0 && ids[i] < classes,
                DimensionMismatch(call.where() + ": a target outside the classes"));
    const auto n = static_cast<std::int64_t>(i) / positions,
               position = static_cast<std::int64_t>(i) % positions;
    const double w = weights[static_cast<std::size_t>(ids[i])];
    losses[i] = -w * scores[static_cast<std::size_t>((n * classes + ids[i]) * positions + position)];
    total += losses[i];
    total_weight += w;
  }
  const std::string reduction = call.text("reduction", "mean");
  if (reduction == "none") return from_doubles(losses, targets.shape(), log_probabilities.dtype());
  return from_doubles({reduction == "sum" ? total : total / total_weight}, {}, log_probabilities.dtype());
}

Values nll_loss(const OpCall& call) {
  return {negative_log_likelihood(call, call.in(0, 2), call.in(1), call.optional(2))};
}

Values softmax_cross_entropy(const OpCall& call) {
  const Tensor& scores = call.in(0, 2);
  const int last = scores.rank() - 1;
  const Tensor logs = contiguous(transpose(log_softmax(contiguous(transpose(scores, 1, last))), 1, last));
  return {negative_log_likelihood(call, logs, call.in(1), call.optional(2)), logs};
}

constexpr std::array kLossOps = {OpRow{"NegativeLogLikelihoodLoss", nll_loss},
                                 OpRow{"SoftmaxCrossEntropyLoss", softmax_cross_entropy}};

}  // namespace

std::span<const OpRow> loss_ops() { return kLossOps; }

}  // namespace ingot::onnx
