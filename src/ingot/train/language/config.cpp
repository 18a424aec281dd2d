#include "ingot/train/language/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/kernels/matmul_precision.h"
#include "ingot/models/language/family.h"
#include "ingot/train/language/other_keys.h"
#include "ingot/train/reporter.h"

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
  c.initializer_range = section.get("initializer_range", c.initializer_range, positive());
  c.vocab_size = section.get("vocab_size", std::int64_t{0}, at_least(0));
  read_experts(section, c);
  return c;
}

void read_optimizer(const ConfigReader& root, OptimizerConfig& o) {
  root.alias("optim", "optimizer");
  o.name = root.choice(
      "optimizer", o.name,
      {"adamw", "adamw_8bit", "adam", "sgd", "muon", "adamw_torch", "adamw_torch_fused", "adamw_hf",
       "paged_adamw_32bit", "adamw_bnb_8bit", "adamw_torch_8bit", "paged_adamw_8bit"});
  // transformers' names for the two: whose kernel, and in paged memory or not.
  if (o.name.find("8bit") != o.name.npos) o.name = "adamw_8bit";
  if (o.name.find("adamw") != o.name.npos && o.name != "adamw_8bit") o.name = "adamw";
  root.alias("lr", "learning_rate");
  o.learning_rate = root.get("learning_rate", o.learning_rate, at_least(0));
  o.weight_decay = root.get("weight_decay", o.weight_decay, at_least(0));
  root.alias("adam_beta1", "adamw_beta1");
  root.alias("adam_beta2", "adamw_beta2");
  root.alias("adam_epsilon", "adamw_epsilon");
  o.beta1 = root.get("adamw_beta1", o.beta1, fraction());
  o.beta2 = root.get("adamw_beta2", o.beta2, fraction());
  o.epsilon = root.get("adamw_epsilon", o.epsilon, positive());
  o.momentum = root.get("momentum", o.momentum, fraction());
  o.nesterov = root.get("nesterov", o.nesterov);
  o.muon_momentum = root.get("muon_momentum", o.muon_momentum, fraction());
  root.alias("clip_grad_norm", "max_grad_norm");
  o.max_grad_norm = root.get("max_grad_norm", o.max_grad_norm, at_least(0));
}

// transformers' arguments of its schedules.
void read_schedule_kwargs(const ConfigReader& root, ScheduleConfig& s, bool stable) {
  const ConfigReader kwargs = root.section("lr_scheduler_kwargs");
  const double highest = root.has("learning_rate") ? root.require<double>("learning_rate", positive())
                                                   : OptimizerConfig{}.learning_rate;
  const auto set_final = [&](double fraction) {
    if (!root.has("final_lr_fraction"))
      root.put("final_lr_fraction", fmt::format("{}", std::min(1.0, fraction)));
  };
  for (const char* rate : {"min_lr", "lr_end"})
    if (kwargs.has(rate)) set_final(kwargs.require<double>(rate, at_least(0)) / highest);
  for (const char* share : {"min_lr_rate", "min_lr_ratio"})
    if (kwargs.has(share)) set_final(kwargs.require<double>(share, between(0, 1)));
  if (s.type == "polynomial") set_final(1e-7 / highest);  // its default lr_end
  if (s.type == "cosine_with_restarts") s.num_cycles = kwargs.get("num_cycles", s.num_cycles, positive());
  if (s.type == "polynomial") s.power = kwargs.get("power", s.power, positive());
  if (s.type == "inverse_sqrt") s.timescale = kwargs.get("timescale", s.timescale, at_least(0));
  if (s.type != "wsd") return;
  if (kwargs.has("num_decay_steps"))
    root.put("cooldown_steps", std::to_string(kwargs.require<std::int64_t>("num_decay_steps", at_least(1))));
  static_cast<void>(kwargs.skip("num_stable_steps"));  // what the others leave
  const std::string decay =
      kwargs.choice("decay_type", stable ? "cosine" : "1-sqrt", {"cosine", "linear", "1-sqrt"});
  using Decay = schedule::Wsd::Decay;
  s.decay = decay == "cosine" ? Decay::cosine : decay == "linear" ? Decay::linear : Decay::one_minus_sqrt;
}

