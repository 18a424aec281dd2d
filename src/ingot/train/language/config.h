#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/core/device.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/recompute.h"
#include "ingot/nn/recipe/recipe.h"
#include "ingot/optim/schedule.h"
#include "ingot/train/language/adapter_training.h"
#include "ingot/train/language/dataset_config.h"
#include "ingot/train/language/distillation_config.h"
#include "ingot/train/language/objective_config.h"
#include "ingot/train/loss_watch.h"
#include "ingot/train/optimizer_setup.h"
#include "ingot/train/tracking.h"

namespace ingot {

class Config;

/// How much memory a run may take, and which settings it keeps whatever they take.
struct MemoryLimit {
  std::string limit;             ///< "24GB", "auto": what is free; empty or "none": nothing is chosen
  bool keeps_recompute = false;  ///< set by hand
  bool keeps_offload = false;    ///< of the optimizer's state
  bool keeps_gradients = false;  ///< offload_gradients
  bool keeps_weights = false;    ///< offload_weights
  bool keeps_activations = false;
  bool is_on() const { return !limit.empty() && limit != "none"; }
};

/// Everything that `ingot train` reads. The YAML keys are those that Surogate and axolotl users know;
/// docs/training.md lists them.
struct TrainConfig {
  // What is trained: a model directory to start from, or an architecture to start from scratch.
  std::string model;
  LanguageConfig architecture;
  bool from_scratch = false;
  std::string tokenizer;           ///< directory or tokenizer.json; empty: the model's, or train one
  std::int64_t vocab_size = 4096;  ///< of a tokenizer that is trained here
  DType dtype = DType::f32;
  Recipe recipe;  ///< number formats of the matmuls

  AdapterTraining adapter;
  ObjectiveConfig objective;
  DistillationConfig distillation;

  SampleConfig samples;
  std::vector<DatasetConfig> datasets;
  std::vector<DatasetConfig> validation_datasets;
  double validation_split_ratio = 0.1;
  std::string cache_dir;       ///< of tokenized data; empty: <output_dir>/cache
  bool sample_packing = true;  ///< several documents or samples in one sequence
  bool pad_to_sequence_len = false;
  bool group_by_length = false;
  bool document_mask = true;  ///< which do not see each other

  std::string output_dir = "output";
  std::string run_name = "run";
  std::int64_t sequence_len = 512;
  std::int64_t per_device_train_batch_size = 8;
  std::int64_t gradient_accumulation_steps = 1;
  bool ordered_gradients = false;  ///< the bits do not depend on how micro-batches are divided
  std::int64_t zero_stage = 0;     ///< what ranks share out: 1 optimizer state, 2 gradients too, 3 weights
  std::int64_t expert_parallel_size = 1;  ///< ranks that share the experts of a mixture out; 1: none do
  std::int64_t bucket_cap_mb = 25;
  bool fast_gradient_sums = false;  ///< on GPUs, in NCCL's order instead of that of ranks
  double ddp_timeout = 1800;        ///< seconds; 0: ranks wait for each other for ever
  double num_epochs = 1;
  std::int64_t max_steps = -1;  ///< -1: as many as num_epochs needs
  double max_seconds = 0;       ///< stop after this long; 0: never

  OptimizerConfig optimizer;
  ScheduleConfig
      schedule;  ///< total_steps, and what the ratios give, are filled in when the run knows its length
  double warmup_ratio = 0.0;    ///< of all steps, used when schedule.warmup_steps is 0
  double cooldown_ratio = 0.1;  ///< wsd: the share of the steps in which the rate falls
  double ema_decay = 0;         ///< 0: no average of the weights is kept
  double z_loss = 0;
  double router_aux_loss_coef = -1;  ///< of a mixture of experts; -1: the model's own
  double router_z_loss_coef = 0;
  Recompute recompute = Recompute::none;
  Offload offload_weights = Offload::none;      ///< where matrices of layers lie
  Offload offload_activations = Offload::none;  ///< where inputs of layers lie until they run again
  std::int64_t mlp_chunk = 0;                   ///< tokens that go through an MLP at a time; 0: all
  MemoryLimit memory_limit;                     ///< chooses recompute and what is offloaded
  bool detect_anomaly = false;
  std::int64_t record_origins = 0;  ///< steps between those whose tensors' origins are kept; 0: none

