#include "ingot/train/language/train_keys.h"

#include <utility>

#include "ingot/train/language/loss_keys.h"
#include "ingot/train/language/memory_keys.h"
#include "ingot/train/reporter.h"

namespace ingot {
namespace {

using Table = ConfigTable<TrainConfig>;
using Field = Table::Field;

Table::Section model_keys() {
  return {
      "Model",
      {
          {"model",
           &TrainConfig::model,
           {.aliases = {"base_model"},
            .default_text = "none",
            .doc = "A model directory to start from, of any language model that `ingot models` lists, as "
                   "Hugging Face "
                   "tools write it, a `.gguf` file, or a name on a hub (`hf://org/name`)."}},
          {"from_scratch",
           &TrainConfig::from_scratch,
           {.default_text = "true with an architecture and no model", .doc = "Start from random weights."}},
          {"tokenizer",
           &TrainConfig::tokenizer,
           {.aliases = {"tokenizer_config"},
            .default_text = "the model's, or one that is trained on datasets",
            .doc = "A directory, a tokenizer.json or a `.gguf` file."}},
          {"vocab_size",
           &TrainConfig::vocab_size,
           {.bounds = at_least(257), .unit = "tokens", .doc = "Of a tokenizer that is trained here."}},
          Field::words(
              "torch_dtype", [](TrainConfig& c) -> DType& { return c.dtype; },
              [](const std::string& word) { return parse_dtype(word); },
              [](DType dtype) { return name(dtype); },
              {.aliases = {"dtype"},
               .doc = "The dtype of the weights: f32, or bf16, which keeps f32 master weights. bf16 pays on "
                      "GPUs "
                      "and on processors with `avx512_bf16` (`ingot devices`); elsewhere it only saves "
                      "memory."}),
          Field::documented(
              "special_tokens",
              "a mapping: bos_token, eos_token, pad_token, unk_token, additional_special_tokens (a list)",
              {.default_text = "the tokenizer's",
               .doc = "Which tokens play these parts, and more special ones. Those that the tokenizer "
                      "lacks are new, as with `tokens`; a pad token may be missing."}),
          Field::documented(
              "tokens", "a list",
              {.default_text = "none",
               .doc = "New tokens: embeddings and head get a row for each, which begins as the mean of "
                      "the others. With an adapter these rows train by themselves."}),
      }};
}

Table::Section recipe_keys() {
  constexpr auto r = &TrainConfig::recipe;
  return {
      "Recipe",
      {
          Field::words(
              "recipe", [](TrainConfig& c) -> RecipeKind& { return c.recipe.kind; },
              [](const std::string& word) { return parse_recipe(word); },
              [](RecipeKind kind) { return name(kind); },
              {.choices = recipe_names(),
               .doc = "Number formats of the matmuls of linear layers, forward and backward; sums are f32. "
                      "none: torch_dtype. fp8_hybrid: E4M3, gradients E5M2. nvfp4: FP4 with two levels of "
                      "scales. bitnet: ternary weights, int8 activations."}),
          Field::words(
              "fp8_scaling", [](TrainConfig& c) -> Fp8Scaling& { return c.recipe.fp8_scaling; },
              [](const std::string& word) { return parse_fp8_scaling(word); },
              [](Fp8Scaling scaling) { return name(scaling); },
              {.choices = {"delayed", "current"},
               .doc = "fp8_hybrid: the scale of a layer's input comes from the last steps' largest "
                      "magnitudes, or from the input itself. Those of weights and gradients always come "
                      "from these."}),
          {"fp8_amax_history",
           r,
           &Recipe::fp8_amax_history,
           {.bounds = at_least(1), .unit = "steps", .doc = "fp8_scaling: delayed: how many steps count."}},
          {"bitnet_activation_block",
           r,
           &Recipe::int8_block,
           {.bounds = between(0, 32),
            .unit = "columns",
            .doc = "bitnet: numbers of an activation that share a scale. 0: a token's row, as in the paper; "
                   "32: as the `ternary` format multiplies."}},
          {"skip_quant_first_layers",
           r,
           &Recipe::skip_first_layers,
           {.bounds = at_least(0), .unit = "layers", .doc = "From the first on, left in torch_dtype."}},
          {"skip_quant_last_layers",
           r,
           &Recipe::skip_last_layers,
           {.bounds = at_least(0), .unit = "layers", .doc = "Before the head, left in torch_dtype."}},
      }};
}

Table::Section data_keys() {
  return {
      "Data",
      {
          Field::documented("datasets", "a list of mappings, as below",
                            {.default_text = "required", .doc = "What is learned from."}),
          Field::documented(
              "validation_datasets", "a list of mappings, as below",
              {.aliases = {"test_datasets"}, .default_text = "none", .doc = "What is evaluated on."}),
          {"validation_split_ratio",
           &TrainConfig::validation_split_ratio,
           {.aliases = {"val_set_size"},
            .bounds = fraction(),
            .doc = "The share of `datasets` that is set apart where there are no `validation_datasets`."}},
          {"sequence_len",
           &TrainConfig::sequence_len,
           {.bounds = at_least(1), .unit = "tokens", .doc = "The length of a sequence."}},
          {"sample_packing",
           &TrainConfig::sample_packing,
           {.doc = "Lay texts end to end and put several samples into one sequence (best fit); without it "
                   "each has a "
                   "padded sequence of its own."}},
          {"pad_to_sequence_len",
           &TrainConfig::pad_to_sequence_len,
           {.doc = "Pad batches to `sequence_len`, not only to their longest sequence. With `cuda_graphs`, "
                   "whose "
                   "steps repeat one shape, they always are."}},
          {"group_by_length",
           &TrainConfig::group_by_length,
           {.doc =
                "Put sequences of about one length into a batch, in descending order within each 1,024: less "
                "padding where there is no `sample_packing`, in a less random order."}},
          {"document_mask",
           &TrainConfig::document_mask,
           {.doc = "No token attends across a document's end. With false a sequence is one text whose "
                   "positions run on, "
                   "and attention on a GPU goes through cuDNN."}},
          {"cache_dir",
           &TrainConfig::cache_dir,
           {.default_text = "output_dir/cache",
            .doc = "Where tokens are kept, by the content of the data and the tokenizer."}},
      }};
}

Table::Section step_keys() {
  return {
      "Steps",
      {
          {"per_device_train_batch_size",
           &TrainConfig::per_device_train_batch_size,
           {.aliases = {"micro_batch_size", "batch_size"},
            .bounds = at_least(1),
            .unit = "sequences",
            .doc = "Sequences of one forward pass."}},
          {"gradient_accumulation_steps",
           &TrainConfig::gradient_accumulation_steps,
           {.bounds = at_least(1),
            .doc =
                "Forward passes of one optimizer step. The loss divides by the targets of the whole step."}},
          {"ordered_gradients",
           &TrainConfig::ordered_gradients,
           {.doc = "Add up the gradients of micro-batches one by one in their order, whichever process has "
                   "them: the same "
                   "bits for 1 process with 8 accumulation steps as for 4 with 2. Takes the gradients' "
                   "memory twice."}},
          {"num_epochs",
           &TrainConfig::num_epochs,
           {.aliases = {"epochs"}, .bounds = positive(), .doc = "How often the data is gone through."}},
          {"max_steps",
           &TrainConfig::max_steps,
           {.bounds = at_least(-1), .doc = "Optimizer steps of the run; -1: as many as `num_epochs` takes."}},
          {"max_seconds",
           &TrainConfig::max_seconds,
           {.bounds = at_least(0), .unit = "seconds", .doc = "Stop after so long; 0: no limit."}},
      }};
}

Table::Section optimizer_keys() {
  constexpr auto o = &TrainConfig::optimizer;
  return {
      "Optimizer",
      {
          {"optimizer",
           o,
           &OptimizerConfig::name,
           {.aliases = {"optim"},
            .choices = {"adamw", "adamw_8bit", "adam", "sgd", "muon", "normuon", "adamw_torch",
                        "adamw_torch_fused", "adamw_hf", "paged_adamw_32bit", "adamw_bnb_8bit",
                        "adamw_torch_8bit", "paged_adamw_8bit"},
            .doc = "muon steps matrices by orthogonalized momentum, with updates of AdamW's size, and the "
                   "rest by AdamW; normuon also evens out the rows of these updates (Li et al. 2025). "
                   "The last seven are other tools' names of the first two."}},
          {"learning_rate",
           o,
           &OptimizerConfig::learning_rate,
           {.aliases = {"lr"}, .bounds = at_least(0), .doc = "The highest of the schedule."}},
          {"weight_decay",
           o,
           &OptimizerConfig::weight_decay,
           {.bounds = at_least(0), .doc = "Never on norms and biases."}},
          {"adamw_beta1",
           o,
           &OptimizerConfig::beta1,
           {.aliases = {"adam_beta1"}, .bounds = fraction(), .doc = "Decay of the mean of gradients."}},
          {"adamw_beta2",
           o,
           &OptimizerConfig::beta2,
           {.aliases = {"adam_beta2"},
            .bounds = fraction(),
            .doc = "Decay of the mean of squared gradients."}},
          {"adamw_epsilon",
           o,
           &OptimizerConfig::epsilon,
           {.aliases = {"adam_epsilon"}, .bounds = positive(), .doc = "Keeps the division finite."}},
          {"momentum", o, &OptimizerConfig::momentum, {.bounds = fraction(), .doc = "Of sgd."}},
          {"nesterov", o, &OptimizerConfig::nesterov, {.doc = "Nesterov's momentum, of sgd."}},
          {"muon_momentum",
           o,
           &OptimizerConfig::muon_momentum,
           {.aliases = {"normuon_momentum"}, .bounds = fraction(), .doc = "Of muon and normuon."}},
          {"normuon_beta2",
           o,
           &OptimizerConfig::normuon_beta2,
           {.bounds = fraction(), .doc = "normuon: decay of the mean of squares of each row's updates."}},
          {"max_grad_norm",
           o,
           &OptimizerConfig::max_grad_norm,
           {.aliases = {"clip_grad_norm"},
            .bounds = at_least(0),
            .doc = "Gradients are scaled so that their global norm is at most this; 0: never."}},
          Field::words(
              "offload_optimizer", [](TrainConfig& c) -> Offload& { return c.optimizer.offload; },
              [](const std::string& word) { return parse_offload(word); },
              [](Offload offload) { return name(offload); },
              {.choices = {"none", "cpu", "disk", "nvme"},
               .doc = "Where the optimizer's state and master weights are between steps; same bits. cpu: in "
                      "the host's memory, from where they come to a GPU and go in parts; on a CPU they are "
                      "there anyway. disk (nvme): in a file without a name in `output_dir`."}),
          {"ema_decay",
           &TrainConfig::ema_decay,
           {.bounds = fraction(),
            .doc = "Average the weights with this decay; the average is evaluated too, and is what "
                   "`output_dir/model` "
                   "gets. 0: off."}},
          {"z_loss",
           &TrainConfig::z_loss,
           {.bounds = at_least(0), .doc = "Weight of log²Z, which keeps logits from drifting."}},
          {"router_aux_loss_coef",
           &TrainConfig::router_aux_loss_coef,
           {.bounds = at_least(-1),
            .doc = "Mixtures of experts: weight of the load-balancing loss over all layers; -1: the model's "
                   "own, 0: off."}},
          {"router_z_loss_coef",
           &TrainConfig::router_z_loss_coef,
           {.bounds = at_least(0),
            .doc = "Mixtures of experts: weight of the mean of log²Σexp of the routers' logits over all "
                   "layers, which keeps them from growing. 0: off."}},
      }};
}

Table::Section schedule_keys() {
  constexpr auto s = &TrainConfig::schedule;
  return {
      "Learning-rate schedule",
      {
          {"lr_scheduler_type",
           s,
           &ScheduleConfig::type,
           {.aliases = {"lr_scheduler", "schedule"},
            .choices = {"constant", "linear", "cosine", "wsd", "exponential", "step", "noam",
                        "constant_with_warmup", "cosine_with_restarts", "polynomial", "inverse_sqrt",
                        "cosine_with_min_lr", "warmup_stable_decay"},
            .doc = "How the learning rate goes. Every schedule takes a warm-up, which starts from 0: the "
                   "first step of a "
                   "run with warm-up changes nothing."}},
          Field::documented(
              "lr_scheduler_kwargs",
              "a mapping: num_cycles, power, lr_end, min_lr, min_lr_rate, timescale, num_decay_steps, "
              "decay_type",
              {.default_text = "none", .doc = "As in transformers."}),
          {"warmup_steps",
           s,
           &ScheduleConfig::warmup_steps,
           {.bounds = at_least(0), .doc = "Steps in which the rate rises; below 1, a share of all steps."}},
          {"warmup_ratio",
           &TrainConfig::warmup_ratio,
           {.bounds = between(0, 1), .doc = "The same as a share of all steps, where `warmup_steps` is 0."}},
          {"cooldown_steps",
           s,
           &ScheduleConfig::cooldown_steps,
           {.bounds = at_least(0), .doc = "wsd: steps in which the rate falls."}},
          {"cooldown_ratio",
           &TrainConfig::cooldown_ratio,
           {.bounds = between(0, 1),
            .doc = "The same as a share of all steps, where `cooldown_steps` is 0."}},
          {"final_lr_fraction",
           s,
           &ScheduleConfig::final_lr_fraction,
           {.bounds = between(0, 1), .doc = "What is left of the rate at the end."}},
          {"lr_gamma",
           s,
           &ScheduleConfig::gamma,
           {.bounds = positive(), .doc = "exponential, step: the factor."}},
          {"lr_step_size",
           s,
           &ScheduleConfig::step_size,
           {.bounds = at_least(1), .unit = "steps", .doc = "step: after so many the factor is applied."}},
      }};
}

Table::Section evaluation_keys() {
  return {
      "Evaluation and checkpoints",
      {
          {"output_dir",
           &TrainConfig::output_dir,
           {.doc = "Where everything goes. A directory with checkpoints of another run is refused."}},
          {"run_name", &TrainConfig::run_name, {.doc = "In reports and logs."}},
          {"eval_steps",
           &TrainConfig::eval_steps,
           {.bounds = at_least(0), .unit = "steps", .doc = "Between evaluations; 0: only at the end."}},
          {"evals_per_epoch",
           &TrainConfig::evals_per_epoch,
           {.bounds = at_least(0), .doc = "In the place of `eval_steps`; 0: not given."}},
          {"eval_batches",
           &TrainConfig::eval_batches,
           {.bounds = at_least(0), .doc = "At most so many in an evaluation; 0: all."}},
          {"early_stopping_patience",
           &TrainConfig::early_stopping_patience,
           {.aliases = {"patience"},
            .bounds = at_least(0),
            .doc = "End after so many evaluations without improvement; 0: never."}},
          {"sample_prompts",
           &TrainConfig::sample_prompts,
           {.doc = "Texts that the model continues after each evaluation."}},
          {"sample_tokens",
           &TrainConfig::sample_tokens,
           {.bounds = at_least(1), .unit = "tokens", .doc = "Of each continuation."}},
          {"save_steps",
           &TrainConfig::save_steps,
           {.bounds = at_least(0), .unit = "steps", .doc = "Between checkpoints; 0: only at the end."}},
          {"saves_per_epoch",
           &TrainConfig::saves_per_epoch,
           {.bounds = at_least(0), .doc = "In the place of `save_steps`; 0: not given."}},
          {"save_total_limit",
           &TrainConfig::save_total_limit,
           {.bounds = at_least(1), .doc = "Checkpoints that are kept: the newest, and the best one."}},
          {"resume_from_checkpoint",
           &TrainConfig::resume_from_checkpoint,
           {.doc = "Go on from the newest whole checkpoint of `output_dir`, bit for bit; `--resume` says the "
                   "same."}},
          {"logging_steps",
           &TrainConfig::logging_steps,
           {.bounds = at_least(1), .unit = "steps", .doc = "Between lines of metrics."}},
          {"report_to",
           &TrainConfig::report_to,
           {.choices = reporter_names(),
            .doc =
                "Who is told: `jsonl` writes metrics.jsonl, `tensorboard` writes tensorboard/, `html` writes "
                "report.html at the end, `wandb` writes wandb/ for `wandb sync`, `mlflow` tells a tracking "
                "server, `log` writes lines to the log."}},
          {"wandb_project",
           &TrainConfig::tracking,
           &Tracking::wandb_project,
           {.doc = "Adds `wandb` to `report_to`. Empty: WANDB_PROJECT, else ingot."}},
          {"wandb_entity",
           &TrainConfig::tracking,
           &Tracking::wandb_entity,
           {.doc = "The team or user. Empty: WANDB_ENTITY."}},
          {"wandb_name",
           &TrainConfig::tracking,
           &Tracking::wandb_name,
           {.doc = "Of the run there. Empty: WANDB_NAME, else `run_name`."}},
          {"wandb_run_id",
           &TrainConfig::tracking,
           &Tracking::wandb_run_id,
           {.doc = "The run to go on with. Empty: WANDB_RUN_ID, that of the run resumed, or a new one."}},
          {"mlflow_tracking_uri",
           &TrainConfig::tracking,
           &Tracking::mlflow_tracking_uri,
           {.doc = "Adds `mlflow` to `report_to`: the address of a tracking server. Empty: "
                   "MLFLOW_TRACKING_URI."}},
          {"mlflow_experiment_name",
           &TrainConfig::tracking,
           &Tracking::mlflow_experiment_name,
           {.doc = "Made where there is none of this name. Empty: MLFLOW_EXPERIMENT_NAME, else Default."}},
          {"mlflow_run_name",
           &TrainConfig::tracking,
           &Tracking::mlflow_run_name,
           {.doc = "Of the run there. Empty: `run_name`."}},
          Field::documented(
              "use_wandb", "true or false",
              {.default_text = "where wandb_project is given", .doc = "Whether `report_to` has `wandb`."}),
          Field::documented(
              "use_mlflow", "true or false",
              {.default_text = "where an mlflow key is given", .doc = "Whether `report_to` has `mlflow`."}),
          {"detect_anomaly",
           &TrainConfig::detect_anomaly,
           {.doc = "Slow: name the first operation, forward or backward, that makes a NaN or an infinity; "
                   "`ingot "
                   "why` shows what led there."}},
          {"record_origins",
           &TrainConfig::record_origins,
           {.bounds = at_least(0),
            .unit = "steps",
            .doc = "Of every so many steps, keep which op, module and inputs made each tensor, with the "
                   "range of "
                   "its values, for `ingot why`. Such a step is slow. 0: of none."}},
      }};
}

Table::Section distillation_keys() {
  constexpr auto kd = &TrainConfig::distillation;
  return {
      "Distillation",
      {
          {"kd_teacher",
           kd,
           &DistillationConfig::teacher,
           {.default_text = "none",
            .doc = "Learn from the probabilities of this model, which runs beside the one that trains: as "
                   "`model`, with the same tokens."}},
          {"kd_logprobs",
           kd,
           &DistillationConfig::logprobs,
           {.default_text = "none",
            .doc = "Or from its most probable tokens: a directory that `ingot data capture` wrote."}},
          {"kd_alpha", kd, &DistillationConfig::alpha, {.bounds = at_least(0), .doc = "Weight of that."}},
          {"kd_ce_alpha",
           kd,
           &DistillationConfig::ce_alpha,
           {.bounds = at_least(0), .doc = "Weight of the cross-entropy of the data's own tokens beside it."}},
          {"kd_temperature",
           kd,
           &DistillationConfig::temperature,
           {.bounds = positive(),
            .doc = "Both models' logits are divided by it, and the loss is multiplied by its square."}},
          {"kd_beta",
           kd,
           &DistillationConfig::beta,
           {.bounds = between(0, 1),
            .doc = "0: KL(teacher ‖ model); 1: KL(model ‖ teacher); between: the generalized Jensen-Shannon "
                   "divergence of trl's GKD."}},
      }};
}

Table::Section rank_keys() {
  return {
      "Several processes",
      {
          {"zero_stage",
           &TrainConfig::zero_stage,
           {.aliases = {"zero_level"},
            .bounds = between(0, 3),
            .doc =
                "ZeRO: what the processes share out instead of each keeping all of it, with the same bits. "
                "1: the optimizer's state; 2: the gradients too, which are then added after every "
                "micro-batch, as with `ordered_gradients`; 3: the layers' weights too, which are gathered "
                "while a layer runs."}},
          {"expert_parallel_size",
           &TrainConfig::expert_parallel_size,
           {.aliases = {"ep_size", "expert_model_parallel_size"},
            .bounds = at_least(1),
            .doc =
                "So many processes have the experts of a mixture between them, and tokens go to where their "
                "experts are. It divides their number: every group has all experts. 1: every process has. "
                "Sums are rounded otherwise than those of one process, but for `ordered_gradients`."}},
          {"bucket_cap_mb",
           &TrainConfig::bucket_cap_mb,
           {.aliases = {"ddp_bucket_cap_mb"},
            .bounds = between(1, 4096),
            .unit = "MiB",
            .doc =
                "Gradients travel in buckets of this size, each as soon as the backward pass has made it."}},
          {"fast_gradient_sums",
           &TrainConfig::fast_gradient_sums,
           {.doc = "On GPUs, NCCL adds up the processes' gradients in the order that is fastest, which takes "
                   "less memory. Another number of processes, or another `zero_stage`, then has other bits. "
                   "Without NCCL it has no effect."}},
          {"ddp_timeout",
           &TrainConfig::ddp_timeout,
           {.bounds = at_least(0),
            .unit = "seconds",
            .doc = "How long a process waits for the others before it names those that are late and ends the "
                   "run; 0: for ever."}},
      }};
}

Table::Section machine_keys() {
  return {
      "Machine",
      {
          {"device",
           &TrainConfig::device,
           {.doc = "auto: an NVIDIA GPU where there is one and Ingot was built for it, else the CPU; or cpu, "
                   "cuda, "
                   "cuda:N."}},
          {"threads", &TrainConfig::threads, {.bounds = at_least(0), .doc = "Of the CPU; 0: all."}},
          {"train_seed",
           &TrainConfig::seed,
           {.aliases = {"seed"}, .doc = "Same seed and threads, same bits."}},
          {"matmul_precision",
           &TrainConfig::matmul_precision,
           {.choices = {"highest", "medium"},
            .doc = "medium: operands of f32 matmuls may be rounded on the way in, to bf16 on a CPU "
                   "whose dot products of bf16 are faster than f32, to TF32 on GPUs; sums and results stay "
                   "f32."}},
          {"cuda_graphs",
           &TrainConfig::cuda_graphs,
           {.doc =
                "Capture steps that repeat as CUDA graphs: same bits, less work for the host, more memory."}},
      }};
}

}  // namespace

const Table& train_keys() {
  static const Table table{model_keys(),     recipe_keys(),   data_keys(),         step_keys(),
                           optimizer_keys(), schedule_keys(), distillation_keys(), evaluation_keys(),
                           loss_keys(),      rank_keys(),     memory_keys(),       machine_keys()};
  return table;
}

}  // namespace ingot
