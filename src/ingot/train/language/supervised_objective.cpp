#include "ingot/train/language/supervised_objective.h"

#include <utility>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/log.h"
#include "ingot/nn/with_values.h"
#include "ingot/train/language/baseline.h"

namespace ingot {
namespace {

// Recorded steps repeat one shape.
bool trims_padding(const TrainConfig& config) { return !config.pad_to_sequence_len && !config.cuda_graphs; }

std::unique_ptr<Distillation> make_distillation(const ObjectiveParts& parts) {
  if (!parts.config.distillation.enabled()) return nullptr;
  return std::make_unique<Distillation>(parts.config, parts.data, parts.model, parts.tokenizer);
}

}  // namespace

SupervisedObjective::SupervisedObjective(const ObjectiveParts& parts)
    : config_(parts.config),
      data_(parts.data),
      model_(parts.model),
      communicator_(parts.communicator),
      loader_(data_.train, {.batch_size = config_.per_device_train_batch_size,
                            .seed = config_.seed,
                            .document_mask = config_.document_mask,
                            .trim_padding = trims_padding(config_),
                            .group_by_length = config_.group_by_length}),
      distillation_(make_distillation(parts)),
      gradients_(model_, parts.optimizer, config_, communicator_, distillation_.get()),
      position_(loader_.state()) {}

StepWork SupervisedObjective::gradients(std::int64_t step, const StopCheck& /*stops*/) {
  std::vector<data::Batch> batches;
  const std::int64_t count = config_.gradient_accumulation_steps * communicator_.size();
  for (std::int64_t i = 0; i < count; ++i) batches.push_back(*loader_.next());
  position_ = batches.back().next;
  return gradients_.run(batches, step);
}

void SupervisedObjective::read(std::span<const float> metrics, StepRecord& record) {
  for (const float loss : metrics.first(metrics.size() - 1)) record.loss += static_cast<double>(loss);
  record.grad_norm = static_cast<double>(metrics.back());
}

StepSize SupervisedObjective::step_size() const {
  const data::PackedSequences& train = *data_.train;
  const double tokens_each = static_cast<double>(train.tokens()) / static_cast<double>(train.size());
  const std::int64_t sequences = config_.gradient_accumulation_steps * config_.per_device_train_batch_size;
  return {.tokens = tokens_each * static_cast<double>(sequences * communicator_.size())};
}

// The ranks take turns with the batches, in rounds of one batch for each rank. Ranks that share out weights
// or experts have to run the same passes: one without a batch in the last round runs another's and drops the
// loss.
std::optional<double> SupervisedObjective::evaluate(const StopCheck& stops) {
  if (data_.validation == nullptr) return std::nullopt;
  const NoGrad no_grad;
  const WithValues with_values(config_.trains_in_halves());
  data::DataLoader batches(data_.validation, {.batch_size = config_.per_device_train_batch_size,
                                              .seed = config_.seed,
                                              .shuffle = false,
                                              .repeat = false,
                                              .prefetch = 1,
                                              .document_mask = config_.document_mask,
                                              .trim_padding = trims_padding(config_)});
  DeviceBatches sent(1, config_.per_device_train_batch_size, config_.sequence_len, model_.device());
  std::vector<Tensor> losses;  // of this rank, undefined for others'; read when all are under way
  std::vector<double> counts;
  std::vector<data::Batch> round;
  const auto run_round = [&] {
    const auto rank = static_cast<std::size_t>(communicator_.rank());
    const bool together = config_.runs_passes_together();
    for (std::size_t i = 0; i < round.size(); ++i) {
      const bool own = i == rank, again = together && rank >= round.size() && i + 1 == round.size();
      if (own || again) sent.send(std::span(&round[i], 1));
      const Tensor loss = own || again ? model_.loss(sent.input(0), sent.targets(0)) : Tensor{};
      losses.push_back(own ? loss : Tensor{});
      counts.push_back(static_cast<double>(round[i].valid_targets));
    }
    round.clear();
  };
  for (std::int64_t i = 0; config_.eval_batches == 0 || i < config_.eval_batches; ++i) {
    const std::optional<data::Batch> batch = batches.next();
    if (!batch.has_value()) break;
    if (batch->valid_targets == 0) continue;
    check_stop(stops);
    round.push_back(*batch);
    if (std::ssize(round) == communicator_.size()) run_round();
  }
  run_round();
  std::vector<float> values;
  values.reserve(losses.size());
  for (const Tensor& loss : losses) values.push_back(loss.defined() ? static_cast<float>(loss.item()) : 0);
  communicator_.all_reduce(values);
  double sum = 0, targets = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += static_cast<double>(values[i]) * counts[i];
    targets += counts[i];
  }
  if (targets > 0) return sum / targets;
  if (!std::exchange(told_of_no_targets_, true))
    log(LogLevel::warn, "ingot::train",
        "the validation data holds no token to predict (every document is one token long): there is no "
        "validation loss, and no best checkpoint");
  return std::nullopt;
}

std::optional<double> SupervisedObjective::bigram_baseline() const {
  if (data_.validation == nullptr) return std::nullopt;
  return bigram_loss(data_.train_documents, data_.validation_documents, model_.config.vocab_size);
}

void SupervisedObjective::restore(const data::DataState& position) {
  loader_.restore(position);
  position_ = position;
}

}  // namespace ingot