  std::int64_t logging_steps = 1;
  std::int64_t eval_steps = 100;   ///< 0: only at the end
  std::int64_t eval_batches = 50;  ///< at most so many per evaluation; 0: all
  std::int64_t save_steps = 500;   ///< 0: only at the end
  double evals_per_epoch = 0;      ///< instead of eval_steps; 0: not given
  double saves_per_epoch = 0;
  std::int64_t save_total_limit = 3;
  std::int64_t early_stopping_patience = 0;  ///< evaluations without improvement; 0: never stop early
  LossWatchConfig loss_watch;
  std::vector<std::string> sample_prompts;  ///< continued after each evaluation
  std::int64_t sample_tokens = 64;
  bool resume_from_checkpoint = false;
  std::vector<std::string> report_to{"jsonl", "tensorboard", "html"};  ///< reporter_names()
  Tracking tracking;                                                   ///< of wandb and mlflow

  std::string device = "auto";               ///< "auto": a GPU where there is one; or "cpu", "cuda", "cuda:N"
  bool cuda_graphs = false;                  ///< capture steps that repeat as CUDA graphs
  std::string matmul_precision = "highest";  ///< or "medium": kernels/matmul_precision.h
  std::uint64_t seed = 1234;
  std::int64_t threads = 0;  ///< 0: all

  /// Throws InvalidConfig naming the key.
  void validate() const;
  bool reports_to(std::string_view sink) const;
  /// Where to train: `device`, or get_device() for "auto". Throws DeviceNotAvailable.
  Device training_device() const;
  /// A quantized matrix quantizes its input only where that is f32; such a run multiplies with its values.
  bool trains_in_halves() const { return adapter.quantizes_base() && dtype != DType::f32; }
  /// Whether gradients are added after every micro-batch instead of in the last backward pass of a step.
  bool adds_every_round() const { return ordered_gradients || zero_stage >= 2; }
  bool shares_experts() const { return expert_parallel_size > 1; }
  /// Whether ranks wait for each other in the middle of a pass, so that all have to run as many.
  bool runs_passes_together() const { return zero_stage == 3 || shares_experts(); }
  /// The key that keeps this run from expert_parallel_size, and the reason; empty: nothing.
  std::pair<std::string, std::string> expert_parallel_obstacle() const;
  /// The same for offload_gradients.
  std::pair<std::string, std::string> offload_gradients_obstacle(int ranks = 1) const;
  /// The same for offload_weights, as far as this file tells.
  std::pair<std::string, std::string> offload_weights_obstacle() const;
  /// The same for a model on such a device, in each of so many ranks.
  std::pair<std::string, std::string> offload_weights_obstacle(const LanguageConfig& model, bool on_host,
                                                               int ranks) const;
  std::size_t bucket_bytes() const { return static_cast<std::size_t>(bucket_cap_mb) << 20; }
  std::int64_t tokens_per_step() const {
    return per_device_train_batch_size * sequence_len * gradient_accumulation_steps;
  }
};

/// The schedule of a run of so many steps.
LrSchedule run_schedule(const TrainConfig& config, std::int64_t total_steps);

/// Fetches what is on a hub: the model to start from, the teacher, data sets. Names of models become paths;
/// data sets keep theirs, with the files in `data_files`.
void fetch_from_hub(TrainConfig& config);

/// Reads a training configuration; every key must be known. `config` keeps the effective values for dump().
TrainConfig read_train_config(Config& config);

}  // namespace ingot
