#include "ingot/train/language/gradient_step.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/scope.h"
#include "ingot/kernels/kernel_traits.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/random.h"
#include "ingot/train/language/objective.h"

namespace ingot {
namespace {

constexpr std::size_t kGradientBlock =
    256 << 20;  // bytes: few allocations, none so large that no memory holds it

bool can_capture(const LanguageModel& model, const TrainConfig& config,
                 const dist::Communicator& communicator) {
  if (!config.cuda_graphs || config.detect_anomaly || config.record_origins > 0) return false;
  const char* obstacle = nullptr;
  if (!backend(model.device()).capabilities().graph_capture) obstacle = "this device has no graphs";
  if (model.config.rope_scaling.depends_on_length()) obstacle = "its RoPE tables depend on the sequences";
  if (model.config.widest_head() > kernels::kernel_traits(model.device()).widest_head)
    obstacle = "its heads are wider than kernels take, and what stands in for them counts keys on the host";
  if (config.distillation.enabled()) obstacle = "what a teacher says is picked by the host";
  if (config.adapter.lora.use_dora) obstacle = "DoRA's row norms are made outside of them";
  if (config.recipe.is_on()) obstacle = "a recipe's scales change from step to step";
  if (config.offload_weights != Offload::none) obstacle = "weights move in the middle of a step";
  if (config.optimizer.gradients != Offload::none) obstacle = "gradients move in the middle of a step";
  if (config.offload_activations != Offload::none) obstacle = "inputs of layers move in the middle of a step";
  if (config.adds_every_round()) obstacle = "gradients are added between micro-batches";
  if (communicator.size() > 1) obstacle = "ranks exchange gradients in the middle of a step";
  if (obstacle != nullptr)
    log(LogLevel::warn, "ingot::train", std::string("cuda_graphs: steps are not captured: ") + obstacle);
  return obstacle == nullptr;
}

// Which micro-batches there are, and which have targets: what the work of a step depends on.
std::string key_of(std::span<const data::Batch> batches) {
  std::string key;
  for (const data::Batch& batch : batches) key += batch.valid_targets > 0 ? '1' : '0';
  return key;
}

}  // namespace

GradientStep::GradientStep(LanguageModel& model, TrainOptimizer& optimizer, const TrainConfig& config,
                           dist::Communicator& communicator, const Distillation* distillation)
    : model_(model),
      optimizer_(optimizer),
      config_(config),
      distillation_(distillation),
      ranks_(static_cast<std::size_t>(communicator.size())),
      rank_(static_cast<std::size_t>(communicator.rank())),
      batches_(config.gradient_accumulation_steps, config.per_device_train_batch_size, config.sequence_len,
               model.device()),
      metrics_(Tensor::empty({config.gradient_accumulation_steps * communicator.size() + 1}, DType::f32,
                             model.device())),
      captures_(can_capture(model, config, communicator)),
      parallel_(make_data_parallel(config, optimizer, communicator)),
      rope_(model.rope_tables(config.sequence_len)),
      recordings_(model.device()) {
  if (!captures_ || parallel_ != nullptr) return;
  std::vector<Tensor> leaves;
  leaves.reserve(optimizer.parameters().size());
  for (const Parameter* parameter : optimizer.parameters()) leaves.push_back(parameter->value);
  fixed_gradients_.emplace(leaves, kGradientBlock);
}

// Number `i` of the metrics, as a scalar.
Tensor GradientStep::metric(std::size_t i) const {
  return {metrics_.storage(),
          contiguous_view(metrics_.view().as<float>() + i, {}, DType::f32, metrics_.device())};
}

// In each round every rank does one of as many micro-batches as there are ranks.
std::vector<data::Batch> GradientStep::own_batches(std::span<const data::Batch> batches) const {
  std::vector<data::Batch> own;
  for (std::size_t first = 0; first < batches.size(); first += ranks_)
    own.push_back(batch_of_round(batches.subspan(first, ranks_)));
  return own;
}

// This rank's. Ranks that share out the weights have to run the same passes: one whose batch has no target
// takes another's, and nothing of what comes out.
const data::Batch& GradientStep::batch_of_round(std::span<const data::Batch> round) const {
  const data::Batch& own = round[rank_];
  if (own.valid_targets > 0 || model_.lease == nullptr || config_.shares_experts()) return own;
  const auto other =
      std::ranges::find_if(round, [](const data::Batch& batch) { return batch.valid_targets > 0; });
  return other == round.end() ? own : *other;
}

// A rank whose batch has no target runs it where others need its experts: no gradient comes of it.
bool GradientStep::runs(const data::Batch& batch, std::span<const data::Batch> round) const {
  return config_.shares_experts()
             ? std::ranges::any_of(round, [](const data::Batch& b) { return b.valid_targets > 0; })
             : batch.valid_targets > 0;
}

LossOptions loss_options(const TrainConfig& config, const LanguageConfig& model) {
  const double router_aux_loss =
      config.router_aux_loss_coef >= 0 ? config.router_aux_loss_coef : model.router_aux_loss_coef;
  return {.z_loss = static_cast<float>(config.z_loss),
          .router_aux_loss = static_cast<float>(router_aux_loss),
          .router_z_loss = static_cast<float>(config.router_z_loss_coef)};
}

Tensor GradientStep::loss(std::size_t round, const data::Batch& batch) const {
  const Scope scope(ScopeKind::work, "forward");
  LossOptions options = loss_options(config_, model_.config);
  options.denominator = batches_.target_count();
  options.router_share = batches_.target_share(round);
  return distillation_ != nullptr ? distillation_->loss(model_, batch, batches_.input(round), options)
                                  : model_.loss(batches_.input(round), batches_.targets(round), options);
}

namespace {

// For its life nothing counts what routers do.
class UncountedRouters {
 public:
  explicit UncountedRouters(LanguageModel& model)
      : model_(model), statistics_(std::exchange(model.router_statistics, nullptr)) {}
  ~UncountedRouters() { model_.router_statistics = statistics_; }
  UncountedRouters(const UncountedRouters&) = delete;
  UncountedRouters& operator=(const UncountedRouters&) = delete;

