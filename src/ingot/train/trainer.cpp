#include "ingot/train/trainer.h"

#include <chrono>
#include <cmath>
#include <deque>
#include <future>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/base/files.h"
#include "ingot/base/log.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/backend.h"
#include "ingot/core/transfer.h"
#include "ingot/data/loader.h"
#include "ingot/kernels/matmul_precision.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/ops/cast.h"
#include "ingot/train/baseline.h"
#include "ingot/train/checkpoint.h"
#include "ingot/train/dataset.h"
#include "ingot/train/gradient_step.h"
#include "ingot/train/memory_plan.h"
#include "ingot/train/progress.h"

namespace ingot {
namespace {

text::Tokenizer choose_tokenizer(const TrainConfig& config,
                                 const std::optional<SavedCheckpoint>& checkpoint) {
  if (checkpoint.has_value()) return text::Tokenizer::from_directory(checkpoint->path());
  const std::string& path = !config.tokenizer.empty() ? config.tokenizer
                            : config.from_scratch     ? ""
                                                      : config.model;
  return path.empty() ? train_tokenizer(config) : open_tokenizer(path);
}

LanguageConfig finish_architecture(const TrainConfig& config, const text::Tokenizer& tokenizer) {
  LanguageConfig model = config.architecture;
  if (model.vocab_size == 0) model.vocab_size = tokenizer.vocab_size();
  INGOT_CHECK(
      model.vocab_size >= tokenizer.vocab_size(),
      InvalidConfig("architecture.vocab_size", fmt::format("{} is less than the tokenizer's {} ids",
                                                           model.vocab_size, tokenizer.vocab_size())));
  model.bos_token_id = tokenizer.bos_id().value_or(-1);
  model.eos_token_id = tokenizer.eos_id().value_or(-1);
  model.dtype = config.dtype;
  model.max_position_embeddings = std::max(model.max_position_embeddings, config.sequence_len);
  return model;
}

std::unique_ptr<LanguageModel> make_model(const TrainConfig& config, const text::Tokenizer& tokenizer,
                                          const LanguageCheckpoint* checkpoint, Device device) {
  const MemoryTagScope tag(MemoryTag::parameter);
  if (checkpoint != nullptr) {
    LoadOptions options;
    options.device = device;
    options.copy = false;
    TensorMapSource source(checkpoint->weights, options, "the checkpoint");
    auto model = std::make_unique<LanguageModel>(checkpoint->config, source);
    source.finish();
    return model;
  }
  if (!config.from_scratch)
    return load_language_model(config.model, {.dtype = config.dtype, .device = device});
  InitSource source(config.seed, config.dtype, device);
  return std::make_unique<LanguageModel>(finish_architecture(config, tokenizer), source);
}

std::int64_t count_steps(const TrainConfig& config, std::int64_t batches_per_epoch) {
  if (config.max_steps > 0) return config.max_steps;
  const double steps = config.num_epochs * static_cast<double>(batches_per_epoch) /
                       static_cast<double>(config.gradient_accumulation_steps);
  return std::max<std::int64_t>(1, std::llround(steps));
}

// NaN without the sign that one may carry.
std::string printable(double value) { return std::isnan(value) ? "NaN" : fmt::format("{}", value); }

}  // namespace

struct Trainer::State {
  TrainConfig config;
  TrainerHooks hooks;
  Device device{};
  std::optional<kernels::MatmulPrecisionScope> precision;  // while the trainer lives
  std::optional<CheckpointDirectory> checkpoints;
  std::optional<SavedCheckpoint> resumed_from;
  std::optional<text::Tokenizer> tokenizer;
  TrainingData data;
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<data::DataLoader> loader;
  std::unique_ptr<TrainOptimizer> optimizer;
  std::unique_ptr<GradientStep> gradients;
  std::deque<StepRecord> running;  // steps whose figures have not been looked at, earliest first
  Stopwatch since_step;            // the one before ended
  std::unique_ptr<RunHistory> history;
  Progress progress;
  std::int64_t total_steps = 0;
  double flops_per_token = 0;
  std::string last_checkpoint;
  std::unique_ptr<HostCopies> copies;
  std::optional<std::pair<std::int64_t, Checkpoint>> marked;  // step and state, not on the host yet
  std::future<std::string> saving;  // of the checkpoint that is being written, if any: its path

