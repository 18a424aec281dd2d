#include "ingot/train/language/planning/dry_pass.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/parallel.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/expert_ranks.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/random.h"
#include "ingot/train/language/gradient_step.h"
#include "ingot/train/language/planning/dry_objective.h"
#include "ingot/train/language/recipe_training.h"
#include "ingot/train/offloaded_activations.h"
#include "ingot/train/offloaded_gradients.h"

namespace ingot {
namespace {

// Adapters on a frozen base, as load_adapted_model() puts them there.
void add_adapters(LanguageModel& model, const AdapterTraining& adapter) {
  const WeightMap map = LanguageModel::weight_map(model.config);
  MetaSource source(DType::f32);
  add_lora({model, map}, adapter.lora, source);
  train_adapter_only({model, map}, adapter.lora);
  for (LowRankAdapter* low_rank : adapters_of(model)) low_rank->dropout = adapter.lora.lora_dropout;
}

// Ranks whose rows are spread over all experts evenly.
class EvenRanks final : public ExpertRanks {
 public:
  explicit EvenRanks(std::int64_t size) : size_(static_cast<int>(size)) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  std::vector<std::int64_t> all_gather(std::span<const std::int64_t> counts) const override {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < size_; ++rank) all.insert(all.end(), counts.begin(), counts.end());
    return all;
  }
  Tensor all_to_all(const Tensor& x, std::span<const std::int64_t> borders) const override {
    return Tensor::empty({(borders[1] - borders[0]) * size_, x.dim(1)}, x.dtype(), x.device());
  }

 private:
  int size_;
};

void share_out_experts(LanguageModel& model, const TrainConfig& config) {
  const auto ranks = std::make_shared<EvenRanks>(config.expert_parallel_size);
  for (const auto& layer : model.layers)
    if (layer->experts != nullptr) layer->experts->share_out(ranks, config.ordered_gradients);
}

// The host's memory is the device's own on a CPU.
bool offloads_inputs(const TrainConfig& config, const kernels::DeviceProfile& device) {
  const Offload to = config.offload_activations;
  return config.recompute == Recompute::full &&
         (to == Offload::disk || (to == Offload::cpu && !device.capabilities.host_memory));
}

bool offloads_gradients(const TrainConfig& config, const kernels::DeviceProfile& device) {
  return config.optimizer.gradients != Offload::none && !device.capabilities.host_memory;
}

class DryPass {
 public:
  DryPass(const TrainConfig& config, const LanguageConfig& architecture, const kernels::DeviceProfile& device)
      : config_(config), run_(device), shapes_(config.dtype), model_(architecture, shapes_) {
    model_.recompute = config.recompute;
    model_.set_mlp_chunk(config.mlp_chunk);
    if (config.adapter.enabled) add_adapters(model_, config.adapter);
    if (config.shares_experts()) share_out_experts(model_, config);
    recipe_ = make_recipe_state(model_, config);
    if (offloads_inputs(config, device)) {
      inputs_ = std::make_unique<OffloadedActivations>(kMeta, OffloadConfig{.to = Offload::cpu});
      model_.layer_inputs = inputs_.get();
    }
    if (offloads_gradients(config, device)) {
      adds_ = config.gradient_accumulation_steps > 1;
      for (Parameter* parameter : parameters(ModuleRef(model_)))
        if (parameter->trainable()) trained_.push_back(parameter);
      gradients_ = std::make_unique<OffloadedGradients>(trained_, OffloadConfig{.to = Offload::cpu});
    }
    objective_ = std::make_unique<DryObjective>(config, model_);
    trace_.emplace(model_, run_.memory(), gradients_ == nullptr);
  }