 private:
  LanguageModel& model_;
  RouterStatistics* statistics_;
};

}  // namespace

void GradientStep::backward_of(std::size_t round, const data::Batch& batch, std::size_t micro_batch,
                               std::int64_t step, bool is_own) {
  const RandomScope random(config_.seed, mix_stream(static_cast<std::uint64_t>(step), micro_batch));
  // A lent batch counts with the rank that it is of.
  std::optional<UncountedRouters> uncounted;
  if (!is_own) uncounted.emplace(model_);
  const Tensor result = loss(round, batch);
  backward(result);
  if (is_own) copy_(metric(micro_batch), result.detach());
  if (random_state().calls > 0) captures_ = false;
}

// The loss of the step is the sum over its micro-batches, each divided by the count of targets of all of
// them.
void GradientStep::forward_backward(std::span<const data::Batch> batches, std::int64_t step) {
  const Stream stream = current_stream(model_.device());
  backend(model_.device()).fill_bytes(metrics_.view().data, 0, metrics_.nbytes(), stream);
  std::vector<bool> contributes(ranks_);
  for (std::size_t first = 0; first < batches.size(); first += ranks_) {
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      if (batches[first + rank].valid_targets > 0) contributes[rank] = true;
    const bool last = first + ranks_ == batches.size();
    const bool adds = parallel_ != nullptr && (last || config_.adds_every_round());
    if (adds) parallel_->begin(contributes, last);
    const std::span<const data::Batch> round = batches.subspan(first, ranks_);
    const data::Batch& batch = batch_of_round(round);
    const bool is_own = &batch == &round[rank_];
    if (runs(batch, round)) backward_of(first / ranks_, batch, first + rank_, step, is_own);
    if (!adds) continue;
    parallel_->end();
    contributes.assign(ranks_, false);
  }
  if (parallel_ != nullptr) {
    parallel_->finish();
    if (ranks_ > 1) parallel_->gather(metrics_);
  }
  const ClippedNorm clipped = optimizer_.measure_gradients();
  grad_scale_ = clipped.factor;
  copy_(metric(batches.size()), clipped.norm);
}

StepWork GradientStep::run(std::span<const data::Batch> batches, std::int64_t step) {
  std::int64_t targets = 0;
  for (const data::Batch& batch : batches) targets += batch.valid_targets;
  batches_.send(own_batches(batches), targets);
  const auto work = [&] { forward_backward(batches, step); };
  if (captures_) {
    const std::string key = key_of(batches);
    const bool repeats = recordings_.recorded(key);
    recordings_.run(key, work);
    if (repeats) {
      restore(recorded_.at(key));
    } else if (recordings_.recorded(key)) {
      recorded_[key] = results();
    }
  } else {
    work();
  }
  return {.metrics = metrics_, .grad_scale = grad_scale_};
}

GradientStep::Results GradientStep::results() const {
  Results results;
  results.grad_scale = grad_scale_;
  for (const Parameter* parameter : optimizer_.parameters()) results.gradients.push_back(parameter->grad());
  return results;
}

void GradientStep::restore(const Results& results) {
  grad_scale_ = results.grad_scale;
  for (std::size_t i = 0; i < results.gradients.size(); ++i) {
    if (results.gradients[i].defined()) optimizer_.parameters()[i]->value.set_grad(results.gradients[i]);
  }
}

}  // namespace ingot
