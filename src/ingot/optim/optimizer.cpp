#include "ingot/optim/optimizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <unordered_set>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/printable.h"
#include "ingot/base/validated.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

// What a master weight is called in the state, by what is kept of it (kernels/master_weight.h).
const char* master_name(DType kept) { return kept == DType::i16 ? "master_remainder" : "master"; }
constexpr const char* kSlotStep = "step";

void check_not_negative(const char* key, double value) {
  INGOT_CHECK(std::isfinite(value) && value >= 0,
              InvalidConfig(key, fmt::format("must be finite and not negative, got {}", value)));
}

void check_beta(const char* key, double value) {
  INGOT_CHECK(value >= 0 && value < 1, InvalidConfig(key, fmt::format("must be in [0, 1), got {}", value)));
}

std::vector<ParamGroup> one_group(std::vector<Parameter*> parameters) {
  std::vector<ParamGroup> groups(1);
  groups[0].parameters = std::move(parameters);
  return groups;
}

// What state and arithmetic of a parameter are in.
DType state_dtype(const Parameter& parameter) { return accumulator_dtype(parameter.value.dtype()); }

bool half(const Parameter& parameter) { return byte_size(parameter.value.dtype()) < 4; }

DType master_dtype(const Parameter& parameter) { return kernels::master_dtype(parameter.value.dtype()); }

View view_of(const Tensor& tensor) { return tensor.defined() ? tensor.view() : View{}; }

// The remainders that make a bf16 parameter the f32 `master` that checkpoints of earlier versions hold.
// Undefined where the one is not the other, rounded.
Tensor remainder_of(const Tensor& master, const Parameter& parameter) {
  const Tensor on_host = to(master, kCpu), param = to(parameter.value.detach(), kCpu);
  const Tensor result = Tensor::empty(master.shape(), DType::i16);
  for (std::int64_t i = 0; i < master.numel(); ++i) {
    const float value = on_host.data<float>()[i];
    const auto word = std::bit_cast<std::uint32_t>(value);
    const auto apart = static_cast<std::int32_t>(word - (std::uint32_t{param.data<bf16>()[i].bits} << 16));
    // They rounded ties to even. One that went towards zero is one bit further away than a remainder can be,
    // and moves by that bit: half a step of bf16 in 2^15.
    const std::int32_t near = std::min(apart, 0x7fff);
    if (!std::isnan(value) && (near < -0x8000 || apart > 0x8000)) return {};
    result.data<std::int16_t>()[i] = static_cast<std::int16_t>(std::isnan(value) ? 0 : near);
  }
  return result;
}

// Takes the tensors of a state one by one, and copies them when all are found to fit.
class StateReader {
 public:
  explicit StateReader(const std::map<std::string, Tensor>& state) : state_(state) {}

  bool has(const std::string& name) const { return state_.contains(name); }
  const Tensor* find(const std::string& name) {
    const auto found = state_.find(name);
    if (found == state_.end()) {
      problems_.push_back(name + " is missing");
      return nullptr;
    }
    ++used_;
    return &found->second;
  }
  void take(const std::string& name, const Tensor& to) {
    if (const Tensor* from = find(name); from != nullptr && fits(name, *from, to.dtype(), to.shape()))
      copies_.emplace_back(*from, to);
  }
  void take_master(const Parameter& parameter, const Tensor& to) {
    const std::string name = parameter.name + "." + master_name(to.dtype());
    const std::string f32 = parameter.name + "." + master_name(DType::f32);
    if (to.dtype() == DType::f32 || has(name) || !has(f32)) return take(name, to);
    const Tensor& master = *find(f32);
    if (!fits(f32, master, DType::f32, to.shape())) return;
    if (parameter.value.view().data == nullptr && parameter.value.numel() > 0) {  // offloaded
      problems_.push_back(f32 + " is from an earlier version: resume and save once without offload_weights");
      return;
    }
    const Tensor remainder = remainder_of(master, parameter);
    if (remainder.defined()) {
      copies_.emplace_back(remainder, to);
    } else {
      problems_.push_back(f32 + " is of other weights than the model has; load those beside it first");
    }
  }
  /// Throws Error that lists what did not fit, or the first of it.
  void finish() {
    if (used_ < state_.size() && problems_.empty())
      problems_.push_back(
          fmt::format("{} of {} tensors belong to no parameter here", state_.size() - used_, state_.size()));
    INGOT_CHECK(
        problems_.empty(),
        in_lines(Error("this optimizer state is of another model, or another kind of optimizer:" + told())));
    const NoGrad no_grad;
    for (const auto& [from, to] : copies_) copy_(to, ingot::to(from, to.device()));
  }

