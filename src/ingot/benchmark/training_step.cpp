#include "ingot/benchmark/training_step.h"

#include <utility>

#include "ingot/base/rng.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/backend.h"
#include "ingot/dist/communicator.h"

namespace ingot::benchmark {
namespace {

TrainConfig config_of(TrainConfig config, const StepBatches& batches) {
  config.per_device_train_batch_size = batches.batch;
  config.gradient_accumulation_steps = batches.count;
  config.sequence_len = batches.sequence;
  return config;
}

// Every token is a target, its own: what is learnt does not matter here.
data::Batch random_batch(const LanguageConfig& model, const StepBatches& of, std::int64_t number) {
  Rng rng(RngKey{.seed = 1, .stream = static_cast<std::uint64_t>(number)});
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(of.batch * of.sequence)),
      positions(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(model.vocab_size)));
    positions[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(of.sequence));
  }
  data::Batch batch;
  batch.tokens = batch.targets = Tensor::from(tokens, {of.batch, of.sequence});
  batch.positions = Tensor::from(positions, {of.batch, of.sequence});
  batch.valid_targets = of.batch * of.sequence;
  return batch;
}

}  // namespace

TrainingStep::TrainingStep(LanguageModel& model, const StepBatches& batches, TrainConfig config)
    : device_(model.device()),
      config_(config_of(std::move(config), batches)),
      optimizer_(model, config_.optimizer, run_schedule(config_, 1000)),
      gradients_(model, optimizer_, config_, dist::world()) {
  for (std::int64_t i = 0; i < batches.count; ++i) batches_.push_back(random_batch(model.config, batches, i));
}

TrainingStep::Seconds TrainingStep::take() {
  const Stopwatch watch;
  const StepWork work = gradients_.run(batches_, step_);
  const double made = watch.seconds();
  optimizer_.apply(step_++, work.grad_scale);
  backend(device_).synchronize(current_stream(device_));
  const double end = watch.seconds();
  return {made, end - made, end};
}

}  // namespace ingot::benchmark
