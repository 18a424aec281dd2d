#include "ingot/optim/ema.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

constexpr const char* kSuffix = ".ema";
constexpr const char* kEmaStep = "ema.step";

}  // namespace

void EmaConfig::validate() const {
  INGOT_CHECK(decay >= 0 && decay < 1,
              InvalidConfig("ema.decay", fmt::format("must be in [0, 1), got {}", decay)));
}

Ema::Ema(std::vector<Parameter*> parameters, const EmaConfig& config)
    : parameters_(std::move(parameters)), config_(config) {
  config.validate();
  const NoGrad no_grad;
  const MemoryTagScope tag(MemoryTag::optimizer);
  for (const Parameter* p : parameters_) {
    averages_.push_back(clone(to(p->value.detach(), accumulator_dtype(p->value.dtype()))));
  }
}

void Ema::update() {
  INGOT_CHECK(!swapped_, Error("ema: update() while the averages stand in the model; swap() back first"));
  const auto t = static_cast<double>(steps_++);
  const double decay = config_.warmup ? std::min(config_.decay, (1 + t) / (10 + t)) : config_.decay;
  std::vector<kernels::LerpTensor> tensors;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    tensors.push_back({parameters_[i]->value.view(), averages_[i].view()});
  }
  if (tensors.empty()) return;
  kernels::launch(kernels::lerp_all, current_stream(tensors[0].to.device),
                  {.tensors = tensors, .weight = 1 - decay});
}

void Ema::swap() {
  const NoGrad no_grad;
  if (!swapped_) {
    for (const Parameter* p : parameters_) weights_.push_back(clone(p->value.detach()));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    copy_(parameters_[i]->value.detach(), swapped_ ? weights_[i] : averages_[i]);
  }
  if (swapped_) weights_.clear();
  swapped_ = !swapped_;
}

std::map<std::string, Tensor> Ema::state() const {
  INGOT_CHECK(!swapped_, Error("ema: state() while the averages stand in the model; swap() back first"));
  std::map<std::string, Tensor> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) result[parameters_[i]->name + kSuffix] = averages_[i];
  result[kEmaStep] = Tensor::from(std::vector<std::int64_t>{steps_}, {});
  return result;
}

void Ema::load_state(const std::map<std::string, Tensor>& state) {
  INGOT_CHECK(!swapped_, Error("ema: load_state() while the averages stand in the model; swap() back first"));
  INGOT_CHECK(state.contains(kEmaStep), Error("ema: the state has no ema.step; was it saved without EMA?"));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string name = parameters_[i]->name + kSuffix;
    const auto found = state.find(name);
    INGOT_CHECK(found != state.end(), Error("ema: the state has no " + name));
    INGOT_CHECK(found->second.shape() == averages_[i].shape(),
                ShapeMismatch("ema (" + name + ")", averages_[i].shape().to_vector(),
                              found->second.shape().to_vector()));
  }
  const NoGrad no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    copy_(averages_[i], to(state.at(parameters_[i]->name + kSuffix), averages_[i].device()));
  }
  steps_ = static_cast<std::int64_t>(state.at(kEmaStep).item());
}

}  // namespace ingot