 private:
  bool fits(const std::string& name, const Tensor& from, DType dtype, const Shape& shape) {
    if (from.shape() == shape && from.dtype() == dtype) return true;
    problems_.push_back(fmt::format("{}: expected {} {}, got {} {}", printable(name), ingot::name(dtype),
                                    to_string(shape), ingot::name(from.dtype()), to_string(from.shape())));
    return false;
  }
  // Of a large model's hundreds the first are enough.
  std::string told() const {
    constexpr std::size_t kMost = 6;
    std::string lines;
    for (std::size_t i = 0; i < std::min(kMost, problems_.size()); ++i) lines += "\n  " + problems_[i];
    if (problems_.size() > kMost) lines += fmt::format("\n  and {} more", problems_.size() - kMost);
    return lines;
  }

  const std::map<std::string, Tensor>& state_;
  std::vector<std::string> problems_;
  std::vector<std::pair<Tensor, Tensor>> copies_;  // from, to
  std::size_t used_ = 0;
};

}  // namespace

void ParamGroup::validate() const {
  check_not_negative("optimizer.lr_multiplier", lr_multiplier);
  if (weight_decay) check_not_negative("optimizer.weight_decay", *weight_decay);
}

Optimizer::Optimizer(std::vector<ParamGroup> groups, double lr, double weight_decay, bool master_weights)
    : groups_(std::move(groups)), lr_(lr), master_weights_(master_weights) {
  std::unordered_set<const Parameter*> seen;
  std::unordered_set<std::string> names;
  for (const ParamGroup& group : groups_) {
    group.validate();
    for (Parameter* parameter : group.parameters) {
      INGOT_CHECK(parameter != nullptr && *parameter, Error("optimizer: a parameter is absent"));
      INGOT_CHECK(seen.insert(parameter).second,
                  InvalidConfig("optimizer.groups", "parameter " + parameter->name + " is given twice"));
      INGOT_CHECK(names.insert(parameter->name).second,
                  InvalidConfig("optimizer.groups", "two parameters have the name '" + parameter->name +
                                                        "'; their state could not be told apart"));
      const double decay = parameter->decay ? group.weight_decay.value_or(weight_decay) : 0;
      slots_.push_back({parameter, group.lr_multiplier, decay, 0, {}, {}});
    }
  }
}

void Optimizer::set_learning_rate(double lr) {
  check_not_negative("optimizer.learning_rate", lr);
  lr_ = lr;
}

void Optimizer::offload(OffloadConfig config) {
  const auto is_new = [](const Slot& slot) { return slot.steps == 0 && slot.buffers.empty(); };
  INGOT_CHECK(std::ranges::all_of(slots_, is_new),
              Error("optimizer: its state is there already; call offload() before the first step"));
  if (config.window_bytes == 0) config.window_bytes = offload_window(moved_bytes(config));
  const bool moves = config.to != Offload::none || config.gradients;
  offloaded_ = moves ? std::make_unique<OffloadedState>(std::move(config)) : nullptr;
}

bool Optimizer::keeps_state_elsewhere() const {
  return offloaded_ != nullptr && offloaded_->config().to != Offload::none;
}

// What a step brings to the device.
std::size_t Optimizer::moved_bytes(const OffloadConfig& config) const {
  std::size_t bytes = config.to != Offload::none ? state_bytes() : 0;
  if (!config.gradients) return bytes;
  for (const Slot& slot : slots_)
    if (slot.parameter->trainable()) bytes += slot.parameter->value.nbytes();
  return bytes;
}