void read_schedule(const ConfigReader& root, TrainConfig& t) {
  ScheduleConfig& s = t.schedule;
  for (const char* name : {"lr_scheduler", "schedule"}) root.alias(name, "lr_scheduler_type");
  s.type = root.choice(
      "lr_scheduler_type", s.type,
      {"constant", "linear", "cosine", "wsd", "exponential", "step", "noam", "constant_with_warmup",
       "cosine_with_restarts", "polynomial", "inverse_sqrt", "cosine_with_min_lr", "warmup_stable_decay"});
  if (s.type == "constant_with_warmup") s.type = "constant";  // every schedule takes a warm-up
  if (s.type == "cosine_with_min_lr") s.type = "cosine";
  const bool stable = s.type == "warmup_stable_decay";
  if (stable) s.type = "wsd";
  read_schedule_kwargs(root, s, stable);
  s.warmup_steps = root.get("warmup_steps", s.warmup_steps, at_least(0));
  t.warmup_ratio = root.get("warmup_ratio", t.warmup_ratio, between(0, 1));
  s.cooldown_steps = root.get("cooldown_steps", s.cooldown_steps, at_least(0));
  t.cooldown_ratio = root.get("cooldown_ratio", t.cooldown_ratio, between(0, 1));
  s.final_lr_fraction = root.get("final_lr_fraction", s.final_lr_fraction, between(0, 1));
  s.gamma = root.get("lr_gamma", s.gamma, positive());
  s.step_size = root.get("lr_step_size", s.step_size, at_least(1));
}

void read_data(const ConfigReader& root, TrainConfig& t) {
  auto special_tokens = std::move(t.samples.special_tokens);
  t.samples = read_sample_config(root, t.objective);
  t.samples.special_tokens = std::move(special_tokens);
  t.datasets = read_datasets(root, "datasets", t.samples);
  root.alias("test_datasets", "validation_datasets");
  t.validation_datasets = read_datasets(root, "validation_datasets", t.samples);
  root.alias("val_set_size", "validation_split_ratio");
  t.validation_split_ratio = root.get("validation_split_ratio", t.validation_split_ratio, fraction());
  t.cache_dir = root.get("cache_dir", t.cache_dir);
  t.sample_packing = root.get("sample_packing", t.sample_packing);
  t.document_mask = root.get("document_mask", t.document_mask);
  t.sequence_len = root.get("sequence_len", t.sequence_len, at_least(1));
}

void read_steps(const ConfigReader& root, TrainConfig& t) {
  for (const char* name : {"micro_batch_size", "batch_size"}) root.alias(name, "per_device_train_batch_size");
  t.per_device_train_batch_size =
      root.get("per_device_train_batch_size", t.per_device_train_batch_size, at_least(1));
  t.gradient_accumulation_steps =
      root.get("gradient_accumulation_steps", t.gradient_accumulation_steps, at_least(1));
  root.alias("epochs", "num_epochs");
  t.num_epochs = root.get("num_epochs", t.num_epochs, positive());
  t.max_steps = root.get("max_steps", t.max_steps, at_least(-1));
  t.max_seconds = root.get("max_seconds", t.max_seconds, at_least(0));
  t.logging_steps = root.get("logging_steps", t.logging_steps, at_least(1));
  t.eval_steps = root.get("eval_steps", t.eval_steps, at_least(0));
  t.eval_batches = root.get("eval_batches", t.eval_batches, at_least(0));
  t.save_steps = root.get("save_steps", t.save_steps, at_least(0));
  t.evals_per_epoch = root.get("evals_per_epoch", t.evals_per_epoch, at_least(0));
  t.saves_per_epoch = root.get("saves_per_epoch", t.saves_per_epoch, at_least(0));
  t.save_total_limit = root.get("save_total_limit", t.save_total_limit, at_least(1));
  root.alias("patience", "early_stopping_patience");
  t.early_stopping_patience = root.get("early_stopping_patience", t.early_stopping_patience, at_least(0));
}

void read_special_tokens(const ConfigReader& root, TrainConfig& t) {
  const ConfigReader tokens = root.section("special_tokens");
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token"})
    if (tokens.has(name))
      t.samples.special_tokens[name] = tokens.require<std::string>(name);
    else
      static_cast<void>(tokens.skip(name));
  static_cast<void>(tokens.skip("additional_special_tokens"));
}

