#include "ingot/train/language/reference.h"

#include "ingot/autograd/grad_mode.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/adapter/open_adapter.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/language/vocabulary.h"
#include "ingot/nn/with_values.h"
#include "ingot/train/language/frozen_matrices.h"

namespace ingot {
namespace {

constexpr const char* kTrained = "default";
constexpr const char* kReference = "reference";

}  // namespace

bool ReferenceModel::is_copied(const TrainConfig& config) {
  return config.objective.has_reference() &&
         (!config.adapter.enabled || !config.adapter.lora.modules_to_save.empty());
}

ReferenceModel::ReferenceModel(const TrainConfig& config, LanguageModel& model)
    : model_(model),
      begins_adapted_(config.adapter.enabled && !config.adapter.start_from.empty()),
      with_values_(config.adapter.quantizes_base()) {
  const MemoryTagScope tag(MemoryTag::parameter);
  if (is_copied(config)) {
    copy_ = load_base_model(config.model, config.adapter, config.dtype, model.device());
    grow_vocabulary(*copy_, model.config.vocab_size);
  }
  if (!begins_adapted_) return;
  const WeightMap map = LanguageModel::weight_map(model.config);
  LanguageModel& reference = copy_ != nullptr ? *copy_ : model;
  read_adapter(reference, config.adapter.start_from, kReference);
  if (copy_ != nullptr) return;
  enable_adapter(model, kReference, false);
  train_adapter_only({model, map}, config.adapter.lora, kTrained);
}

void ReferenceModel::share_out(dist::Communicator& communicator, dist::Background& background) {
  if (copy_ == nullptr) return;
  shards_ = std::make_unique<FrozenShards>(frozen_matrices(*copy_), communicator, background);
  copy_->lease = shards_.get();
}

void ReferenceModel::switch_adapters(bool to_reference) const {
  enable_adapter(model_, kTrained, !to_reference);
  if (begins_adapted_) enable_adapter(model_, kReference, to_reference);
}

void ReferenceModel::run(FunctionRef<void(const LanguageModel&)> f) const {
  const NoGrad no_grad;
  const WithValues with_values(with_values_);  // the arithmetic of the model that trains
  if (copy_ != nullptr) return f(*copy_);
  switch_adapters(true);
  try {
    f(model_);
  } catch (...) {
    switch_adapters(false);
    throw;
  }
  switch_adapters(false);
}

}  // namespace ingot