// For the state of a parameter on `device`.
Tensor Optimizer::zeros(const Shape& shape, DType dtype, Device device) const {
  return offloaded_ != nullptr ? offloaded_->zeros(shape, dtype, device)
                               : Tensor::zeros(shape, dtype, device);
}

void Optimizer::make_state(Slot& slot) const {
  const NoGrad no_grad;
  const MemoryTagScope tag(MemoryTag::optimizer);
  const Parameter& p = *slot.parameter;
  if (master_weights_ && half(p)) {
    const bool is_whole = master_dtype(p) == DType::f32;  // else the rest of the parameter, which is 0
    if (is_whole && !keeps_state_elsewhere()) {
      slot.master = to(p.value.detach(), DType::f32);
    } else {
      slot.master = zeros(p.shape(), master_dtype(p), p.value.device());
      if (is_whole) copy_(slot.master, to(to(p.value.detach(), kCpu), DType::f32));
    }
  }
  for (const Buffer& buffer : buffers(p))
    slot.buffers.push_back(zeros(buffer.shape, buffer.dtype, p.value.device()));
}

OptimizerPiece Optimizer::piece_of(const Slot& slot) const {
  const Parameter& p = *slot.parameter;
  return {.parameter = &p,
          .lr = slot.lr,
          .weight_decay = slot.weight_decay,
          .steps = slot.steps,
          .value = p.value.detach(),
          .grad = p.grad().detach(),
          .master = slot.master,
          .buffers = slot.buffers,
          .divisible = is_divisible(p)};
}

void Optimizer::step(const StepOptions& options) {
  check_not_negative("optimizer.lr_scale", options.lr_scale);
  INGOT_CHECK(!options.grad_scale.defined() ||
                  (options.grad_scale.numel() == 1 && options.grad_scale.dtype() == DType::f32),
              Error("optimizer: grad_scale is one f32"));
  std::vector<Slot*> active;
  for (Slot& slot : slots_) {
    const Parameter& p = *slot.parameter;
    const Tensor grad = p.grad();
    if (!p.trainable() || !grad.defined()) continue;
    if (!options.only.empty() && std::ranges::find(options.only, &p) == options.only.end()) continue;
    INGOT_CHECK(p.value.is_contiguous() && grad.is_contiguous() && grad.shape() == p.shape(),
                ShapeMismatch("optimizer (gradient of " + p.name + ")", p.shape().to_vector(),
                              grad.shape().to_vector(), "both must be contiguous"));
    if (slot.steps == 0 && slot.buffers.empty() && !slot.master.defined()) make_state(slot);
    const auto fits = [&](const Tensor& tensor, const Buffer& buffer) {
      return tensor.shape() == buffer.shape && tensor.dtype() == buffer.dtype &&
             tensor.device() == (keeps_state_elsewhere() ? kCpu : p.value.device());
    };
    INGOT_CHECK(std::ranges::equal(slot.buffers, buffers(p), fits),
                Error("optimizer: parameter " + p.name +
                      " changed its shape, dtype or device since its first step; make a new optimizer"));
    ++slot.steps;
    active.push_back(&slot);
  }
  // One launch for each dtype, so that a few half parameters do not keep the rest from the fast kernel.
  const auto dtype = [](const Slot* slot) { return slot->parameter->value.dtype(); };
  std::ranges::stable_sort(active, {}, dtype);
  for (auto begin = active.begin(); begin != active.end();) {
    const auto end =
        std::find_if(begin, active.end(), [&](Slot* slot) { return dtype(slot) != dtype(*begin); });
    std::vector<OptimizerPiece> pieces;
    pieces.reserve(static_cast<std::size_t>(end - begin));
    std::transform(begin, end, std::back_inserter(pieces), [&](const Slot* slot) { return piece_of(*slot); });
    const auto step_some = [&](std::span<const OptimizerPiece> some) {
      step_pieces(some, lr_ * options.lr_scale, view_of(options.grad_scale));
    };
    if (offloaded_ != nullptr)
      offloaded_->run(std::move(pieces), step_some);
    else
      step_some(pieces);
    begin = end;
  }
  for (Slot* slot : active) slot->parameter->value.storage()->bump_version();
}

void Optimizer::zero_grad() {
  for (Slot& slot : slots_) slot.parameter->zero_grad();
}

