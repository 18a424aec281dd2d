#include "ingot/train/language/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/units.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/dataset.h"
#include "ingot/hub/resolve.h"
#include "ingot/models/language/family.h"
#include "ingot/train/language/other_keys.h"
#include "ingot/train/language/train_keys.h"

namespace ingot {
namespace {

void require(bool holds, const char* key, const std::string& problem) {
  INGOT_CHECK(holds, InvalidConfig(key, problem));
}

// Of a mixture of experts; the defaults are Mixtral's.
void read_experts(const ConfigReader& section, LanguageConfig& c) {
  const LanguageFamily& family = language_family(c.model_type, "model_type");
  if (!family.experts) {
    if (section.has("num_experts"))
      section.fail("num_experts",
                   fmt::format("a {} model has no experts; mixtral and qwen3_moe have", c.model_type));
    return;
  }
  section.alias("num_local_experts", "num_experts");
  c.num_experts = section.get("num_experts", std::int64_t{8}, at_least(1));
  c.num_experts_per_tok = section.get("num_experts_per_tok", std::int64_t{2}, at_least(1));
  if (family.moe_layers_alike) return;
  c.moe_intermediate_size = section.get("moe_intermediate_size", c.intermediate_size, at_least(1));
  c.norm_topk_prob = section.get("norm_topk_prob", c.norm_topk_prob);
  c.decoder_sparse_step = section.get("decoder_sparse_step", c.decoder_sparse_step, at_least(1));
  c.mlp_only_layers = section.get("mlp_only_layers", c.mlp_only_layers);
}

LanguageConfig read_architecture(const ConfigReader& section) {
  LanguageConfig c;
  c.model_type = section.choice("model_type", c.model_type, known_language_families());
  apply_family(c);
  c.hidden_size = section.require<std::int64_t>("hidden_size", at_least(1));
  c.num_hidden_layers = section.require<std::int64_t>("num_hidden_layers", at_least(1));
  c.num_attention_heads = section.require<std::int64_t>("num_attention_heads", at_least(1));
  c.num_key_value_heads = section.get("num_key_value_heads", c.num_attention_heads, at_least(1));
  c.head_dim = section.get("head_dim", c.head_dim, at_least(0));
  // Llama's own ratio, in multiples of 32 so that vectors divide it.
  const std::int64_t usual = !is_gated(c.mlp) ? 4 * c.hidden_size : (c.hidden_size * 8 / 3 + 31) / 32 * 32;
  c.intermediate_size = section.get("intermediate_size", usual, at_least(1));
  c.max_position_embeddings = section.get("max_position_embeddings", c.max_position_embeddings, at_least(1));
  c.rope_theta = section.get("rope_theta", c.rope_theta, positive());
  c.norm_eps = section.get("rms_norm_eps", c.norm_eps, positive());
  c.tie_word_embeddings = section.get("tie_word_embeddings", c.tie_word_embeddings);
  c.sliding_window = section.get("sliding_window", c.sliding_window, at_least(0));
  apply_sliding_pattern(c);
  c.initializer_range = section.get("initializer_range", c.initializer_range, positive());
  c.vocab_size = section.get("vocab_size", std::int64_t{0}, at_least(0));
  read_experts(section, c);
  return c;
}

// transformers' names for the two: whose kernel, and in paged memory or not.
void name_optimizer(OptimizerConfig& o) {
  if (o.name.find("8bit") != o.name.npos) o.name = "adamw_8bit";
  if (o.name.find("adamw") != o.name.npos && o.name != "adamw_8bit") o.name = "adamw";
}

// transformers' arguments of its schedules. Some set other keys, so this comes before those are read.
void read_schedule_kwargs(const ConfigReader& root, ScheduleConfig& s) {
  const std::string type = root.get("lr_scheduler_type", s.type);
  const bool stable = type == "warmup_stable_decay";
  const ConfigReader kwargs = root.section("lr_scheduler_kwargs");
  const double highest = root.get("learning_rate", OptimizerConfig{}.learning_rate, at_least(0));
  const auto set_final = [&](double fraction) {
    if (!root.has("final_lr_fraction"))
      root.put("final_lr_fraction", fmt::format("{}", std::min(1.0, fraction)));
  };
  for (const char* rate : {"min_lr", "lr_end"})
    if (kwargs.has(rate)) set_final(kwargs.require<double>(rate, at_least(0)) / highest);
  for (const char* share : {"min_lr_rate", "min_lr_ratio"})
    if (kwargs.has(share)) set_final(kwargs.require<double>(share, between(0, 1)));
  if (type == "polynomial") set_final(1e-7 / highest);  // its default lr_end
  if (type == "cosine_with_restarts") s.num_cycles = kwargs.get("num_cycles", s.num_cycles, positive());
  if (type == "polynomial") s.power = kwargs.get("power", s.power, positive());
  if (type == "inverse_sqrt") s.timescale = kwargs.get("timescale", s.timescale, at_least(0));
  if (type != "wsd" && !stable) return;
  if (kwargs.has("num_decay_steps"))
    root.put("cooldown_steps", std::to_string(kwargs.require<std::int64_t>("num_decay_steps", at_least(1))));
  static_cast<void>(kwargs.skip("num_stable_steps"));  // what the others leave
  const std::string decay =
      kwargs.choice("decay_type", stable ? "cosine" : "1-sqrt", {"cosine", "linear", "1-sqrt"});
  using Decay = schedule::Wsd::Decay;
  s.decay = decay == "cosine" ? Decay::cosine : decay == "linear" ? Decay::linear : Decay::one_minus_sqrt;
}

void name_schedule(ScheduleConfig& s) {
  if (s.type == "constant_with_warmup") s.type = "constant";  // every schedule takes a warm-up
  if (s.type == "cosine_with_min_lr") s.type = "cosine";
  if (s.type == "warmup_stable_decay") s.type = "wsd";
}

void read_data(const ConfigReader& root, TrainConfig& t) {
  auto special_tokens = std::move(t.samples.special_tokens);
  auto new_tokens = std::move(t.samples.new_tokens);
  t.samples = read_sample_config(root, t.objective);
  t.samples.special_tokens = std::move(special_tokens);
  t.samples.new_tokens = std::move(new_tokens);
  t.datasets = read_datasets(root, "datasets", t.samples);
  t.validation_datasets = read_datasets(root, "validation_datasets", t.samples);
}

void read_special_tokens(const ConfigReader& root, TrainConfig& t) {
  const ConfigReader tokens = root.section("special_tokens");
  for (const std::string name : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    if (!tokens.has(name)) {
      static_cast<void>(tokens.skip(name));
      continue;
    }
    const std::string& token = t.samples.special_tokens[name] = tokens.require<std::string>(name);
    // Padding is never read.
    if (name != "pad_token") t.samples.new_tokens.emplace_back(token, true);
  }
  const char* more = "additional_special_tokens";
  if (tokens.has(more)) {
    for (std::string& token : tokens.get(more, std::vector<std::string>{}))
      t.samples.new_tokens.emplace_back(std::move(token), true);
  } else {
    static_cast<void>(tokens.skip(more));
  }
  for (std::string& token : root.get("tokens", std::vector<std::string>{}))
    t.samples.new_tokens.emplace_back(std::move(token), false);
}

void read_model(const ConfigReader& root, TrainConfig& t) {
  if (!root.has("architecture")) {
    static_cast<void>(root.section("architecture"));  // null counts as read
  } else if (t.from_scratch) {
    t.architecture = read_architecture(root.section("architecture"));
  } else {
    root.fail("architecture", "is for from_scratch: true; a model that one starts from brings its own");
  }
  read_special_tokens(root, t);
  t.adapter = read_adapter_training(root, t.model);
}

}  // namespace

void TrainConfig::validate() const {
  train_keys().check(*this);
  recipe.validate();
  require(!datasets.empty(), "datasets",
          "is missing: name at least one, as in `datasets: [{path: data.txt}]`");
  require(from_scratch || !model.empty(), "model",
          "is missing: give a model directory to start from, or `from_scratch: true` with an `architecture`");
  require(!from_scratch || model.empty(), "model",
          "would not be read: from_scratch: true trains a new model; leave one of them out");
  require(max_steps != 0, "max_steps",
          "is 0: there would be nothing to do; leave it out to train num_epochs");
  require(!validation_datasets.empty() || validation_split_ratio > 0 || early_stopping_patience == 0,
          "early_stopping_patience",
          "needs validation data: set validation_split_ratio or validation_datasets");
  require(!adapter.enabled || !from_scratch, "adapter",
          "is for a base model; from_scratch trains all of a new one");
  require(objective.kind == ObjectiveKind::supervised || !from_scratch, "rl",
          "is for a model that has learned to answer; from_scratch trains a new one");
  if (objective.kind == ObjectiveKind::grpo) {
    const GrpoConfig& grpo = objective.grpo;
    require(grpo.max_completion_length < sequence_len, "sequence_len",
            fmt::format("{} leaves no room for a prompt beside the {} tokens of trl.max_completion_length",
                        sequence_len, grpo.max_completion_length));
    const std::int64_t answers = per_device_train_batch_size * gradient_accumulation_steps;
    require(answers % grpo.num_generations == 0, "trl.num_generations",
            fmt::format("{} must divide the {} answers of a step (per_device_train_batch_size times "
                        "gradient_accumulation_steps)",
                        grpo.num_generations, answers));
  }
  validate_distillation(*this);
  require(
      !fast_gradient_sums || !ordered_gradients, "fast_gradient_sums",
      "sums in the order that is fastest, and ordered_gradients in that of micro-batches; set one of them");
  if (shares_experts()) {
    const auto [key, reason] = expert_parallel_obstacle();
    require(key.empty(), "expert_parallel_size",
            fmt::format("{} is not supported with {}: {}; write 1", expert_parallel_size, key, reason));
  }
  if (offload_weights != Offload::none) {
    const auto [key, reason] = offload_weights_obstacle();
    require(key.empty(), "offload_weights",
            fmt::format("{} is not supported with {}: {}; write none", name(offload_weights), key, reason));
  }
  if (optimizer.gradients != Offload::none) {
    const auto [key, reason] = offload_gradients_obstacle();
    require(
        key.empty(), "offload_gradients",
        fmt::format("{} is not supported with {}: {}; write none", name(optimizer.gradients), key, reason));
  }
  require(
      offload_activations == Offload::none || recompute == Recompute::full, "offload_activations",
      fmt::format("{} moves the inputs of layers that run again, and recompute is {}; write recompute: true",
                  name(offload_activations), name(recompute)));
  require(dtype != DType::f16, "torch_dtype",
          "f16 cannot be trained in: without loss scaling, which is not available, small gradients become 0; "
          "write bf16, or f32");
  require(is_training_dtype(dtype), "torch_dtype", fmt::format("{} is not a dtype to train in", name(dtype)));
  if (device != "auto") static_cast<void>(parse_device(device));
  if (memory_limit.is_on() && memory_limit.limit != "auto")
    static_cast<void>(parse_bytes(memory_limit.limit, "memory_limit"));
  if (from_scratch) {
    LanguageConfig copy = architecture;
    if (copy.vocab_size == 0) copy.vocab_size = vocab_size;
    copy.validate();
    require(architecture.position != PositionKind::learned ||
                sequence_len <= architecture.max_position_embeddings,
            "sequence_len",
            fmt::format("{} is beyond the architecture's max_position_embeddings {}", sequence_len,
                        architecture.max_position_embeddings));
  }
}

std::pair<std::string, std::string> TrainConfig::expert_parallel_obstacle() const {
  if (zero_stage == 0) return {"zero_stage: 0", "each rank steps its own experts, from stage 1 on"};
  if (objective.kind == ObjectiveKind::grpo) return {"rl: grpo", "its ranks write answers of other lengths"};
  if (distillation.enabled()) return {"kd_teacher", "ranks without targets would have no pass to run"};
  if (!sample_prompts.empty()) return {"sample_prompts", "the first rank alone continues them"};
  if (optimizer.name == "adamw_8bit" || optimizer.name.ends_with("muon"))
    return {"optimizer: " + optimizer.name, "its state does not come in parts of any size"};
  return {};
}

std::pair<std::string, std::string> TrainConfig::offload_gradients_obstacle(int ranks) const {
  if (ordered_gradients)
    return {"ordered_gradients", "it keeps the sums beside the gradients of a micro-batch"};
  if (zero_stage > 0)
    return {fmt::format("zero_stage: {}", zero_stage), "ranks exchange gradients on the device"};
  if (ranks > 1) return {"several processes", "they exchange gradients on the device"};
  return {};
}

std::pair<std::string, std::string> TrainConfig::offload_weights_obstacle() const {
  if ((!adapter.enabled || !adapter.lora.modules_to_save.empty()) && ema_decay > 0)
    return {"ema_decay", "it averages all weights at once"};
  if (!adapter.enabled && objective.has_reference())
    return {"rl without an adapter", "it compares with a copy of the whole model"};
  if (adapter.lora.use_dora) return {"lora_use_dora", "it begins with norms of all weights"};
  if (recipe.is_on()) return {"recipe", "it keeps scales of all weights"};
  if (objective.kind == ObjectiveKind::grpo) return {"rl: grpo", "its rollouts need all weights at once"};
  if (objective.has_reference() && !adapter.lora.modules_to_save.empty())
    return {"lora_modules_to_save", "rl then compares with a copy of the whole model"};
  return {};
}

std::pair<std::string, std::string> TrainConfig::offload_weights_obstacle(const LanguageConfig& of,
                                                                          bool on_host, int ranks) const {
  if (const auto found = offload_weights_obstacle(); !found.first.empty()) return found;
  if (ranks > 1) return {"several processes", "each would keep all weights on the host"};
  if (!on_host && !sample_prompts.empty())
    return {"sample_prompts", "generation captures passes with all weights"};
  if (!on_host && of.position == PositionKind::alibi)
    return {"ALiBi", "its slopes are made where the weights are"};
  return {};
}

LrSchedule run_schedule(const TrainConfig& config, std::int64_t total_steps) {
  ScheduleConfig schedule = config.schedule;
  const auto steps = static_cast<double>(total_steps);
  schedule.total_steps = total_steps;
  if (schedule.warmup_steps == 0) schedule.warmup_steps = std::llround(config.warmup_ratio * steps);
  if (schedule.cooldown_steps == 0) schedule.cooldown_steps = std::llround(config.cooldown_ratio * steps);
  if (config.architecture.hidden_size > 0) schedule.width = config.architecture.hidden_size;
  if (schedule.type != "wsd" && schedule.warmup_steps > total_steps) {
    // As in transformers: such a run ends while the rate still rises.
    log(LogLevel::warn, "ingot::train",
        fmt::format(
            "warmup_steps: {} are more than the {} steps of the run, which ends before the learning rate "
            "is reached",
            schedule.warmup_steps, total_steps));
    schedule.total_steps = schedule.warmup_steps;
  }
  return make_schedule(schedule);
}

Device TrainConfig::training_device() const {
  return device == "auto" ? get_device() : choose_device(device);
}

bool TrainConfig::reports_to(std::string_view sink) const {
  return std::ranges::find(report_to, sink) != report_to.end();
}

namespace {

void read_recompute(const ConfigReader& root, TrainConfig& t) {
  const std::string recompute = root.get("recompute", std::string(name(t.recompute)));
  t.recompute = parse_recompute(
      parse_bool(recompute) ? recompute : root.choice("recompute", recompute, recompute_words()));
}

// As axolotl has it: naming a project or a server asks for its reporter, `use_wandb: false` does without.
void read_trackers(const ConfigReader& root, TrainConfig& t) {
  const auto ask_for = [&](const char* reporter, bool named, const char* switched) {
    if (root.get(switched, named) && !t.reports_to(reporter)) t.report_to.emplace_back(reporter);
  };
  ask_for("wandb", !t.tracking.wandb_project.empty(), "use_wandb");
  ask_for("mlflow", !t.tracking.mlflow_tracking_uri.empty() || !t.tracking.mlflow_experiment_name.empty(),
          "use_mlflow");
}

}  // namespace

namespace {

void fetch_dataset(DatasetConfig& dataset) {
  if (!hub::is_hub_dataset(dataset.path)) return;
  dataset.data_files = hub::resolve_dataset({.name = dataset.path,
                                             .revision = dataset.revision,
                                             .config = dataset.name,
                                             .split = dataset.split,
                                             .data_files = dataset.data_files});
}

}  // namespace

void fetch_from_hub(TrainConfig& config) {
  if (!config.from_scratch) config.model = hub::resolve_model(config.model);
  std::string& teacher = config.distillation.teacher;
  if (!teacher.empty()) teacher = hub::resolve_model(teacher);
  for (auto* datasets : {&config.datasets, &config.validation_datasets})
    for (DatasetConfig& dataset : *datasets) fetch_dataset(dataset);
}

TrainConfig read_train_config(Config& config) {
  const ConfigReader root = config.root();
  TrainConfig t;
  train_keys().read_aliases(root);
  translate_keys(root);
  t.memory_limit.keeps_recompute = root.has("recompute");
  t.memory_limit.keeps_offload = root.has("offload_optimizer");
  t.memory_limit.keeps_gradients = root.has("offload_gradients");
  t.memory_limit.keeps_weights = root.has("offload_weights");
  t.memory_limit.keeps_activations = root.has("offload_activations");
  t.objective = read_objective(root);
  t.from_scratch = !root.has("model") && root.has("architecture");
  read_schedule_kwargs(root, t.schedule);
  train_keys().read(root, t);
  name_optimizer(t.optimizer);
  name_schedule(t.schedule);
  read_model(root, t);
  read_data(root, t);
  if (t.router_aux_loss_coef < 0 && t.router_aux_loss_coef != -1) {
    root.fail("router_aux_loss_coef",
              fmt::format("must be at least 0, or -1 for the model's own, got {}", t.router_aux_loss_coef));
  }
  read_recompute(root, t);
  check_distillation_keys(root, t.distillation);
  read_gpu_keys(root, t);
  read_trackers(root, t);
  read_other_keys(root);
  config.finish();
  t.validate();
  return t;
}

}  // namespace ingot