  PassMemory measure() {
    PassMemory pass;
    trace_->begin();
    backward(objective_->loss());
    pass.first = trace_->end();
    end_pass();
    trace_->begin();
    const MemoryTracker& memory = run_.memory();
    const auto besides_gradients = [&] { return memory.allocated() - memory.allocated(MemoryTag::gradient); };
    const std::size_t before = besides_gradients();
    const Tensor loss = objective_->loss();
    pass.kept = besides_gradients() - before;
    backward(loss);
    pass.adding = trace_->end();
    pass.gradients = trace_->gradients();
    pass.rollout = dry_rollout(config_, model_);
    return pass;
  }

 private:
  // Gradients that are elsewhere: the first of a step's passes, or one that adds to them.
  void end_pass() {
    if (gradients_ == nullptr) return;
    static_cast<void>(gradients_->norm(trained_, 1));
    for (Parameter* parameter : trained_)
      if (!adds_) parameter->zero_grad();
  }

  const TrainConfig& config_;
  kernels::DryRun run_;
  MetaSource shapes_;
  LanguageModel model_;
  std::unique_ptr<RecipeState> recipe_;
  std::unique_ptr<OffloadedActivations> inputs_;
  std::vector<Parameter*> trained_;
  std::unique_ptr<OffloadedGradients> gradients_;
  bool adds_ = false;
  std::unique_ptr<DryObjective> objective_;
  std::optional<PassTrace> trace_;
};

std::string key_of_objective(const TrainConfig& config) {
  const ObjectiveConfig& objective = config.objective;
  const DistillationConfig& kd = config.distillation;
  std::string key = fmt::format(" {} {} {} {} {} ", name(objective.kind), objective.has_reference(),
                                kd.teacher, kd.alpha, kd.ce_alpha);
  if (objective.kind != ObjectiveKind::grpo) return key;
  const GrpoConfig& grpo = objective.grpo;
  return key + fmt::format("{} {} {} {} ", grpo.max_completion_length, grpo.temperature, grpo.beta,
                           config.gradient_accumulation_steps);
}

// Whatever the numbers depend on.
std::string key_of(const TrainConfig& config, const LanguageConfig& model,
                   const kernels::DeviceProfile& device) {
  const BackendCapabilities& has = device.capabilities;
  const kernels::KernelTraits& traits = device.traits;
  std::string key = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", config.per_device_train_batch_size,
      config.sequence_len, name(config.dtype), name(config.recompute), config.mlp_chunk,
      config.expert_parallel_size, offloads_inputs(config, device),
      offloads_gradients(config, device) ? std::min<std::int64_t>(config.gradient_accumulation_steps, 2) : 0,
      has.host_memory, has.total_memory, has.compute_units, has.matmul_alignment, has.fuses_projections,
      traits.scratch, traits.logits_bytes, traits.repeats_gelu, num_threads());
  if (config.shares_experts() && config.ordered_gradients) key += " by rank";
  const LossOptions losses = loss_options(config, model);
  key += fmt::format(" {} {}", losses.router_aux_loss > 0, losses.router_z_loss > 0);
  for (const auto& [setting, value] : recipe_settings(config.recipe)) key += setting + value;
  if (config.adapter.enabled) key += config.adapter.lora.to_json();
  key += key_of_objective(config);
  return key + model.to_json();
}

// Plans ask for the same few shapes again and again, with other optimizers and numbers of ranks.
class Remembered {
 public:
  template <class F>
  std::shared_ptr<const PassMemory> get(const std::string& key, const F& measure) {
    const std::lock_guard lock(mutex_);
    const auto found = passes_.find(key);
    if (found != passes_.end()) return found->second;
    if (passes_.size() >= kMost) passes_.clear();
    return passes_[key] = std::make_shared<const PassMemory>(measure());
  }

 private:
  static constexpr std::size_t kMost = 512;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const PassMemory>> passes_;
};

}  // namespace

std::shared_ptr<const PassMemory> dry_pass(const TrainConfig& config, const LanguageConfig& model,
                                           const kernels::DeviceProfile& device) {
  static auto* remembered = new Remembered;
  return remembered->get(key_of(config, model, device),
                         [&] { return DryPass(config, model, device).measure(); });
}

}  // namespace ingot
