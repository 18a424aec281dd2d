#include "ingot/train/language/planning/dry_objective.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/core/backend.h"
#include "ingot/core/meta_backend.h"
#include "ingot/data/loader.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/kv_pool.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"
#include "ingot/train/language/answer_batch.h"
#include "ingot/train/language/distillation.h"
#include "ingot/train/language/gradient_step.h"
#include "ingot/train/language/grpo_loss.h"
#include "ingot/train/language/preference_pass.h"

namespace ingot {
namespace {

data::PromptedAnswer prompted(std::int64_t prompt, std::int64_t tokens) {
  return {.tokens = std::vector<std::int32_t>(static_cast<std::size_t>(tokens)), .prompt = prompt};
}

ReferenceRun reference_of(const TrainConfig& config, const LanguageModel& model) {
  if (!config.objective.has_reference()) return {};
  return [&model](FunctionRef<void(const LanguageModel&)> f) {
    const NoGrad no_grad;
    f(model);
  };
}

DecoderInput input_of(const Shape& shape) {
  return {.tokens = Tensor::empty(shape, DType::i32, kMeta),
          .positions = Tensor::empty(shape, DType::i32, kMeta),
          .doc_start = {},
          .length = shape[1]};
}

Shape rows_of(const TrainConfig& config) { return {config.per_device_train_batch_size, config.sequence_len}; }

}  // namespace

DryObjective::DryObjective(const TrainConfig& config, const LanguageModel& model)
    : config_(config), model_(model) {
  if (config.objective.preferences().has_value()) {
    loss_ = preferences();
  } else if (config.objective.kind == ObjectiveKind::grpo) {
    loss_ = rewards();
  } else {
    loss_ = config.distillation.teacher.empty() ? supervised() : distilled();
  }
}

DryObjective::~DryObjective() = default;

std::function<Tensor()> DryObjective::supervised() const {
  return [this, input = input_of(rows_of(config_)), options = loss_options(config_, model_.config)] {
    return model_.loss(input, input.tokens, options);
  };
}

// Every token is a target.
std::function<Tensor()> DryObjective::distilled() {
  const ModelCheckpoint checkpoint = open_checkpoint(config_.distillation.teacher);
  MetaSource shapes(config_.dtype);
  distillation_ = std::make_unique<Distillation>(
      config_.distillation, model_,
      std::make_unique<LanguageModel>(
          LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path), shapes));
  const Tensor tokens = Tensor::zeros(rows_of(config_), DType::i32);
  data::Batch batch{
      .tokens = tokens, .targets = tokens, .positions = tokens, .valid_targets = tokens.numel()};
  return [this, input = input_of(rows_of(config_)), batch = std::move(batch),
          options = loss_options(config_, model_.config)] {
    return distillation_->loss(model_, batch, input, options);
  };
}

// Answers are as long as they can be.
std::function<Tensor()> DryObjective::preferences() const {
  data::Preference row{.chosen = prompted(1, config_.sequence_len)};
  if (config_.objective.preferences() == data::PreferenceKind::pair) row.rejected = row.chosen;
  const PreferencePass::Rows rows(static_cast<std::size_t>(config_.per_device_train_batch_size), row);
  return [rows, pass = PreferencePass(config_, model_, reference_of(config_, model_))] {
    return pass.loss(rows).loss;
  };
}

std::function<Tensor()> DryObjective::rewards() const {
  const GrpoConfig& grpo = config_.objective.grpo;
  const auto answer = prompted(config_.sequence_len - grpo.max_completion_length, config_.sequence_len);
  return [this, &grpo, answer, reference = reference_of(config_, model_)] {
    const std::vector<const data::PromptedAnswer*> answers(
        static_cast<std::size_t>(config_.per_device_train_batch_size), &answer);
    const AnswerBatch batch = make_answer_batch(answers, 0, config_.sequence_len, model_.device());
    const auto log_probs = [&](const LanguageModel& model) {
      return answer_log_probs(model, hidden_of(model, batch), batch, grpo.temperature);
    };
    GrpoBatch part{.mask = batch.mask,
                   .advantages = Tensor::empty({std::ssize(answers), 1}, DType::f32, model_.device()),
                   .step_tokens = 1};
    if (reference != nullptr)
      reference([&](const LanguageModel& model) { part.reference = log_probs(model); });
    part.log_probs = log_probs(model_);
    return grpo_loss(grpo, part).loss;
  };
}

std::size_t dry_rollout(const TrainConfig& config, const LanguageModel& model) {
  if (config.objective.kind != ObjectiveKind::grpo) return 0;
  const NoGrad no_grad;
  const std::int64_t answers = config.per_device_train_batch_size * config.gradient_accumulation_steps,
                     chunk = std::min(infer::EngineOptions{}.chunk, answers * config.sequence_len);
  MemoryTracker& memory = backend(kMeta).memory();
  const std::size_t before = memory.allocated();
  memory.reset_peak();
  {  // the end of prompts that are read while others are written
    const Tensor hidden = model.hidden(input_of({1, std::max(chunk, answers)}));
    const Tensor last = Tensor::empty({answers, hidden.dim(-1)}, hidden.dtype(), kMeta);
    const Tensor logits = model.logits(last);
    static_cast<void>(Tensor::empty(logits.shape(), DType::f32, kMeta));
  }
  const std::size_t pass = memory.peak() - before;
  const DType kept = infer::default_kv_cache(model);
  const KvCache one(model.config, config.sequence_len, kept, kMeta);
  const std::size_t state =
      static_cast<std::size_t>(infer::KvPool::state_tokens(model.config, kept)) * one.token_bytes();
  return pass + static_cast<std::size_t>(answers) * (one.nbytes() + state);
}

}  // namespace ingot
