#pragma once

#include "ingot/c_api/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A training run of a language model: from scratch, fine-tuning, LoRA and QLoRA, as `ingot train` does it.
/// Takes one call at a time, but ingot_trainer_interrupt().
typedef struct IngotTrainer IngotTrainer;

/// What an optimizer step measured.
typedef struct IngotTrainStep {
  int64_t step;  ///< optimizer steps done; 0: nothing was reported yet
  double epoch;
  double loss;  ///< nats per token
  double learning_rate;
  double grad_norm;
  double tokens_per_second;
  double flops;  ///< FLOP/s
  double seconds;
} IngotTrainStep;

/// Called by the thread that makes the call which trains. Each may be NULL.
typedef struct IngotTrainCallbacks {
  void (*on_step)(const IngotTrainStep* step, void* user);                        ///< after every step
  void (*on_evaluation)(int64_t step, double loss, int32_t is_best, void* user);  ///< on validation data
  void (*on_saved)(const char* checkpoint, void* user);                           ///< a checkpoint is whole
  int32_t (*should_stop)(void* user);  ///< asked after every step: anything but 0 ends the run
  void* user;
} IngotTrainCallbacks;

/// Fill with ingot_trainer_options().
typedef struct IngotTrainerOptions {
  size_t size;             ///< of this struct, as the caller knows it
  const char* const* set;  ///< changes to the configuration: "learning_rate=1e-3", "datasets.0.path=x"
  size_t set_count;
  int32_t resume;  ///< 1: go on from the newest whole checkpoint of output_dir, bit for bit
  IngotTrainCallbacks callbacks;
} IngotTrainerOptions;
INGOT_API IngotStatus ingot_trainer_options(IngotTrainerOptions* options, size_t size);

/// Opens a run by a YAML file; docs/training.md lists the keys. Model, tokenizer and data are opened or made,
/// and output_dir is locked against other processes. options may be NULL. INGOT_INVALID_CONFIG names the
/// `key`, its line, and the key that was meant.
INGOT_API IngotStatus ingot_trainer_open(const char* path, const IngotTrainerOptions* options,
                                         IngotTrainer** out);
/// The same for the YAML (or JSON) itself. Relative paths in it are from the current directory.
INGOT_API IngotStatus ingot_trainer_open_text(const char* yaml, const IngotTrainerOptions* options,
                                              IngotTrainer** out);
/// What is not saved is lost. NULL is allowed.
INGOT_API IngotStatus ingot_trainer_close(IngotTrainer* trainer);

/// Strings are valid while the handle is open.
typedef struct IngotTrainerInfo {
  int64_t total_steps;
  int64_t steps_done;  ///< more than 0 after resuming
  int64_t parameters;
  int64_t trained_parameters;  ///< those of adapters, where they are trained
  int64_t tokens_per_step;
  const char* device;
  const char* output_dir;
} IngotTrainerInfo;
INGOT_API IngotStatus ingot_trainer_info(const IngotTrainer* trainer, IngotTrainerInfo* info, size_t size);

/// Takes one optimizer step, with the evaluations and checkpoints that are due behind it. *more is 0 when the
/// run is over: then call ingot_trainer_finish(). step: of `size` bytes, may be NULL; on a GPU the metrics
/// come one call later. INGOT_NON_FINITE, naming the step, where loss or gradients are not finite;
/// checkpoints stay.
INGOT_API IngotStatus ingot_trainer_step(IngotTrainer* trainer, IngotTrainStep* step, size_t size,
                                         int32_t* more);
/// All steps that remain, until the run is over or interrupted.
INGOT_API IngotStatus ingot_trainer_run(IngotTrainer* trainer);
/// Mean loss on the validation data in nats per token; NaN where there is none.
INGOT_API IngotStatus ingot_trainer_evaluate(IngotTrainer* trainer, double* loss);
/// Writes a checkpoint now. *path (may be NULL) is to be freed with ingot_free().
INGOT_API IngotStatus ingot_trainer_save(IngotTrainer* trainer, char** path);
/// Ends the run after the step that runs: it is saved, and its end is "stopped". Any thread, and beside any
/// other call.
INGOT_API IngotStatus ingot_trainer_interrupt(IngotTrainer* trainer);

/// Strings are valid while the handle is open.
typedef struct IngotTrainResult {
  const char* end;  ///< "finished", "stopped", "stopped early", "out of time", "loss too high"
  int64_t steps;
  double train_loss;
  double validation_loss, best_validation_loss;  ///< NaN where there are none
  const char* model;       ///< directory of the weights or the adapter; NULL where it was stopped
  const char* checkpoint;  ///< the last one; NULL where there is none
} IngotTrainResult;
/// Ends the run, wherever it is: the last metrics, evaluation and checkpoint, and, unless it was interrupted,
/// the model. *result has `size` bytes.
INGOT_API IngotStatus ingot_trainer_finish(IngotTrainer* trainer, IngotTrainResult* result, size_t size);

#ifdef __cplusplus
}
#endif
