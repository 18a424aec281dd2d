#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ingot/dist/background.h"
#include "ingot/dist/communicator.h"
#include "ingot/kernels/matmul_precision.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/router_statistics.h"
#include "ingot/text/tokenizer.h"
#include "ingot/train/expert_parallel.h"
#include "ingot/train/frozen_shards.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/dataset.h"
#include "ingot/train/language/objective.h"
#include "ingot/train/language/recipe_training.h"
#include "ingot/train/language/run_settings.h"
#include "ingot/train/offloaded_activations.h"
#include "ingot/train/offloaded_weights.h"
#include "ingot/train/reporter.h"
#include "ingot/train/task.h"

namespace ingot {

struct LanguageCheckpoint;

/// Continues a prompt with the model as it is.
using SampleFunction =
    std::function<std::string(const LanguageModel&, const text::Tokenizer&, const std::string& prompt)>;

/// Training of a language model, as a TrainConfig says: model, tokenizer, optimizer and checkpoints. What its
/// steps are is its Objective's.
class LanguageTask : public TrainTask {
 public:
  /// Opens or makes tokenizer, data and model; those of `saved` where a run goes on. Nothing is written but
  /// the cache of tokenized data. Throws when something cannot work.
  /// With several ranks, those of `communicator`, the first writes that, and InvalidConfig names what they do
  /// not agree on.
  LanguageTask(TrainConfig config, const std::optional<SavedCheckpoint>& saved, SampleFunction sample,
               dist::Communicator& communicator = dist::world());

  /// With what config.memory_limit chose.
  const TrainConfig& config() const { return config_; }
  Device device() const { return device_; }
  dist::Communicator& communicator() const { return communicator_; }
  LanguageModel& language_model() { return *model_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  std::int64_t total_steps() const { return total_steps_; }
  /// Changes how many steps there are, and the schedule with them.
  void plan(std::int64_t total_steps);
  /// Objective::bigram_baseline
  std::optional<double> bigram_baseline() const { return objective_->bigram_baseline(); }
  /// What reporters show of it.
  RunInfo info() const;
  /// The weights, averaged where that was asked for, as a model directory. All ranks call it, the first
  /// writes.
  void write_model(const std::string& path);

  ModuleRef model() override { return *model_; }
  TrainOptimizer& optimizer() override { return *optimizer_; }
  StepWork gradients(std::int64_t step, const StopCheck& stops) override;
  bool gradients_change_state() const override {
    return recipe_ != nullptr && recipe_->recipe().has_history();
  }
  void read(std::span<const float> metrics, StepRecord& record) override;
  StepSize step_size() const override;
  std::string divergence_advice() const override;
  std::optional<double> evaluate(const StopCheck& stops) override;
  void read_evaluation(EvalRecord& record) const override { objective_->read_evaluation(record); }
  std::vector<SampleRecord> samples(std::int64_t step) override;
  std::string settings() const override { return run_settings(config_); }
  std::string earlier_settings() const override {
    return R"({"recipe": "none", "tokens": [], "special_tokens": []})";
  }
  std::string state() const override;
  void save(Checkpoint& checkpoint) override;
  std::string write(const CheckpointDirectory& directory, std::int64_t step,
                    const Checkpoint& checkpoint) const override;
  void restore(const SavedCheckpoint& saved, TrainProgress& progress) override;

 private:
  void check_ranks_agree() const;
  void check_same_adapter(const SavedCheckpoint& saved) const;
  bool offloads(Offload to) const;
  void offload_weights();
  void check_offload_of_gradients() const;
  void offload_activations();
  std::size_t loaded_bytes() const;
  void choose_memory(const LanguageConfig& model);  // into chosen_from_, too
  void check_room();
  std::size_t free_bytes() const;
  LanguageConfig architecture(const LanguageCheckpoint* checkpoint) const;
  std::size_t smallest(std::size_t bytes);
  bool shares_weights() const { return config_.zero_stage == 3 && communicator_.size() > 1; }
  void share_out_weights();
  void share_out_experts();
  void watch_routers();
  Tensor with_router_sums(const Tensor& metrics) const;
  std::optional<OptimizerShard::Options> ranks_of_optimizer() const;
  std::map<std::string, Tensor> gathered_weights();
  void gather_layers(std::map<std::string, Tensor>& weights);

  TrainConfig config_;
  SampleFunction sample_;
  dist::Communicator& communicator_;
  Device device_{};
  std::optional<kernels::MatmulPrecisionScope> precision_;
  std::optional<text::Tokenizer> tokenizer_;
  std::string generation_config_;  // of the model that the run starts from
  TrainingData data_;
  std::unique_ptr<dist::Background> gathering_;  // of what ranks share out in a pass; null: nothing
  // Of ranks that have all experts together, and of those that have the same; null: all ranks are one group.
  std::unique_ptr<dist::Communicator> expert_group_, expert_peers_;
  std::shared_ptr<ExpertParallel> expert_ranks_;  // null: every rank has all experts
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<RouterStatistics> router_statistics_;  // null: no layer has experts
  std::unique_ptr<FrozenShards> frozen_shards_;          // of what does not train of the model
  std::unique_ptr<OffloadedWeights> offloaded_weights_;  // null: all are on the device
  std::unique_ptr<OffloadedActivations> offloaded_activations_;
  std::size_t chosen_from_ = 0;                // what was free when memory_limit chose
  std::unique_ptr<RecipeState> recipe_;        // null: matmuls in torch_dtype
  std::unique_ptr<ReferenceModel> reference_;  // null: the objective has none
  std::shared_ptr<LrSchedule> schedule_;       // the optimizer's, which plan() changes
  std::unique_ptr<TrainOptimizer> optimizer_;
  std::unique_ptr<Objective> objective_;
  std::int64_t total_steps_ = 0;
  double flops_per_token_ = 0, epochs_per_step_ = 0;
  std::string checksum_;  // of the weights that the run starts from, with several ranks
};

}  // namespace ingot
