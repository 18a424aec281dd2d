#include "ingot/train/language/objective.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/train/language/grpo_objective.h"
#include "ingot/train/language/preference_objective.h"
#include "ingot/train/language/supervised_objective.h"

namespace ingot {

std::unique_ptr<Objective> make_objective(const ObjectiveParts& parts) {
  if (parts.config.objective.kind == ObjectiveKind::grpo) return std::make_unique<GrpoObjective>(parts);
  if (parts.config.objective.preferences()) return std::make_unique<PreferenceObjective>(parts);
  return std::make_unique<SupervisedObjective>(parts);
}

std::unique_ptr<DataParallel> make_data_parallel(const TrainConfig& config, const TrainOptimizer& optimizer,
                                                 dist::Communicator& communicator) {
  const std::int64_t adds = config.adds_every_round() ? config.gradient_accumulation_steps : 1;
  if (communicator.size() == 1 && adds == 1) return nullptr;
  return std::make_unique<DataParallel>(communicator, optimizer.parameters(),
                                        DataParallelOptions{.adds = adds,
                                                            .bucket_bytes = config.bucket_bytes(),
                                                            .fast_sums = config.fast_gradient_sums,
                                                            .shard = optimizer.shard(),
                                                            .background = optimizer.background()});
}

namespace {

// What there is to learn from.
std::int64_t rows_of(const TrainConfig& config, const TrainingData& data) {
  if (data.train != nullptr) return data.train->size();
  return data.prompts.empty() ? std::ssize(data.train_documents.documents)
                              : std::ssize(data.prompts) * config.objective.grpo.num_generations;
}

}  // namespace

void check_rows_for(const TrainConfig& config, const TrainingData& data, int ranks) {
  const std::int64_t rows = rows_of(config, data);
  INGOT_CHECK(
      rows >= ranks,
      InvalidConfig("datasets",
                    fmt::format("have {} {} to learn from, fewer than the {} processes; start "
                                "{} at most (mpirun -n {}), or give more data",
                                rows, data.train != nullptr ? "sequences" : "rows", ranks, rows, rows)));
}

double steps_per_epoch(const TrainConfig& config, const TrainingData& data, int ranks) {
  const std::int64_t rows = rows_of(config, data);
  const std::int64_t batch = config.per_device_train_batch_size;
  const std::int64_t often = data.prompts.empty() ? 1 : config.objective.grpo.num_iterations;
  const std::int64_t batches = (rows + batch - 1) / batch * often;
  return static_cast<double>(batches) / static_cast<double>(config.gradient_accumulation_steps * ranks);
}

}  // namespace ingot
