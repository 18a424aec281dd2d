#include "ingot/train/language/other_keys.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/config.h"
#include "ingot/base/log.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/quantization_keys.h"

namespace ingot {
namespace {

// Which kernel or library does the work, and how Python goes about it: the results are the same.
constexpr std::array kWithoutEffect{"attn_implementation",
                                    "bnb_4bit_quant_storage",
                                    "cut_cross_entropy",
                                    "dataloader_num_workers",
                                    "dataloader_pin_memory",
                                    "dataloader_prefetch_factor",
                                    "dataset_num_proc",
                                    "dataset_processes",
                                    "ddp_find_unused_parameters",
                                    "debug",
                                    "device_map",
                                    "eager_attention",
                                    "eval_batch_size",
                                    "eval_max_new_tokens",
                                    "eval_sample_packing",
                                    "eval_table_size",
                                    "experimental_skip_move_to_device",
                                    "experts_implementation",
                                    "flash_attention",
                                    "flash_attn_cross_entropy",
                                    "flash_attn_fuse_mlp",
                                    "flash_attn_rms_norm",
                                    "flash_optimum",
                                    "flex_attention",
                                    "flex_attn_compile_kwargs",
                                    "fused_attn_kernel",
                                    "do_causal_lm_eval",
                                    "eval_causal_lm_metrics",
                                    "gptq",
                                    "gptq_disable_exllama",
                                    "lr_quadratic_warmup",
                                    "pretrain_multipack_attn",
                                    "pretrain_multipack_buffer_size",
                                    "gptq_groupsize",
                                    "gptq_model_v1",
                                    "gradient_checkpointing_kwargs",
                                    "hf_use_auth_token",
                                    "is_falcon_derived_model",
                                    "is_llama_derived_model",
                                    "is_mistral_derived_model",
                                    "is_qwen_derived_model",
                                    "liger_cross_entropy",
                                    "liger_fused_linear_cross_entropy",
                                    "liger_glu_activation",
                                    "liger_layer_norm",
                                    "liger_rms_norm",
                                    "liger_rms_norm_gated",
                                    "liger_rope",
                                    "load_best_model_at_end",
                                    "llm_int8_enable_fp32_cpu_offload",
                                    "llm_int8_has_fp16_weight",
                                    "llm_int8_threshold",
                                    "local_rank",
                                    "logging_dir",
                                    "lora_embedding_kernel",
                                    "lora_fan_in_fan_out",
                                    "lora_mlp_kernel",
                                    "lora_o_kernel",
                                    "lora_on_cpu",
                                    "lora_qkv_kernel",
                                    "low_cpu_mem_usage",
                                    "max_packed_sequence_len",
                                    "mean_resizing_embeddings",
                                    "model_type",
                                    "multipack_real_batches",
                                    "plugins",
                                    "processor_type",
                                    "quantize_moe_experts",
                                    "remove_unused_columns",
                                    "resize_token_embeddings_to_32x",
                                    "sample_packing_bin_size",
                                    "sample_packing_eff_est",
                                    "sample_packing_group_size",
                                    "sample_packing_seq_len_multiplier",
                                    "sample_packing_sequentially",
                                    "save_only_model",
                                    "save_safetensors",
                                    "sdp_attention",
                                    "shuffle_merged_datasets",
                                    "skip_prepare_dataset",
                                    "streaming",
                                    "streaming_multipack_buffer_size",
                                    "strict",
                                    "tokenizer_legacy",
                                    "tokenizer_type",
                                    "tokenizer_use_fast",
                                    "tokenizer_use_mistral_common",
                                    "torch_compile",
                                    "torch_compile_backend",
                                    "torch_compile_mode",
                                    "torchdistx_path",
                                    "total_num_tokens",
                                    "trust_remote_code",
                                    "use_kernels",
                                    "use_scattermoe",
                                    "use_sonicmoe",
                                    "use_tensorboard",
                                    "xformers_attention"};

// Asked for and not here, and the run is right without: a warning that says what there is.
struct Missing {
  const char* advice;
  std::vector<const char*> keys;
};
const std::vector<Missing>& without() {
  static const std::vector<Missing> all{
      {"mpirun -n N ingot train divides each step among N processes",
       {"accelerator_config", "context_parallel_size", "ddp", "deepspeed", "ray_num_workers", "use_ray",
        "dp_replicate_size", "dp_shard_size", "fsdp", "fsdp_config", "fsdp_final_state_dict_type",
        "fsdp_version", "sequence_parallel_degree", "tensor_parallel_size", "use_ray"}},
      {"report_to: [jsonl, tensorboard, html, wandb, mlflow] is what reports",
       {"comet_project_name",
        "comet_workspace",
        "trackio_project_name",
        "trackio_run_name",
        "trackio_space_id",
        "otel_metrics_host",
        "otel_metrics_port",
        "swanlab_completion_log_interval",
        "swanlab_completion_max_buffer",
        "swanlab_description",
        "swanlab_experiment_name",
        "swanlab_log_completions",
        "swanlab_log_model",
        "swanlab_mode",
        "swanlab_project",
        "swanlab_workspace",
        "use_otel_metrics",
        "use_comet",
        "use_swanlab",
        "use_trackio",
        "wandb_log_model",
        "wandb_mode",
        "wandb_watch"}},
      {"nothing is uploaded; the result is in output_dir",
       {"hub_model_id", "hub_strategy", "push_dataset_to_hub"}},
      {"--resume goes on with a run", {"auto_resume_from_checkpoints"}},
      {"the scales of nf4 stay f32, and take half a bit of a weight",
       {"bnb_4bit_use_double_quant", "qlora_bnb_double_quant"}},
      {"write offload_weights: cpu", {"qlora_offload_experts"}},
  };
  return all;
}

// They change what is learned.
struct Refused {
  const char* key;
  const char* advice;
};
constexpr std::array kRefused{
    Refused{"reward_model", "reward models are not trained; leave it out"},
    Refused{"process_reward_model", "reward models are not trained; leave it out"},
    Refused{"relora", "ReLoRA is not available; leave it out for LoRA"},
    Refused{"relora_steps", "ReLoRA is not available; leave it out for LoRA"},
    Refused{"lisa_n_layers", "LISA is not available; write adapter: lora"},
    Refused{"loraplus_lr_ratio", "one learning rate trains both matrices; leave it out"},
    Refused{"unfrozen_parameters",
            "parts of a model are not trained; write adapter: lora with "
            "lora_target_modules, or lora_modules_to_save"},
    Refused{"neftune_noise_alpha", "noise on embeddings is not available; lora_dropout is what regularizes"},
    Refused{"noisy_embedding_alpha",
            "noise on embeddings is not available; lora_dropout is what regularizes"},
    Refused{"normuon_cautious_wd", "weight decay takes all elements; leave it out"},
    Refused{"added_tokens_overrides", "tokens are not renamed; change tokenizer.json"},
    Refused{"default_system_message", "write it into the data, or into chat_template_jinja"},
    Refused{"overrides_of_model_config", "a model is trained as its config.json says; change it there"},
    Refused{"rope_scaling", "a model is trained as its config.json says; change it there"},
    Refused{"cosine_constant_lr_ratio", "write lr_scheduler_type: wsd for a rate that stays and then falls"},
    Refused{"qat", "quantization-aware training is not available; adapter: qlora trains on a quantized base"},
    Refused{"fp8", "write recipe: fp8_hybrid"},
    Refused{"llm_int8_skip_modules", "all linear layers of the base are rounded; leave it out"},
    Refused{"ebft", "this objective is not available; SFT on chats is type: chat_template"},
    Refused{"diffusion", "diffusion models are not trained"},
    Refused{"use_eaft", "weighted losses are not available; leave it out"},
    Refused{"use_dynamic_finetuning", "weighted losses are not available; leave it out"},
    Refused{"curriculum_sampling", "samples are shuffled; leave it out"},
    Refused{"peft", "its initializations of adapters are not available; leave it out"},
    Refused{"llmcompressor", "sparsity is not trained; leave it out"},
    Refused{"reinit_weights", "write from_scratch: true with an architecture"},
    Refused{"num_labels", "classifiers are not trained"},
};

// What translate_keys() and the readers of adapters and teachers make of a key.
struct Translated {
  std::string_view key, meaning;
};
constexpr std::array kTranslated{
    Translated{"bf16", "torch_dtype: bf16 (auto: on GPUs)"},
    Translated{"bfloat16", "torch_dtype: bf16"},
    Translated{"fp16", "torch_dtype: f16, which is refused: write bf16"},
    Translated{"float16", "torch_dtype: f16, which is refused: write bf16"},
    Translated{"tf32", "matmul_precision: medium, on GPUs"},
    Translated{"eta_min", "final_lr_fraction, as a share of learning_rate"},
    Translated{"cosine_min_lr_ratio", "final_lr_fraction"},
    Translated{"save_strategy", "save_steps or saves_per_epoch"},
    Translated{"eval_strategy", "eval_steps or evals_per_epoch"},
    Translated{"evaluation_strategy", "eval_steps or evals_per_epoch"},
    Translated{"dataset_prepared_path", "cache_dir"},
    Translated{"pretraining_dataset", "datasets"},
    Translated{"adam_eps", "adamw_epsilon"},
    Translated{"lora", "adapter: lora"},
    Translated{"load_in_4bit", "base_format: nf4 (stored: of a .gguf file)"},
    Translated{"load_in_8bit", "base_format: int8"},
    Translated{"kd_trainer", "distillation, from kd_teacher or kd_logprobs"},
    Translated{"kd_normalize_topk", "always true"},
    Translated{"tiled_mlp", "mlp_chunk: 4096"},
    Translated{"tiled_mlp_num_shards", "mlp_chunk, as a number of tokens"},
    Translated{"tiled_mlp_use_original_mlp", "always true"},
    Translated{"model_config", "output_router_logits; the rest is the model's own"},
};

// Null, false and nothing ask for nothing.
bool says_nothing(std::string_view value) {
  return value.empty() || value == "false" || value == "False" || value == "no" || value == "0" ||
         value == "1" || value == "[]" || value == "{}";
}

// The number that a per-epoch key means is known when the data is; "epoch" is one.
void translate_strategy(const ConfigReader& root, const char* key, const char* steps, const char* per_epoch) {
  const std::string strategy = root.skip(key);
  if (strategy == "no" || strategy == "none") root.put(steps, "0");
  if (strategy == "epoch" && !root.has(per_epoch)) root.put(per_epoch, "1");
  if (strategy.empty() || strategy == "no" || strategy == "none" || strategy == "epoch" ||
      strategy == "steps" || strategy == "best")
    return;
  root.fail(key, fmt::format("must be one of no, steps, epoch, best, got '{}'", strategy));
}

// bf16: true, fp16: true and their kin as torch_dtype. "auto" is what the machine is good at, which is bf16
// on GPUs and f32 on most processors.
void translate_dtype(const ConfigReader& root) {
  const auto is_on = [&](const char* key) {
    const std::string value = root.skip(key);
    return value == "true" || value == "True" || value == "full";
  };
  const bool brain = is_on("bf16") | is_on("bfloat16"), half = is_on("fp16") | is_on("float16");
  if (brain && half) root.fail("fp16", "is set beside bf16; choose one");
  if (root.has("torch_dtype")) return;
  if (brain) root.put("torch_dtype", "bf16");
  if (half) root.put("torch_dtype", "f16");
}

// A share of all steps, as axolotl takes it.
void translate_warmup(const ConfigReader& root) {
  if (!root.has("warmup_steps")) return;
  const std::string steps = root.skip("warmup_steps");
  if (steps.starts_with("0.") && steps.find_first_not_of("0.") != steps.npos) {
    root.put("warmup_ratio", steps);
    root.put("warmup_steps", "0");
  }
}

// The balance of a mixture of experts is learned in any case.
void read_model_config(const ConfigReader& root) {
  if (root.is_mapping("model_config"))
    static_cast<void>(root.section("model_config").skip("output_router_logits"));
  else
    static_cast<void>(root.skip("model_config"));
}

// The least learning rate, of which ours is the share of the highest.
void translate_least_rate(const ConfigReader& root) {
  if (!root.has("eta_min")) return;
  const auto least = root.get("eta_min", 0.0, at_least(0));
  const auto highest = root.require<double>("learning_rate", positive());
  if (!root.has("final_lr_fraction"))
    root.put("final_lr_fraction", fmt::format("{}", std::min(1.0, least / highest)));
}

// true and false, and DeepSpeed's mapping, of which only `device` says anything here.
void translate_offload(const ConfigReader& root, const char* where) {
  if (root.is_mapping(where)) {
    const ConfigReader section = root.section(where);
    const std::string device = section.skip("device");
    for (const char* key : {"buffer_count", "buffer_size", "max_in_cpu", "fast_init", "nvme_path",
                            "pin_memory", "pipeline", "pipeline_read", "pipeline_write", "ratio"})
      static_cast<void>(section.skip(key));
    root.put(where, device.empty() ? "none" : device);
    return;
  }
  const std::string value = root.skip(where);
  if (value == "true" || value == "True" || value == "legacy") root.put(where, "cpu");
  if (value == "false" || value == "False") root.put(where, "none");
}

// axolotl's: so many parts of a batch, or parts of a size.
void translate_tiled_mlp(const ConfigReader& root) {
  constexpr std::int64_t kUsual = 4096;
  const bool tiled = root.has("tiled_mlp") && root.get("tiled_mlp", false);
  const std::string parts = root.skip("tiled_mlp_num_shards");
  static_cast<void>(root.skip("tiled_mlp_use_original_mlp"));
  if (!tiled || root.has("mlp_chunk")) return;
  std::int64_t chunk = kUsual;
  if (!says_nothing(parts)) {
    const TrainConfig usual;
    const std::int64_t tokens = root.get("per_device_train_batch_size", usual.per_device_train_batch_size) *
                                root.get("sequence_len", usual.sequence_len),
                       count = root.require<std::int64_t>("tiled_mlp_num_shards", at_least(1));
    chunk = (tokens + count - 1) / count;
  }
  root.put("mlp_chunk", std::to_string(chunk));
}

// axolotl's and Unsloth's words that keep the inputs of layers in the host's memory; and these without layers
// that run again.
void translate_recompute(const ConfigReader& root) {
  const std::string recompute = root.skip("recompute");
  const bool to_disk = recompute == "offload_disk";
  if (recompute == "offload" || recompute == "unsloth" || to_disk) {
    root.put("recompute", "full");
    if (!root.has("offload_activations")) root.put("offload_activations", to_disk ? "disk" : "cpu");
  }
  if (root.has("offload_activations") && !root.has("recompute") &&
      parse_offload(root.skip("offload_activations"), "offload_activations") != Offload::none)
    root.put("recompute", "full");
}

}  // namespace

void translate_keys(const ConfigReader& root) {
  for (const char* key : {"offload_optimizer", "offload_gradients", "offload_weights", "offload_activations"})
    translate_offload(root, key);
  translate_recompute(root);
  translate_tiled_mlp(root);
  translate_dtype(root);
  translate_quantization_keys(root);
  translate_warmup(root);
  translate_least_rate(root);
  translate_strategy(root, "save_strategy", "save_steps", "saves_per_epoch");
  root.alias("evaluation_strategy", "eval_strategy");
  translate_strategy(root, "eval_strategy", "eval_steps", "evals_per_epoch");
  root.alias("dataset_prepared_path", "cache_dir");
  root.alias("pretraining_dataset", "datasets");
  root.alias("cosine_min_lr_ratio", "final_lr_fraction");
  root.alias("adam_eps", "adam_epsilon");
}

void read_gpu_keys(const ConfigReader& root, TrainConfig& config) {
  const bool automatic = root.skip("bf16") == "auto" && !root.has("torch_dtype");
  const std::string tf32 = root.skip("tf32");
  const bool on_gpu = config.device == "auto" ? !backend(choose_device("auto")).capabilities().host_memory
                                              : config.device != "cpu";
  if (!on_gpu) return;
  if (automatic) config.dtype = DType::bf16;
  if ((tf32 == "true" || tf32 == "True") && !root.has("matmul_precision")) config.matmul_precision = "medium";
}

OtherKey find_other_key(std::string_view key, std::string_view value) {
  using Fate = OtherKey::Fate;
  const auto is_key = [key](const auto& row) { return key == row.key; };
  if (const auto* row = std::ranges::find_if(kTranslated, is_key); row != kTranslated.end())
    return {Fate::translated, says_nothing(value) ? std::string() : std::string(row->meaning)};
  if (const auto* row = std::ranges::find_if(kQuantizationKeys, is_key); row != kQuantizationKeys.end())
    return {Fate::translated, says_nothing(value) ? std::string() : std::string(row->meaning)};
  if (std::ranges::find(kWithoutEffect, key) != kWithoutEffect.end()) return {Fate::without_effect, ""};
  if (const auto* row = std::ranges::find_if(kRefused, is_key); row != kRefused.end())
    return says_nothing(value) ? OtherKey{Fate::without_effect, ""} : OtherKey{Fate::refused, row->advice};
  for (const Missing& missing : without()) {
    if (std::ranges::find(missing.keys, key) == missing.keys.end()) continue;
    return says_nothing(value) ? OtherKey{Fate::without_effect, ""} : OtherKey{Fate::missing, missing.advice};
  }
  return {};
}

void read_other_keys(const ConfigReader& root) {
  read_model_config(root);
  for (const char* key : kWithoutEffect) static_cast<void>(root.skip(key));
  for (const Refused& refused : kRefused) {
    const std::string value = root.skip(refused.key);
    if (!says_nothing(value)) root.fail(refused.key, refused.advice);
  }
  for (const Missing& missing : without()) {
    std::vector<std::string> asked;
    for (const char* key : missing.keys)
      if (!says_nothing(root.skip(key))) asked.emplace_back(key);
    if (!asked.empty())
      log(LogLevel::warn, "ingot::train",
          fmt::format("{}: without effect; {}", fmt::join(asked, ", "), missing.advice));
  }
}

}  // namespace ingot
