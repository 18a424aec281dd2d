#include "ingot/train/language/planning/dry_pass.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/parallel.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/random.h"
#include "ingot/train/language/recipe_training.h"
#include "ingot/train/offloaded_activations.h"

namespace ingot {
namespace {

// Adapters on a frozen base, as load_adapted_model() puts them there.
void add_adapters(LanguageModel& model, const AdapterTraining& adapter) {
  const WeightMap map = LanguageModel::weight_map(model.config);
  MetaSource source(DType::f32);
  add_lora({model, map}, adapter.lora, source);
  train_adapter_only({model, map}, adapter.lora);
  for (const AdaptedWeight& at : adapted_weights({model, map}))
    for (const auto& low_rank : at.weight->adapters) low_rank->dropout = adapter.lora.lora_dropout;
}

// The host's memory is the device's own on a CPU.
bool offloads_inputs(const TrainConfig& config, const kernels::DeviceProfile& device) {
  const Offload to = config.offload_activations;
  return config.recompute == Recompute::full &&
         (to == Offload::disk || (to == Offload::cpu && !device.capabilities.host_memory));
}

class DryPass {
 public:
  DryPass(const TrainConfig& config, const LanguageConfig& architecture, std::int64_t sequences,
          const kernels::DeviceProfile& device)
      : run_(device), shapes_(config.dtype), model_(architecture, shapes_) {
    model_.recompute = config.recompute;
    for (const auto& layer : model_.layers)
      if (layer->mlp != nullptr) layer->mlp->chunk = config.mlp_chunk;
    if (config.adapter.enabled) add_adapters(model_, config.adapter);
    recipe_ = make_recipe_state(model_, config);
    if (offloads_inputs(config, device)) {
      inputs_ = std::make_unique<OffloadedActivations>(kMeta, OffloadConfig{.to = Offload::cpu});
      model_.layer_inputs = inputs_.get();
    }
    const Shape shape{sequences, config.sequence_len};
    input_ = {.tokens = Tensor::empty(shape, DType::i32, kMeta),
              .positions = Tensor::empty(shape, DType::i32, kMeta),
              .doc_start = {},
              .length = config.sequence_len};
  }

  PassMemory measure() {
    backward(model_.loss(input_, input_.tokens));  // from now on the gradients are there
    MemoryTracker& memory = run_.memory();
    const auto besides_gradients = [&] { return memory.allocated() - memory.allocated(MemoryTag::gradient); };
    const std::size_t before = memory.allocated(), parameters = besides_gradients();
    memory.reset_peak();
    const Tensor loss = model_.loss(input_, input_.tokens);
    const std::size_t kept = besides_gradients() - parameters;
    backward(loss);
    return {.kept = kept, .transient = memory.peak() - before - kept};
  }

 private:
  kernels::DryRun run_;
  MetaSource shapes_;
  LanguageModel model_;
  std::unique_ptr<RecipeState> recipe_;
  std::unique_ptr<OffloadedActivations> inputs_;
  DecoderInput input_;
};

// Whatever the numbers depend on.
std::string key_of(const TrainConfig& config, const LanguageConfig& model, std::int64_t sequences,
                   const kernels::DeviceProfile& device) {
  const BackendCapabilities& has = device.capabilities;
  const kernels::KernelTraits& traits = device.traits;
  std::string key = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", sequences, config.sequence_len, name(config.dtype),
      name(config.recompute), config.mlp_chunk, offloads_inputs(config, device), has.host_memory,
      has.total_memory, has.compute_units, has.matmul_alignment, has.fuses_projections, traits.scratch,
      traits.logits_bytes, traits.repeats_gelu, num_threads());
  for (const auto& [setting, value] : recipe_settings(config.recipe)) key += setting + value;
  if (config.adapter.enabled) key += config.adapter.lora.to_json();
  return key + model.to_json();
}

// Plans ask for the same few shapes again and again, with other optimizers and numbers of ranks.
class Remembered {
 public:
  template <class F>
  PassMemory get(const std::string& key, const F& measure) {
    const std::lock_guard lock(mutex_);
    const auto found = passes_.find(key);
    if (found != passes_.end()) return found->second;
    if (passes_.size() >= kMost) passes_.clear();
    return passes_[key] = measure();
  }

 private:
  static constexpr std::size_t kMost = 1024;
  std::mutex mutex_;
  std::map<std::string, PassMemory> passes_;
};

}  // namespace

PassMemory dry_pass(const TrainConfig& config, const LanguageConfig& model, std::int64_t sequences,
                    const kernels::DeviceProfile& device) {
  static auto* remembered = new Remembered;
  return remembered->get(key_of(config, model, sequences, device),
                         [&] { return DryPass(config, model, sequences, device).measure(); });
}

}  // namespace ingot