std::map<std::string, Tensor> Optimizer::state() const {
  if (offloaded_ != nullptr) offloaded_->wait();
  std::map<std::string, Tensor> result;
  for (const Slot& slot : slots_) {
    if (slot.steps == 0) continue;
    const std::string prefix = slot.parameter->name + ".";
    result[prefix + kSlotStep] = Tensor::from(std::vector<std::int64_t>{slot.steps}, {});
    if (slot.master.defined()) result[prefix + master_name(slot.master.dtype())] = slot.master;
    const std::vector<Buffer> kept = buffers(*slot.parameter);
    for (std::size_t i = 0; i < kept.size(); ++i) result[prefix + kept[i].name] = slot.buffers[i];
  }
  return result;
}

void Optimizer::load_state(const std::map<std::string, Tensor>& state) {
  if (offloaded_ != nullptr) offloaded_->wait();
  // Everything is checked before anything changes.
  StateReader reader(state);
  std::vector<Slot> loaded;
  for (const Slot& old : slots_) {
    const std::string prefix = old.parameter->name + ".";
    Slot& slot = loaded.emplace_back(Slot{old.parameter, old.lr, old.weight_decay, 0, {}, {}});
    if (!reader.has(prefix + kSlotStep)) continue;  // had no gradient yet
    make_state(slot);
    slot.steps = static_cast<std::int64_t>(reader.find(prefix + kSlotStep)->item());
    if (slot.master.defined()) reader.take_master(*slot.parameter, slot.master);
    const std::vector<Buffer> kept = buffers(*slot.parameter);
    for (std::size_t i = 0; i < kept.size(); ++i) reader.take(prefix + kept[i].name, slot.buffers[i]);
  }
  reader.finish();
  slots_ = std::move(loaded);
}

std::size_t Optimizer::state_bytes() const {
  std::size_t bytes = 0;
  for (const Slot& slot : slots_) {
    const Parameter& p = *slot.parameter;
    if (!p.trainable()) continue;
    const auto n = static_cast<std::size_t>(p.value.numel());
    for (const Buffer& buffer : buffers(p))
      bytes += static_cast<std::size_t>(buffer.shape.numel()) * byte_size(buffer.dtype);
    if (master_weights_ && half(p)) bytes += n * byte_size(master_dtype(p));
  }
  return bytes;
}

void AdamWConfig::validate() const {
  check_not_negative("optimizer.learning_rate", learning_rate);
  check_beta("optimizer.adamw_beta1", beta1);
  check_beta("optimizer.adamw_beta2", beta2);
  check_not_negative("optimizer.adamw_epsilon", eps);
  check_not_negative("optimizer.weight_decay", weight_decay);
  INGOT_CHECK(moments == DType::f32 || moments == DType::u8,
              InvalidConfig("optimizer.moments", fmt::format("must be f32 or u8, got {}", name(moments))));
}

AdamW::AdamW(std::vector<Parameter*> parameters, const AdamWConfig& config)
    : AdamW(one_group(std::move(parameters)), config, true) {}

AdamW::AdamW(std::vector<ParamGroup> groups, const AdamWConfig& config)
    : AdamW(std::move(groups), config, true) {}

AdamW::AdamW(std::vector<ParamGroup> groups, const AdamWConfig& config, bool decoupled)
    : Optimizer(std::move(groups), validated(config).learning_rate, config.weight_decay,
                config.master_weights),
      config_(config),
      decoupled_(decoupled) {}

std::vector<Optimizer::Buffer> AdamW::buffers(const Parameter& parameter) const {
  const std::int64_t n = parameter.value.numel();
  if (config_.moments == DType::f32 || parameter.embedding || n < AdamWConfig::kLeastQuantized ||
      !is_training_dtype(parameter.value.dtype()))
    return {{"exp_avg", parameter.shape(), state_dtype(parameter)},
            {"exp_avg_sq", parameter.shape(), state_dtype(parameter)}};
  const Shape scales{kernels::moment_blocks(n)};
  return {{"exp_avg", parameter.shape(), DType::u8},
          {"exp_avg_sq", parameter.shape(), DType::u8},
          {"exp_avg_scale", scales, DType::f32},
          {"exp_avg_sq_scale", scales, DType::f32}};
}

