#include "ingot/train/optimizer_setup.h"

#include <limits>
#include <unordered_set>

#include "ingot/core/host_memory.h"
#include "ingot/optim/muon.h"
#include "ingot/train/task.h"

namespace ingot {
namespace {

bool is_muon(const OptimizerConfig& c) { return c.name == "muon" || c.name == "normuon"; }

std::unique_ptr<Optimizer> make_optimizer(std::vector<Parameter*> parameters, const OptimizerConfig& c) {
  const MemoryTagScope tag(MemoryTag::optimizer);
  if (c.name == "sgd") {
    return std::make_unique<Sgd>(std::move(parameters), SgdConfig{.learning_rate = c.learning_rate,
                                                                  .momentum = c.momentum,
                                                                  .nesterov = c.nesterov,
                                                                  .weight_decay = c.weight_decay});
  }
  if (is_muon(c)) {
    return std::make_unique<Muon>(std::move(parameters), MuonConfig{.learning_rate = c.learning_rate,
                                                                    .weight_decay = c.weight_decay,
                                                                    .momentum = c.muon_momentum,
                                                                    .normalize_rows = c.name == "normuon",
                                                                    .row_beta = c.normuon_beta2,
                                                                    .beta1 = c.beta1,
                                                                    .beta2 = c.beta2,
                                                                    .eps = c.epsilon});
  }
  if (c.name == "adam") {
    return std::make_unique<Adam>(std::move(parameters), AdamConfig{.learning_rate = c.learning_rate,
                                                                    .beta1 = c.beta1,
                                                                    .beta2 = c.beta2,
                                                                    .eps = c.epsilon,
                                                                    .weight_decay = c.weight_decay});
  }
  return std::make_unique<AdamW>(std::move(parameters),
                                 AdamWConfig{.learning_rate = c.learning_rate,
                                             .beta1 = c.beta1,
                                             .beta2 = c.beta2,
                                             .eps = c.epsilon,
                                             .weight_decay = c.weight_decay,
                                             .moments = c.name == "adamw_8bit" ? DType::u8 : DType::f32});
}

std::unique_ptr<OptimizerShard> make_shard(std::span<Parameter* const> parameters, const OptimizerConfig& c,
                                           const std::optional<OptimizerShard::Options>& ranks) {
  if (!ranks.has_value() || ranks->communicator->size() == 1) return nullptr;
  const auto divisible = [&](const Parameter& p) { return !is_muon(c) || !Muon::takes(p); };
  return std::make_unique<OptimizerShard>(parameters, *ranks, divisible);
}

// A tensor that was assembled of several ranks' has one axis.
std::map<std::string, Tensor> in_shape_of(std::span<Parameter* const> parameters,
                                          std::map<std::string, Tensor> state) {
  std::map<std::string, Shape> shapes;
  for (const Parameter* parameter : parameters) shapes[parameter->name] = parameter->shape();
  for (auto& [name, tensor] : state) {
    const auto found = shapes.find(name.substr(0, name.rfind('.')));
    if (found == shapes.end() || tensor.shape().rank() != 1 || tensor.numel() != found->second.numel())
      continue;
    tensor = {tensor.storage(),
              contiguous_view(tensor.view().data, found->second, tensor.dtype(), tensor.device())};
  }
  return state;
}

std::unique_ptr<WeightShards> make_weight_shards(OptimizerShard* shard) {
  if (shard == nullptr || shard->blocks() == 0) return nullptr;
  return std::make_unique<WeightShards>(*shard, *shard->background());
}

// Those that every rank has.
std::vector<Parameter*> trainable_parameters(ModuleRef model,
                                             const std::optional<OptimizerShard::Options>& ranks) {
  std::vector<Parameter*> all = ingot::parameters(model);
  std::unordered_set<const Parameter*> experts;
  if (ranks.has_value()) experts.insert(ranks->experts.begin(), ranks->experts.end());
  std::erase_if(all, [&](const Parameter* parameter) {
    return !parameter->trainable() || experts.contains(parameter);
  });
  return all;
}

// On a CPU the host's memory is where they are anyway.
std::unique_ptr<OffloadedGradients> make_offloaded_gradients(std::span<Parameter* const> parameters,
                                                             const OptimizerConfig& c,
                                                             const std::string& directory) {
  if (c.gradients == Offload::none || parameters.empty()) return nullptr;
  if (c.gradients == Offload::cpu && has_host_memory(parameters.front()->value.device())) return nullptr;
  return std::make_unique<OffloadedGradients>(parameters,
                                              OffloadConfig{.to = c.gradients, .directory = directory});
}

}  // namespace

TrainOptimizer::TrainOptimizer(ModuleRef model, const OptimizerConfig& config, LrSchedule schedule,
                               double ema_decay, const std::optional<OptimizerShard::Options>& ranks,
                               const std::string& offload_directory)
    : parameters_(trainable_parameters(model, ranks)),
      shard_(make_shard(parameters_, config, ranks)),
      weights_(make_weight_shards(shard_.get())),
      optimizer_(make_optimizer(shard_ != nullptr ? shard_->parts() : parameters_, config)),
      schedule_(std::move(schedule)),
      max_grad_norm_(config.max_grad_norm),
      offloaded_(config.offload != Offload::none) {
  offloaded_gradients_ = make_offloaded_gradients(parameters_, config, offload_directory);
  optimizer_->offload(
      {.to = config.offload, .directory = offload_directory, .gradients = offloaded_gradients_ != nullptr});
  if (ema_decay > 0)
    ema_ = std::make_unique<Ema>(shard_ != nullptr ? shard_->parts() : parameters_,
                                 EmaConfig{.decay = ema_decay, .warmup = true});
}

double TrainOptimizer::learning_rate(std::int64_t step) const {
  return optimizer_->learning_rate() * schedule_(step) * lr_factor_;
}

ClippedNorm TrainOptimizer::measure_gradients() const {
  if (shard_ != nullptr) {
    ClippedNorm all =
        shard_->norm(max_grad_norm_ == 0 ? std::numeric_limits<double>::infinity() : max_grad_norm_);
    if (max_grad_norm_ == 0) all.factor = {};
    return all;
  }
  if (max_grad_norm_ == 0) return {.norm = norm_of(parameters_), .factor = {}};
  if (offloaded_gradients_ != nullptr) return offloaded_gradients_->norm(parameters_, max_grad_norm_);
  return clip_by_global_norm(parameters_, max_grad_norm_);
}

Tensor TrainOptimizer::norm_of(std::span<Parameter* const> some) const {
  if (offloaded_gradients_ == nullptr) return global_norm(some);
  return offloaded_gradients_->norm(some, std::numeric_limits<double>::infinity()).norm;
}

void TrainOptimizer::apply(std::int64_t step, const Tensor& grad_scale) {
  const MemoryTagScope tag(MemoryTag::optimizer);
  StepOptions options{.lr_scale = schedule_(step) * lr_factor_, .grad_scale = grad_scale};
  if (blocks_ == nullptr) {
    optimizer_->step(options);
  } else {
    blocks_->update(parameters_, [&](std::span<Parameter* const> some) {
      options.only = some;
      optimizer_->step(options);
    });
  }
  optimizer_->zero_grad();
  take_over_parts();
  if (ema_ != nullptr) ema_->update();
}

// What this rank has changed of its part, and the others of theirs.
void TrainOptimizer::take_over_parts() {
  if (weights_ != nullptr) weights_->reshard_all();
  if (shard_ != nullptr) shard_->gather_values();
}

void TrainOptimizer::swap_ema() {
  ema_->swap();
  take_over_parts();
}

void TrainOptimizer::with_ema(FunctionRef<void()> f) {
  swap_ema();
  try {
    f();
  } catch (const WorkStopped&) {  // on all ranks
    swap_ema();
    throw;
  } catch (const StepRefused&) {  // too
    swap_ema();
    throw;
  } catch (...) {
    ema_->swap();  // without the others, who are told when this rank ends
    throw;
  }
  swap_ema();
}

std::map<std::string, Tensor> TrainOptimizer::state() const {
  return shard_ != nullptr ? shard_->named_state(optimizer_->state()) : optimizer_->state();
}

std::map<std::string, Tensor> TrainOptimizer::ema_state() const {
  if (ema_ == nullptr) return {};
  return shard_ != nullptr ? shard_->named_state(ema_->state()) : ema_->state();
}

std::map<std::string, Tensor> TrainOptimizer::ema_weights() const {
  if (ema_ == nullptr) return {};
  std::map<std::string, Tensor> weights;
  const auto state = ema_->state();
  for (const Parameter* parameter : shard_ != nullptr ? shard_->parts() : parameters_)
    weights[parameter->name] = state.at(parameter->name + ".ema");
  return shard_ != nullptr ? shard_->gather_parts(weights) : weights;
}

void TrainOptimizer::load_state(const std::map<std::string, Tensor>& optimizer,
                                const std::map<std::string, Tensor>& ema) {
  optimizer_->load_state(shard_ != nullptr ? shard_->part_of(optimizer)
                                           : in_shape_of(parameters_, optimizer));
  if (ema_ != nullptr)
    ema_->load_state(shard_ != nullptr ? shard_->part_of(ema) : in_shape_of(parameters_, ema));
}

}  // namespace ingot
