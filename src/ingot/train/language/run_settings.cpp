#include "ingot/train/language/run_settings.h"

#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/train/language/recipe_training.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

void add_grpo_settings(Json& json, const GrpoConfig& grpo) {
  json["trl.num_generations"] = grpo.num_generations;
  json["trl.max_completion_length"] = grpo.max_completion_length;
  json["trl.temperature"] = grpo.temperature;
  json["trl.beta"] = grpo.beta;
  json["trl.loss_type"] = static_cast<int>(grpo.loss_type);
  json["trl.scale_rewards"] = static_cast<int>(grpo.scale_rewards);
  if (grpo.num_iterations != 1) json["trl.num_iterations"] = grpo.num_iterations;
}

void add_objective_settings(Json& json, const ObjectiveConfig& objective) {
  json["rl"] = name(objective.kind);
  if (objective.kind == ObjectiveKind::supervised) return;
  json["rl_beta"] = objective.beta;
  if (objective.kind == ObjectiveKind::grpo) add_grpo_settings(json, objective.grpo);
  json["dpo_loss_type"] = static_cast<int>(objective.dpo_loss);
  json["dpo_label_smoothing"] = objective.label_smoothing;
  json["simpo_gamma"] = objective.simpo_gamma;
  json["cpo_alpha"] = objective.cpo_alpha;
  json["kto_desirable_weight"] = objective.desirable_weight;
  json["kto_undesirable_weight"] = objective.undesirable_weight;
}

void add_distillation_settings(Json& json, const DistillationConfig& kd) {
  if (!kd.enabled()) return;
  json["kd_teacher"] = kd.teacher;
  json["kd_logprobs"] = kd.logprobs;
  json["kd_alpha"] = kd.alpha;
  json["kd_ce_alpha"] = kd.ce_alpha;
  json["kd_temperature"] = kd.temperature;
  json["kd_beta"] = kd.beta;
}

}  // namespace

// Steps, learning rate, evaluation, logging, batch size, device and whatever gives the same bits may change.
std::string run_settings(const TrainConfig& config) {
  Json json;
  if (config.from_scratch) {
    const Json architecture = parse_json<Json>(config.architecture.to_json(), "the architecture");
    for (const auto& [key, value] : architecture.items()) json["architecture." + key] = value;
  } else {
    json["model"] = config.model;
  }
  json["torch_dtype"] = name(config.dtype);
  for (const auto& [key, value] : recipe_settings(config.recipe))
    json[key] = parse_json<Json>(value, "the settings");
  json["tokenizer"] = config.tokenizer;
  if (config.from_scratch && config.tokenizer.empty()) json["vocab_size"] = config.vocab_size;
  json["optimizer"] = config.optimizer.name;
  json["ema_decay"] = config.ema_decay;
  json["adapter"] = config.adapter.enabled;
  if (config.adapter.enabled) {
    json["base_format"] = config.adapter.base_format;
    const LoraConfig& lora = config.adapter.lora;
    json["lora_r"] = lora.r;
    json["lora_alpha"] = lora.lora_alpha;
    json["lora_dropout"] = lora.lora_dropout;
    json["lora_use_rslora"] = lora.use_rslora;
    if (lora.use_dora) json["lora_use_dora"] = true;
    json["lora_target_modules"] =
        lora.target_regex.empty() ? Json(lora.target_modules) : Json(lora.target_regex);
    json["lora_layers_to_transform"] = lora.layers_to_transform;
    json["lora_modules_to_save"] = lora.modules_to_save;
    json["lora_target_parameters"] = lora.target_parameters;
    json["lora_exclude_modules"] = lora.exclude_modules;
  }
  for (const char* key : {"tokens", "special_tokens"}) json[key] = Json::array();
  for (const auto& [token, special] : config.samples.new_tokens)
    json[special ? "special_tokens" : "tokens"].push_back(token);
  add_objective_settings(json, config.objective);
  add_distillation_settings(json, config.distillation);
  json["train_seed"] = config.seed;
  json["sequence_len"] = config.sequence_len;
  json["sample_packing"] = config.sample_packing;
  json["document_mask"] = config.document_mask;
  json["excess_length_strategy"] = name(config.samples.excess_length);
  if (config.validation_datasets.empty()) json["validation_split_ratio"] = config.validation_split_ratio;
  return dump_json(json);
}

dist::Settings rank_settings(const TrainConfig& config) {
  Json json = parse_json<Json>(run_settings(config), "the settings");
  json.erase("model");  // a path, of which ranks on other machines may have another
  json["per_device_train_batch_size"] = config.per_device_train_batch_size;
  json["gradient_accumulation_steps"] = config.gradient_accumulation_steps;
  json["learning_rate"] = config.optimizer.learning_rate;
  json["lr_scheduler_type"] = config.schedule.type;
  json["weight_decay"] = config.optimizer.weight_decay;
  json["max_grad_norm"] = config.optimizer.max_grad_norm;
  json["eval_steps"] = config.eval_steps;
  json["ordered_gradients"] = config.ordered_gradients;
  json["fast_gradient_sums"] = config.fast_gradient_sums;
  json["zero_stage"] = config.zero_stage;
  json["expert_parallel_size"] = config.expert_parallel_size;
  json["recompute"] = name(config.recompute);
  json["mlp_chunk"] = config.mlp_chunk;
  json["offload_optimizer"] = name(config.optimizer.offload);
  json["offload_gradients"] = name(config.optimizer.gradients);
  json["sample_prompts"] = config.sample_prompts;
  json["eval_batches"] = config.eval_batches;
  json["save_steps"] = config.save_steps;
  json["bucket_cap_mb"] = config.bucket_cap_mb;
  const LossWatchConfig& watch = config.loss_watch;
  json["loss_watchdog_threshold"] = watch.threshold;
  json["loss_watchdog_patience"] = watch.patience;
  json["auto_lr_reduction"] = watch.reduces_on_spikes;
  json["plateau_steps"] = watch.plateau_steps;
  json["plateau_threshold"] = watch.plateau_threshold;
  json["plateau_action"] = name(watch.plateau_action);
  dist::Settings settings;
  for (const auto& [key, value] : json.items()) settings.emplace_back(key, dump_json(value));
  return settings;
}

}  // namespace ingot