void read_model(const ConfigReader& root, TrainConfig& t) {
  root.alias("base_model", "model");
  t.model = root.get("model", t.model);
  t.from_scratch = root.get("from_scratch", t.model.empty() && root.has("architecture"));
  if (!root.has("architecture")) {
    static_cast<void>(root.section("architecture"));  // null counts as read
  } else if (t.from_scratch) {
    t.architecture = read_architecture(root.section("architecture"));
  } else {
    root.fail("architecture", "is for from_scratch: true; a model that one starts from brings its own");
  }
  root.alias("tokenizer_config", "tokenizer");
  t.tokenizer = root.get("tokenizer", t.tokenizer);
  read_special_tokens(root, t);
  t.vocab_size = root.get("vocab_size", t.vocab_size, at_least(257));
  t.dtype = parse_dtype(root.get("torch_dtype", std::string(name(t.dtype))));
  t.adapter = read_adapter_training(root, t.model);
}

}  // namespace

void TrainConfig::validate() const {
  require(!datasets.empty(), "datasets",
          "is missing: name at least one, as in `datasets: [{path: data.txt}]`");
  require(from_scratch || !model.empty(), "model",
          "is missing: give a model directory to start from, or `from_scratch: true` with an `architecture`");
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
  require(is_training_dtype(dtype), "torch_dtype", fmt::format("{} is not a dtype to train in", name(dtype)));
  if (device != "auto") static_cast<void>(parse_device(device));
  static_cast<void>(kernels::parse_matmul_precision(matmul_precision));
  require(ema_decay >= 0 && ema_decay < 1, "ema_decay", fmt::format("must be in [0, 1), got {}", ema_decay));
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

TrainConfig read_train_config(Config& config) {
  const ConfigReader root = config.root();
  TrainConfig t;
  translate_keys(root);
  t.objective = read_objective(root);
  read_model(root, t);
  read_data(root, t);
  t.output_dir = root.get("output_dir", t.output_dir);
  t.run_name = root.get("run_name", t.run_name);
  read_steps(root, t);
  read_optimizer(root, t.optimizer);
  read_schedule(root, t);
  t.ema_decay = root.get("ema_decay", t.ema_decay, fraction());
  t.z_loss = root.get("z_loss", t.z_loss, at_least(0));
  t.router_aux_loss_coef = root.get("router_aux_loss_coef", t.router_aux_loss_coef, at_least(-1));
  if (t.router_aux_loss_coef < 0 && t.router_aux_loss_coef != -1) {
    root.fail("router_aux_loss_coef",
              fmt::format("must be at least 0, or -1 for the model's own, got {}", t.router_aux_loss_coef));
  }
  const std::string recompute = root.get("recompute", std::string(name(t.recompute)));
  t.recompute = parse_recompute(
      parse_bool(recompute) ? recompute : root.choice("recompute", recompute, recompute_words()));
  t.detect_anomaly = root.get("detect_anomaly", t.detect_anomaly);
  t.sample_prompts = root.get("sample_prompts", t.sample_prompts);
  t.sample_tokens = root.get("sample_tokens", t.sample_tokens, at_least(1));
  t.resume_from_checkpoint = root.get("resume_from_checkpoint", t.resume_from_checkpoint);
  t.report_to = root.get("report_to", t.report_to);
  t.device = root.get("device", t.device);
  t.cuda_graphs = root.get("cuda_graphs", t.cuda_graphs);
  t.matmul_precision = root.choice("matmul_precision", t.matmul_precision, {"highest", "medium"});
  root.alias("seed", "train_seed");
  t.seed = root.get("train_seed", t.seed);
  t.threads = root.get("threads", t.threads, at_least(0));
  read_gpu_keys(root, t);
  read_other_keys(root);
  const std::vector<std::string> known = reporter_names();
  for (const std::string& reporter : t.report_to) {
    if (std::ranges::find(known, reporter) == known.end())
      root.fail("report_to", fmt::format("'{}' is not one of {}", reporter, fmt::join(known, ", ")));
  }
  config.finish();
  t.validate();
  return t;
}

}  // namespace ingot
