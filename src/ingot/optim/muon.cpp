#include "ingot/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr double kLeastNorm = 1e-7;
constexpr double kRowEpsilon = 1e-10;  // NorMuon's

std::vector<ParamGroup> group_of(std::vector<Parameter*> parameters) {
  std::vector<ParamGroup> groups(1);
  groups[0].parameters = std::move(parameters);
  return groups;
}

AdamWConfig for_the_others(const MuonConfig& c) {
  return {.learning_rate = c.learning_rate,
          .beta1 = c.beta1,
          .beta2 = c.beta2,
          .eps = c.eps,
          .weight_decay = c.weight_decay,
          .master_weights = c.master_weights};
}

}  // namespace

void MuonConfig::validate() const {
  for_the_others(*this).validate();
  INGOT_CHECK(momentum >= 0 && momentum < 1,
              InvalidConfig("optimizer.momentum", fmt::format("must be in [0, 1), got {}", momentum)));
  INGOT_CHECK(row_beta >= 0 && row_beta < 1,
              InvalidConfig("optimizer.row_beta", fmt::format("must be in [0, 1), got {}", row_beta)));
  INGOT_CHECK(iterations >= 1 && iterations < 100,
              InvalidConfig("optimizer.iterations", fmt::format("must be in [1, 100), got {}", iterations)));
}

Tensor orthogonalized(const Tensor& x, std::int64_t iterations) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool tall = x.dim(0) > x.dim(1);
  Tensor y = contiguous(tall ? transpose(x, 0, 1) : x);
  y = y / clamp(sqrt(sum(square(y))), kLeastNorm, 1e30);
  for (std::int64_t i = 0; i < iterations; ++i) {
    const Tensor gram = matmul(y, contiguous(transpose(y, 0, 1)));
    y = y * kA + matmul(gram * kB + matmul(gram, gram) * kC, y);
  }
  return contiguous(tall ? transpose(y, 0, 1) : y);
}

Muon::Muon(std::vector<Parameter*> parameters, const MuonConfig& config)
    : AdamW(group_of(std::move(parameters)), for_the_others(validated(config))), config_(config) {}

bool Muon::takes(const Parameter& parameter) {
  return parameter.shape().rank() == 2 && !parameter.embedding && !parameter.name.starts_with("lm_head");
}

std::vector<Optimizer::Buffer> Muon::buffers(const Parameter& parameter) const {
  if (!takes(parameter)) return AdamW::buffers(parameter);
  std::vector<Buffer> all{{"momentum_buffer", parameter.shape(), DType::f32}};
  if (config_.normalize_rows)
    all.push_back({"second_momentum_buffer", Shape{parameter.shape()[0]}, DType::f32});
  return all;
}

void Muon::step_pieces(std::span<const OptimizerPiece> pieces, double lr, const View& grad_scale) {
  std::vector<OptimizerPiece> others;
  std::ranges::copy_if(pieces, std::back_inserter(others),
                       [](const OptimizerPiece& piece) { return !takes(*piece.parameter); });
  if (!others.empty()) AdamW::step_pieces(others, lr, grad_scale);
  for (const OptimizerPiece& piece : pieces)
    if (takes(*piece.parameter)) step_matrix(piece, lr, grad_scale);
}

Tensor Muon::with_even_rows(const Tensor& step, const Tensor& mean_squares) const {
  const auto norm = [](const Tensor& x) { return sqrt(sum(square(x))); };
  mul_(mean_squares, config_.row_beta);
  add_(mean_squares, mean(square(step), {1}), 1 - config_.row_beta);
  const Tensor even = step / reshape(sqrt(mean_squares) + kRowEpsilon, {step.dim(0), 1});
  return even * (norm(step) / (norm(even) + kRowEpsilon));
}

void Muon::step_matrix(const OptimizerPiece& piece, double lr, const View& grad_scale) const {
  const NoGrad no_grad;
  Tensor grad = to(piece.grad, DType::f32);
  if (grad_scale.data != nullptr)
    grad = grad * Tensor::wrap(grad_scale.data, {}, DType::f32, piece.value.device(), [] {});
  const Tensor& momentum = piece.buffers[0];
  mul_(momentum, config_.momentum);
  add_(momentum, grad, 1 - config_.momentum);
  const Tensor update =
      config_.nesterov ? grad * (1 - config_.momentum) + momentum * config_.momentum : momentum;
  Tensor orthogonal = orthogonalized(update, config_.iterations);
  if (config_.normalize_rows) orthogonal = with_even_rows(orthogonal, piece.buffers[1]);
  const Tensor step = to(orthogonal, piece.value.dtype());
  const auto out = static_cast<double>(piece.value.dim(0)), in = static_cast<double>(piece.value.dim(1));
  const double factor =
      config_.match_adamw ? 0.2 * std::sqrt(std::max(out, in)) : std::sqrt(std::max(1.0, out / in));
  const double rate = lr * piece.lr;
  // p - rate·decay·p - rate·factor·step
  const kernels::SgdTensor tensor{.param = piece.value.view(),
                                  .grad = step.view(),
                                  .master = piece.master.defined() ? piece.master.view() : View{},
                                  .lr = rate * factor,
                                  .weight_decay = piece.weight_decay / factor};
  kernels::launch(kernels::sgd, current_stream(piece.value.device()), {.tensors = std::span(&tensor, 1)});
}

}  // namespace ingot