void AdamW::step_pieces(std::span<const OptimizerPiece> pieces, double lr, const View& grad_scale) {
  std::vector<kernels::AdamWTensor> tensors;
  tensors.reserve(pieces.size());
  for (const OptimizerPiece& piece : pieces) {
    const auto t = static_cast<double>(piece.steps);
    tensors.push_back({.param = piece.value.view(),
                       .grad = piece.grad.view(),
                       .m = piece.buffers[0].view(),
                       .v = piece.buffers[1].view(),
                       .m_scale = piece.buffers.size() > 2 ? piece.buffers[2].view() : View{},
                       .v_scale = piece.buffers.size() > 2 ? piece.buffers[3].view() : View{},
                       .master = view_of(piece.master),
                       .lr = lr * piece.lr,
                       .weight_decay = piece.weight_decay,
                       .bias_correction1 = 1 - std::pow(config_.beta1, t),
                       .bias_correction2 = 1 - std::pow(config_.beta2, t)});
  }
  kernels::launch(kernels::adamw, current_stream(tensors[0].param.device),
                  {.tensors = tensors,
                   .beta1 = config_.beta1,
                   .beta2 = config_.beta2,
                   .eps = config_.eps,
                   .decoupled = decoupled_,
                   .grad_scale = grad_scale});
}

namespace {

AdamWConfig as_adamw(const AdamConfig& c) {
  return {c.learning_rate, c.beta1, c.beta2, c.eps, c.weight_decay, c.master_weights};
}

}  // namespace

void AdamConfig::validate() const { as_adamw(*this).validate(); }

Adam::Adam(std::vector<Parameter*> parameters, const AdamConfig& config)
    : AdamW(one_group(std::move(parameters)), as_adamw(config), false) {}

Adam::Adam(std::vector<ParamGroup> groups, const AdamConfig& config)
    : AdamW(std::move(groups), as_adamw(config), false) {}

void SgdConfig::validate() const {
  check_not_negative("optimizer.learning_rate", learning_rate);
  check_not_negative("optimizer.momentum", momentum);
  INGOT_CHECK(std::isfinite(dampening),
              InvalidConfig("optimizer.dampening", fmt::format("must be finite, got {}", dampening)));
  check_not_negative("optimizer.weight_decay", weight_decay);
  INGOT_CHECK(!nesterov || (momentum > 0 && dampening == 0),
              InvalidConfig("optimizer.nesterov", "needs a positive momentum and no dampening"));
}

Sgd::Sgd(std::vector<Parameter*> parameters, const SgdConfig& config)
    : Sgd(one_group(std::move(parameters)), config) {}

Sgd::Sgd(std::vector<ParamGroup> groups, const SgdConfig& config)
    : Optimizer(std::move(groups), validated(config).learning_rate, config.weight_decay,
                config.master_weights),
      config_(config) {}

std::vector<Optimizer::Buffer> Sgd::buffers(const Parameter& parameter) const {
  if (config_.momentum == 0) return {};
  return {{"momentum_buffer", parameter.shape(), state_dtype(parameter)}};
}

void Sgd::step_pieces(std::span<const OptimizerPiece> pieces, double lr, const View& grad_scale) {
  std::vector<kernels::SgdTensor> tensors;
  tensors.reserve(pieces.size());
  for (const OptimizerPiece& piece : pieces) {
    tensors.push_back({.param = piece.value.view(),
                       .grad = piece.grad.view(),
                       .momentum = piece.buffers.empty() ? View{} : piece.buffers[0].view(),
                       .master = view_of(piece.master),
                       .lr = lr * piece.lr,
                       .weight_decay = piece.weight_decay,
                       .first = piece.steps == 1});
  }
  kernels::launch(kernels::sgd, current_stream(tensors[0].param.device),
                  {.tensors = tensors,
                   .momentum = config_.momentum,
                   .dampening = config_.dampening,
                   .nesterov = config_.nesterov,
                   .grad_scale = grad_scale});
}

}  // namespace ingot