  void open();
  void restore(const LanguageCheckpoint& checkpoint);
  void start_step();
  StepRecord end_step();
  void take_figures(StepRecord& record);
  // On a device that works beside the host, the next step is in its queue before this one's figures are read.
  std::size_t most_running() const { return backend(device).capabilities().streams ? 1 : 0; }
  double mean_loss(std::int64_t max_batches);
  void report(const StepRecord& record);
  void report(const EvalRecord& record);
  bool evaluate_and_sample();
  void save();
  void end_copying();
  void end_saving();
  std::map<std::string, Tensor> on_host(std::map<std::string, Tensor> tensors);
  bool saved() const {
    return saving.valid() && saving.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  std::string model_directory() const { return config.output_dir + "/model"; }
  void write_model(const std::string& path);
  bool due(std::int64_t every) const { return every > 0 && progress.step % every == 0; }
};

void Trainer::State::open() {
  config.validate();
  precision.emplace(kernels::parse_matmul_precision(config.matmul_precision));
  if (config.threads > 0) set_num_threads(static_cast<int>(config.threads));
  set_detect_anomaly(config.detect_anomaly);
  device = config.training_device();
  checkpoints.emplace(config.output_dir);
  if (config.resume_from_checkpoint) resumed_from = checkpoints->newest();
  INGOT_CHECK(
      config.resume_from_checkpoint || checkpoints->list().empty(),
      InvalidConfig("output_dir", config.output_dir + " holds checkpoints of another run; continue it with "
                                                      "--resume, or choose another directory"));
  check_data_paths(config);  // all of them, before a tokenizer is trained on some
  std::optional<LanguageCheckpoint> checkpoint;
  if (resumed_from.has_value()) checkpoint = load_checkpoint(*resumed_from);
  tokenizer = choose_tokenizer(config, resumed_from);
  data = prepare_data(config, *tokenizer);
  model = make_model(config, *tokenizer, checkpoint.has_value() ? &*checkpoint : nullptr, device);
  INGOT_CHECK(model->config.vocab_size >= data.train_documents.store->max_token() + 1,
              InvalidConfig("tokenizer",
                            fmt::format("its ids reach {}, but the model's vocabulary has {}",
                                        data.train_documents.store->max_token(), model->config.vocab_size)));
  model->recompute = config.recompute;
  if (config.router_aux_loss_coef >= 0) model->config.router_aux_loss_coef = config.router_aux_loss_coef;
  const MemoryPlan plan = plan_memory(config, model->config);
  check_memory(plan, config,
               backend(device).memory_info().free + plan.parameters);  // which are there already
  flops_per_token = model->config.training_flops_per_token(config.sequence_len);
  loader = std::make_unique<data::DataLoader>(
      data.train, data::LoaderOptions{.batch_size = config.per_device_train_batch_size,
                                      .seed = config.seed,
                                      .document_mask = config.document_mask});
  total_steps = count_steps(config, loader->batches_per_epoch());
  optimizer = std::make_unique<TrainOptimizer>(*model, config, total_steps);
  if (checkpoint.has_value()) restore(*checkpoint);
  gradients = std::make_unique<GradientStep>(*model, *optimizer, config);
  copies = std::make_unique<HostCopies>(device);
  make_directories(config.output_dir);
  const AtomicDirectory probe(
      model_directory());  // refused now, not after the run, where it cannot be written
  history = std::make_unique<RunHistory>(config.output_dir + "/metrics.jsonl", progress.step);
}

void Trainer::State::restore(const LanguageCheckpoint& checkpoint) {
  progress = Progress::from_json(checkpoint.state, resumed_from->state_path());
  optimizer->load_state(checkpoint.optimizer, checkpoint.ema);
  loader->restore(progress.data);
  last_checkpoint = resumed_from->path();
}

// Puts a step into the device's queue. The CPU has done it then.
void Trainer::State::start_step() {
  std::vector<data::Batch> batches;
  for (std::int64_t i = 0; i < config.gradient_accumulation_steps; ++i) batches.push_back(*loader->next());
  StepRecord record{.step = progress.step + 1, .learning_rate = optimizer->learning_rate(progress.step)};
  gradients->run(batches, progress.step);
  if (most_running() == 0) take_figures(record);  // then a NaN does not reach the weights
  end_copying();
  optimizer->apply(progress.step, gradients->grad_scale());
  fault_point("train.step");
  progress.data = batches.back().next;
  ++progress.step;
  running.push_back(record);
}

// The record of the earliest step that runs, when it has ended.
StepRecord Trainer::State::end_step() {
  StepRecord record = running.front();
  running.pop_front();
  if (most_running() > 0) take_figures(record);
  record.seconds = since_step.seconds();
  since_step.restart();
  record.tokens_per_second = static_cast<double>(config.tokens_per_step()) / record.seconds;
  record.flops = record.tokens_per_second * flops_per_token;
  record.epoch = static_cast<double>(record.step * config.gradient_accumulation_steps) /
                 static_cast<double>(loader->batches_per_epoch());
  return record;
}

// Waits for the gradients of the step, if they are not there yet.
void Trainer::State::take_figures(StepRecord& record) {
  const StepFigures figures = gradients->take();
  record.loss = figures.loss;
  record.grad_norm = figures.grad_norm;
  const char* what = !std::isfinite(figures.loss)        ? "the loss"
                     : !std::isfinite(figures.grad_norm) ? "the gradient's norm"
                                                         : nullptr;
  if (what == nullptr) return;
  end_saving();  // so that what is whole can be named
  const double value = std::isfinite(figures.loss) ? figures.grad_norm : figures.loss;
  const std::string whole =
      last_checkpoint.empty() ? "" : last_checkpoint + " is whole; resume from it with a ";
  throw NonFinite(
      fmt::format("training step {}", record.step),
      fmt::format("{} is {}; {}lower learning_rate, or find the operation with detect_anomaly: true", what,
                  printable(value), whole.empty() ? "take a " : whole));
}

double Trainer::State::mean_loss(std::int64_t max_batches) {
  const NoGrad no_grad;
  data::DataLoader batches(data.validation, {.batch_size = config.per_device_train_batch_size,
                                             .seed = config.seed,
                                             .shuffle = false,
                                             .repeat = false,
                                             .prefetch = 1,
                                             .document_mask = config.document_mask});
  DeviceBatches sent(1, config.per_device_train_batch_size, config.sequence_len, device);
  std::vector<std::pair<Tensor, double>> losses;  // each with its targets; read when all are under way
  for (std::int64_t i = 0; max_batches == 0 || i < max_batches; ++i) {
    const std::optional<data::Batch> batch = batches.next();
    if (!batch.has_value()) break;
    if (batch->valid_targets == 0) continue;
    sent.send(std::span(&*batch, 1));
    losses.emplace_back(model->loss(sent.input(0), sent.targets(0)), batch->valid_targets);
  }
  double sum = 0, targets = 0;
  for (const auto& [loss, count] : losses) {
    sum += loss.item() * count;
    targets += count;
  }
  return targets == 0 ? 0.0 : sum / targets;
}

void Trainer::State::report(const StepRecord& record) {
  history->add(record);
  if (!config.reports_to("log")) return;
  log_training_step(record.step, total_steps, record.loss, record.learning_rate);
  const MemoryTracker& memory = backend(device).memory();
  log_memory_usage(memory.allocated(), memory.peak(), fmt::format("after step {}", record.step));
}

void Trainer::State::report(const EvalRecord& record) {
  history->add(record);
  if (config.reports_to("log"))
    log_metrics({{"step", record.step}, {record.ema ? "ema_eval_loss" : "eval_loss", record.loss}});
  if (hooks.on_eval) hooks.on_eval(record);
}

// Returns whether the run should go on.
bool Trainer::State::evaluate_and_sample() {
  end_copying();  // averages take the weights' place for a while
  if (data.validation != nullptr) {
    const EvalRecord record{.step = progress.step, .loss = mean_loss(config.eval_batches)};
    report(record);
    progress.note_evaluation(record.loss);
    if (optimizer->has_ema()) {
      const EvalRecord averaged{progress.step,
                                optimizer->with_ema([&] { return mean_loss(config.eval_batches); }), true};
      report(averaged);
    }
  }
  if (hooks.sample) {
    const NoGrad no_grad;
    for (const std::string& prompt : config.sample_prompts) {
      const SampleRecord record{progress.step, prompt, hooks.sample(*model, *tokenizer, prompt)};
      history->add(record);
      if (hooks.on_sample) hooks.on_sample(record);
    }
  }
  history->flush();
  return config.early_stopping_patience == 0 ||
         progress.evaluations_since_best < config.early_stopping_patience;
}

// A device that works beside the host goes on: its state is copied while it computes the next gradients, and
// a thread writes it.
void Trainer::State::save() {
  end_saving();
  if (checkpoints->path(progress.step) == last_checkpoint) return;
  history->flush();
  copies->mark();
  marked.emplace(progress.step, Checkpoint{{{kModelFile, parameter_map(*model)},
                                            {"optimizer", optimizer->state()},
                                            {"ema", optimizer->ema_state()}},
                                           progress.to_json(config, total_steps)});
  if (most_running() == 0) end_saving();
}

// Before anything changes what a checkpoint is to hold.
void Trainer::State::end_copying() {
  if (!marked.has_value()) return;
  const std::int64_t step = marked->first;
  Checkpoint checkpoint = std::move(marked->second);
  marked.reset();
  for (auto& [file, tensors] : checkpoint.tensors) tensors = on_host(std::move(tensors));
  const auto when = most_running() > 0 ? std::launch::async : std::launch::deferred;
  saving = std::async(when, [this, step, checkpoint = std::move(checkpoint)] {
    return save_checkpoint(*checkpoints, step, checkpoint, model->config, *tokenizer);
  });
}

// Waits until the checkpoint is whole, and throws what went wrong with it.
void Trainer::State::end_saving() {
  end_copying();
  if (!saving.valid()) return;
  last_checkpoint = saving.get();
  checkpoints->prune(config.save_total_limit, progress.best_step);
  if (hooks.on_save) hooks.on_save(last_checkpoint);
}

// What the tensors held at the last mark.
std::map<std::string, Tensor> Trainer::State::on_host(std::map<std::string, Tensor> tensors) {
  std::vector<Tensor> values;
  values.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) values.push_back(tensor);
  const std::vector<Tensor> copied = copies->copy(values);
  std::size_t next = 0;
  for (auto& [name, tensor] : tensors) tensor = copied[next++];
  return tensors;
}

void Trainer::State::write_model(const std::string& path) {
  AtomicDirectory directory(path);
  const auto ema = optimizer->ema_weights();
  copies->mark();
  write_language_model(directory.path(), model->config, on_host(ema.empty() ? parameter_map(*model) : ema));
  tokenizer->save_directory(directory.path());
  directory.commit();
}

Trainer::Trainer(TrainConfig config, TrainerHooks hooks) : state_(std::make_unique<State>()) {
  state_->config = std::move(config);
  state_->hooks = std::move(hooks);
  state_->open();
}

Trainer::~Trainer() = default;

TrainResult Trainer::run() {
  State& s = *state_;
  const Stopwatch watch;
  TrainResult result;
  bool evaluated = false;
  s.since_step.restart();
  const auto end_steps = [&](std::size_t but) {
    while (s.running.size() > but) {
      const StepRecord record = s.end_step();
      result.train_loss = record.loss;
      if (record.step % s.config.logging_steps == 0) s.report(record);
      if (s.hooks.on_step) s.hooks.on_step(record, s.total_steps);
    }
  };
  while (s.progress.step < s.total_steps) {
    s.start_step();
    evaluated = s.due(s.config.eval_steps);
    end_steps(evaluated || s.due(s.config.save_steps) ? 0 : s.most_running());
    const bool go_on = !evaluated || s.evaluate_and_sample();
    if (s.saved()) s.end_saving();
    if (s.due(s.config.save_steps)) s.save();
    if (!go_on) result.end = TrainEnd::stopped_early;
    if (s.hooks.should_stop && s.hooks.should_stop()) result.end = TrainEnd::stopped;
    if (s.config.max_seconds > 0 && watch.seconds() > s.config.max_seconds)
      result.end = TrainEnd::out_of_time;
    if (result.end != TrainEnd::finished) break;
    if (s.running.empty()) s.since_step.restart();  // an evaluation is not a part of the next step
  }
  end_steps(0);
  if (!evaluated && result.end != TrainEnd::stopped) s.evaluate_and_sample();
  s.save();
  s.end_saving();
  result.steps = s.progress.step;
  result.last_checkpoint = s.last_checkpoint;
  if (!s.history->evaluations().empty()) result.validation_loss = s.history->evaluations().back().loss;
  if (std::isfinite(s.progress.best_loss)) result.best_validation_loss = s.progress.best_loss;
  if (result.end != TrainEnd::stopped) {
    result.model_directory = s.model_directory();
    s.write_model(result.model_directory);
  }
  s.history->flush();
  return result;
}

const TrainConfig& Trainer::config() const { return state_->config; }
Device Trainer::device() const { return state_->device; }
LanguageModel& Trainer::model() { return *state_->model; }
const text::Tokenizer& Trainer::tokenizer() const { return *state_->tokenizer; }
const RunHistory& Trainer::history() const { return *state_->history; }
std::int64_t Trainer::total_steps() const { return state_->total_steps; }
std::int64_t Trainer::step() const { return state_->progress.step; }

std::optional<double> Trainer::evaluate() {
  if (state_->data.validation == nullptr) return std::nullopt;
  return state_->mean_loss(state_->config.eval_batches);
}

std::optional<double> Trainer::bigram_baseline() const {
  if (state_->data.validation == nullptr) return std::nullopt;
  return bigram_loss(state_->data.train_documents, state_->data.validation_documents,
                     state_->model->config.vocab_size);
}

LanguageConfig planned_architecture(const TrainConfig& config) {
  LanguageConfig model;
  if (config.from_scratch) {
    model = config.architecture;
    if (model.vocab_size == 0) model.vocab_size = config.vocab_size;
  } else {
    const ModelCheckpoint checkpoint = open_checkpoint(config.model);
    model = LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path);
  }
  model.dtype = config.dtype;
  model.validate();
  return model;
}

}  // namespace ingot
