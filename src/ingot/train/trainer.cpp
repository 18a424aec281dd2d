#include "ingot/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <future>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/scope.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/transfer.h"
#include "ingot/dist/communicator.h"
#include "ingot/ops/view.h"
#include "ingot/train/layer_norms.h"
#include "ingot/train/peak_memory.h"
#include "ingot/train/step_origins.h"
#include "ingot/train/step_queue.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kFlushSeconds = 1;

Device device_of(TrainTask& task) { return parameters(task.model()).front()->value.device(); }

// NaN without the sign that one may have.
std::string printable(double value) { return std::isnan(value) ? "NaN" : fmt::format("{}", value); }

}  // namespace

std::string_view name(TrainEnd end) {
  switch (end) {
    case TrainEnd::finished:
      return "finished";
    case TrainEnd::stopped:
      return "stopped";
    case TrainEnd::stopped_early:
      return "stopped early";
    case TrainEnd::out_of_time:
      return "out of time";
    case TrainEnd::loss_too_high:
      return "loss too high";
  }
  return "";
}

struct Trainer::State {
  TrainTask& task;
  TrainerOptions options;
  RunInfo info;
  TrainerHooks hooks;
  StepQueue queue;
  std::optional<LossWatch> watch = {};         // where the loss is watched
  std::optional<HostCopies> copies = {};       // where there are checkpoints: it keeps memory
  std::optional<LayerNorms> layer_norms = {};  // where a reporter watches them

  TrainProgress progress = {};
  RunHistory history = {};
  std::deque<StepRecord> running = {};  // of the steps in the queue, earliest first
  double train_loss = 0;
  std::int64_t evaluated_step = -1, saved_step = -1;
  std::string last_checkpoint = {};
  bool begun = false, evaluation_stopped = false;
  std::optional<TrainEnd> stop = {};  // a reason that is not the task's
  Stopwatch since_begin = {}, since_step = {}, since_save = {}, since_flush = {};
  std::optional<std::pair<std::int64_t, Checkpoint>> marked = {};  // step and state, not on the host yet
  std::future<std::string> saving = {};  // of the checkpoint that is being written, if any: its path

  void begin();
  void watch_layers();
  std::optional<TrainEnd> end() const;
  // What was learned is saved before a refusal is passed on.
  template <class F>
  auto saving_first(F&& f) {
    try {
      return f();
    } catch (const StepRefused& refusal) {
      end_steps(0);
      if (!options.checkpoints.has_value() || progress.step == 0) throw;
      save();
      end_saving();
      throw StepRefused(fmt::format("{}; what was learned until then is in {}, from which --resume goes on",
                                    refusal.what(), last_checkpoint));
    }
  }
  StepWork gradients();
  Tensor with_layer_norms(const Tensor& metrics) const;
  // Keeps what anomaly detection found for `ingot why`.
  template <class F>
  void keeping_anomaly(F&& f) {
    try {
      f();
    } catch (const AnomalyFound& found) {
      if (info.output_dir.empty()) throw;
      write_step_origins(info.output_dir, origins_of(found, progress.step + 1));
      throw in_lines(AnomalyFound(
          found.where, fmt::format("{}\n  (ingot why {} tells more)", found.problem, info.output_dir),
          found.origin));
    }
  }
  void start_step();
  void end_steps(std::int64_t but);
  void read(StepRecord& record);
  void watch_loss(const StepRecord& record);
  std::string where_to_go_on();
  // By a run that went on from the checkpoint of a stopped evaluation, as this one does.
  template <class Record, class Member>
  static bool is_told(const std::vector<Record>& records, Member Record::*which, const Record& record) {
    return std::ranges::any_of(records, [&](const Record& told) {
      return told.step == record.step && told.*which == record.*which;
    });
  }
  void evaluate();
  void evaluate_weights(bool averages, bool decides, const StopCheck& stops);
  void note_memory();
  bool is_first() const { return hooks.ranks == nullptr || hooks.ranks->is_first(); }
  bool should_stop() const { return any_process(hooks.should_stop && hooks.should_stop()); }
  bool any_process(bool stops) const { return hooks.ranks != nullptr ? hooks.ranks->any(stops) : stops; }
  Checkpoint checkpoint();
  void save();
  void end_copying();
  void end_saving();
  bool is_diverged() const { return watch.has_value() && watch->ended_by_threshold(); }
  // Or is about to be: then the checkpoints from before are what one goes on from.
  bool is_diverging() const { return watch.has_value() && watch->is_above(); }
  void flush();

  template <class F>
  void tell(F&& f) {
    for (const auto& reporter : hooks.reporters) f(*reporter);
  }
  bool due(std::int64_t every) const { return every > 0 && progress.step % every == 0; }
  bool save_is_due() const {
    return options.checkpoints.has_value() &&
           (due(options.save_steps) ||
            // Ranks look at clocks of their own, and write together.
            (options.save_seconds.has_value() && any_process(since_save.seconds() >= *options.save_seconds)));
  }
  // Ranks that write together do so between two steps, in whose communication they would else be. Offloaded
  // state is written from where it lies, before the next step changes it.
  bool writes_beside() const {
    return queue.most_running() > 0 && !options.checkpoints->is_shared() && !task.optimizer().is_offloaded();
  }
  bool is_saved() const {
    return saving.valid() && saving.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
};

void Trainer::State::begin() {
  if (std::exchange(begun, true)) return;
  info.first_step = progress.step;
  info.metadata.describe_process(info.device);
  info.metadata.set_configuration(info.config);
  watch_layers();
  if (!info.output_dir.empty()) {
    make_directories(info.output_dir);
    forget_anomaly(info.output_dir);
    write_file_atomically(info.output_dir + "/" + kRunMetadataFile, info.metadata.to_json() + "\n");
  }
  tell([&](Reporter& r) { r.begin(info); });
  since_begin.restart();
  since_step.restart();
}

// A rank that steps a part of the parameters has no whole gradients.
void Trainer::State::watch_layers() {
  const bool watched =
      std::ranges::any_of(hooks.reporters, [](const auto& reporter) { return reporter->watches_layers(); });
  if (!watched || task.optimizer().shard() != nullptr) return;
  layer_norms.emplace(task.optimizer().parameters());
  info.layers = layer_norms->names();
}

std::optional<TrainEnd> Trainer::State::end() const {
  if (stop.has_value()) return stop;
  if (progress.step >= options.total_steps) return TrainEnd::finished;
  if (options.early_stopping_patience > 0 && progress.best.since >= options.early_stopping_patience)
    return TrainEnd::stopped_early;
  if (is_diverged()) return TrainEnd::loss_too_high;
  if (watch.has_value() && watch->ended_by_plateau()) return TrainEnd::stopped_early;
  return std::nullopt;
}

StepWork Trainer::State::gradients() {
  const std::int64_t step = progress.step + 1;
  const StopCheck stops = [this] { return should_stop(); };
  if (info.output_dir.empty() || options.record_origins <= 0 || step % options.record_origins != 0)
    return task.gradients(progress.step, stops);
  ListOrigins list;
  StepWork work = task.gradients(progress.step, stops);
  write_step_origins(info.output_dir, {.step = step, .anomaly = false, .ops = list.take()});
  return work;
}

// Behind the task's own.
Tensor Trainer::State::with_layer_norms(const Tensor& metrics) const {
  if (!layer_norms.has_value()) return metrics;
  const NoGrad no_grad;
  return concat(std::vector{reshape(metrics, {metrics.numel()}),
                            layer_norms->measure([this](std::span<Parameter* const> some) {
                              return task.optimizer().norm_of(some);
                            })});
}

// Puts a step into the device's queue. The CPU has done it then.
void Trainer::State::start_step() {
  const Scope scope(ScopeKind::step, "step", progress.step + 1);
  if (watch.has_value()) task.optimizer().set_lr_factor(watch->lr_factor(progress.step + 1));
  StepRecord record{.step = progress.step + 1,
                    .learning_rate = task.optimizer().learning_rate(progress.step)};
  if (task.gradients_change_state()) end_copying();
  const StepWork work = saving_first([&] { return gradients(); });
  queue.push(with_layer_norms(work.metrics));
  if (queue.most_running() == 0) read(record);  // then a NaN does not reach the weights
  end_copying();
  {
    const Scope optimizer(ScopeKind::work, "optimizer");
    task.optimizer().apply(progress.step, work.grad_scale);
  }
  fault_point("train.step");
  ++progress.step;
  running.push_back(record);
}

// Waits for the gradients of the earliest step, if they are not there yet.
void Trainer::State::read(StepRecord& record) {
  const std::span<const float> metrics = queue.pop();
  const std::span<const float> norms = metrics.last(info.layers.size());
  task.read(metrics.first(metrics.size() - norms.size()), record);
  record.layer_norms.assign(norms.begin(), norms.end());
  const char* what = !std::isfinite(record.loss)        ? "the loss"
                     : !std::isfinite(record.grad_norm) ? "the gradient's norm"
                                                        : nullptr;
  if (what == nullptr) return;
  end_saving();  // so that what is whole can be named
  const double value = std::isfinite(record.loss) ? record.grad_norm : record.loss;
  const std::string whole =
      last_checkpoint.empty() ? "" : last_checkpoint + " is whole; resume from it, but ";
  throw NonFinite(fmt::format("training step {}", record.step),
                  fmt::format("{} is {}; {}{}", what, printable(value), whole, task.divergence_advice()));
}

// Reports the steps that have ended, all but the last few.
void Trainer::State::end_steps(std::int64_t but) {
  while (std::ssize(running) > but) {
    StepRecord record = running.front();
    running.pop_front();
    if (queue.most_running() > 0) read(record);
    record.seconds = since_step.seconds();
    since_step.restart();
    const StepSize size = task.step_size();
    record.tokens_per_second = size.tokens / record.seconds;
    record.flops = size.flops / record.seconds;
    record.epoch = size.epochs * static_cast<double>(record.step);
    train_loss = record.loss;
    if (record.step % info.logging_steps == 0) {
      history.add(record);
      tell([&](Reporter& r) { r.step(record); });
    }
    tell([&](Reporter& r) { r.progress(record); });
    if (watch.has_value()) watch_loss(record);
  }
  if (since_flush.seconds() >= kFlushSeconds) flush();
}

// All ranks see the same loss and norm, and decide alike.
void Trainer::State::watch_loss(const StepRecord& record) {
  for (EventRecord& event : watch->note(record)) {
    if (event.kind == "loss_too_high") event.text += where_to_go_on();
    history.add(event);
    tell([&](Reporter& r) { r.event(event); });
    if (is_first()) log(LogLevel::warn, "ingot::train", fmt::format("step {}: {}", event.step, event.text));
  }
}

// Behind what ended a run whose loss is too high.
std::string Trainer::State::where_to_go_on() {
  if (!options.checkpoints.has_value()) return "";
  end_saving();  // so that all are there
  const std::int64_t rise = watch->rose_at();
  std::string before;
  for (const CheckpointEntry& entry : options.checkpoints->list())
    if (entry.step < rise) before = entry.path;
  if (before.empty()) return fmt::format("; no checkpoint is of a step before step {}", rise);
  return fmt::format(
      "; {} is the last checkpoint before step {}. --resume takes the newest: to go on from "
      "this one, remove those that are newer",
      before, rise);
}

void Trainer::State::flush() {
  tell([](Reporter& r) { r.flush(); });
  since_flush.restart();
}

void Trainer::State::evaluate() {
  const Scope scope(ScopeKind::work, "evaluation");
  end_copying();  // averages are swapped in for the weights for a while
  evaluated_step = progress.step;
  evaluation_stopped = false;
  TrainOptimizer& optimizer = task.optimizer();
  const bool averages = optimizer.has_ema(), averages_decide = averages && options.averages_decide;
  const StopCheck stops = [this] { return should_stop(); };
  const BestEvaluation best = progress.best;
  try {
    if (!averages_decide) evaluate_weights(false, true, stops);
    if (averages) optimizer.with_ema([&] { evaluate_weights(true, averages_decide, stops); });
  } catch (const WorkStopped&) {
    progress.best = best;  // the run that goes on notes that of the weights once more
    evaluation_stopped = true;
    stop = TrainEnd::stopped;
    return;
  }
  const NoGrad no_grad;
  const std::vector<SampleRecord> told = history.samples();  // a prompt may be there twice
  for (const SampleRecord& record : task.samples(progress.step)) {
    if (is_told(told, &SampleRecord::prompt, record)) continue;
    history.add(record);
    tell([&](Reporter& r) { r.sample(record); });
  }
  note_memory();
  flush();
}

void Trainer::State::note_memory() {
  MemoryRecord record = peak_memory(info.device, hooks.ranks);
  record.step = progress.step;
  history.add(record);
  tell([&](Reporter& r) { r.memory(record); });
}

void Trainer::State::evaluate_weights(bool averages, bool decides, const StopCheck& stops) {
  const std::optional<double> loss = task.evaluate(stops);
  if (!loss.has_value()) return;
  EvalRecord record{.step = progress.step, .loss = *loss, .ema = averages};
  task.read_evaluation(record);
  if (decides) record.best = progress.best.note(record.step, *loss, options.ties_are_best);
  if (!is_told(history.evaluations(), &EvalRecord::ema, record)) {
    history.add(record);
    tell([&](Reporter& r) { r.evaluation(record); });
  }
  if (decides) task.evaluated(record);
}

Checkpoint Trainer::State::checkpoint() {
  Checkpoint checkpoint;
  task.save(checkpoint);
  auto& files = task.optimizer().shard() != nullptr ? checkpoint.shards : checkpoint.tensors;
  files["optimizer"] = task.optimizer().state();
  if (task.optimizer().has_ema()) files["ema"] = task.optimizer().ema_state();
  Json json{{"format", options.checkpoint_format},
            {"version", 1},
            {"step", progress.step},
            {"total_steps", options.total_steps},
            {"best_step", progress.best.step},
            {"evaluations_since_best", progress.best.since}};
  if (std::isfinite(progress.best.loss)) json["best_loss"] = progress.best.loss;
  if (evaluation_stopped) json["evaluation_stopped"] = true;
  if (watch.has_value()) json["loss_watch"] = parse_json<Json>(watch->state(), "loss_watch");
  json["config"] = parse_json<Json>(task.settings(), "the settings");
  json.update(parse_json<Json>(task.state(), "the task's state"));
  checkpoint.state = dump_json(json, 2) + "\n";
  checkpoint.metadata = info.metadata.to_json() + "\n";
  return checkpoint;
}

// A device that works beside the host goes on: its state is copied while it computes the next gradients, and
// a thread writes it.
void Trainer::State::save() {
  end_saving();
  if (saved_step == progress.step) return;
  flush();
  copies->mark();
  marked.emplace(progress.step, checkpoint());
  saved_step = progress.step;
  since_save.restart();
  if (!writes_beside()) end_saving();
}

// Before anything changes what a checkpoint is to hold.
void Trainer::State::end_copying() {
  if (!marked.has_value()) return;
  const Scope scope(ScopeKind::file, "copy checkpoint", marked->first);
  const std::int64_t step = marked->first;
  Checkpoint checkpoint = std::move(marked->second);
  marked.reset();
  for (auto* files : {&checkpoint.tensors, &checkpoint.shards}) {
    for (auto& [file, tensors] : *files) {
      std::vector<Tensor> values;
      for (const auto& [name, tensor] : tensors) values.push_back(tensor);
      const std::vector<Tensor> copied = copies->copy(values);
      std::size_t next = 0;
      for (auto& [name, tensor] : tensors) tensor = copied[next++];
    }
  }
  const auto when = writes_beside() ? std::launch::async : std::launch::deferred;
  saving = std::async(when, [this, step, checkpoint = std::move(checkpoint)] {
    const Scope scope(ScopeKind::file, "write checkpoint", step);
    return task.write(*options.checkpoints, step, checkpoint);
  });
}

// Waits until the checkpoint is whole, and throws what went wrong with it.
void Trainer::State::end_saving() {
  end_copying();
  if (!saving.valid()) return;
  last_checkpoint = saving.get();
  if (!is_diverging()) options.checkpoints->prune(options.save_total_limit, progress.best.step);
  tell([&](Reporter& r) { r.saved(last_checkpoint); });
}

Trainer::Trainer(TrainTask& task, TrainerOptions options, RunInfo info, TrainerHooks hooks) {
  const Device device = device_of(task);
  info.device = device;
  info.total_steps = options.total_steps;
  if (info.parameters == 0) info.parameters = count_parameters(task.model());
  state_.reset(new State{.task = task,
                         .options = std::move(options),
                         .info = std::move(info),
                         .hooks = std::move(hooks),
                         .queue = StepQueue(device)});
  if (state_->options.checkpoints.has_value()) state_->copies.emplace(device);
  if (state_->options.loss_watch.is_on()) state_->watch.emplace(state_->options.loss_watch);
}

Trainer::~Trainer() = default;

void Trainer::resume(const SavedCheckpoint& saved) {
  State& s = *state_;
  const auto json = parse_json_or_discard<Json>(saved.state());
  const std::string path = saved.state_path();
  INGOT_CHECK(json.is_object() && json.value("format", "") == s.options.checkpoint_format,
              FormatError(path, -1, "format",
                          fmt::format("is not '{}': another program, or another kind of training, wrote this "
                                      "checkpoint",
                                      s.options.checkpoint_format)));
  INGOT_CHECK(
      json.value("version", 0) == 1,
      FormatError(path, -1, "version", fmt::format("is {}, this Ingot reads 1", json.value("version", 0))));
  try {
    check_same_settings(dump_json(json.value("config", Json::object())), s.task.settings(),
                        s.task.earlier_settings(), saved.path());
    s.progress.step = json.value("step", s.progress.step);
    BestEvaluation& best = s.progress.best;
    best.step = json.value("best_step", best.step);
    best.loss = json.value("best_loss", best.loss);
    best.since = json.value("evaluations_since_best", best.since);
    s.evaluation_stopped = json.value("evaluation_stopped", false);
    if (s.watch.has_value() && json.contains("loss_watch")) s.watch->restore(dump_json(json["loss_watch"]));
    s.task.restore(saved, s.progress);
  } catch (const Json::exception& error) {
    throw FormatError(path, -1, "state", error.what());
  }
  s.task.optimizer().load_state(assemble_state(saved.shards("optimizer")),
                                assemble_state(saved.shards("ema")));
  INGOT_CHECK(s.progress.step <= s.options.total_steps,
              InvalidConfig("max_steps", fmt::format("asks for {}, but {} holds a run of {} already; "
                                                     "ask for more, or begin anew elsewhere",
                                                     counted(s.options.total_steps, "step"), saved.path(),
                                                     s.progress.step)));
  if (s.due(s.options.eval_steps) && !s.evaluation_stopped) s.evaluated_step = s.progress.step;
  s.saved_step = s.progress.step;
  s.last_checkpoint = saved.path();
  if (!s.info.output_dir.empty()) s.history = read_history(s.info.output_dir, s.progress.step);
  if (!s.history.steps().empty()) s.train_loss = s.history.steps().back().loss;
  if (s.progress.step == s.options.total_steps)
    log(LogLevel::info, "ingot::train",
        fmt::format("{} holds all of the run's {}: nothing is left to do", saved.path(),
                    counted(s.options.total_steps, "step")));
}

bool Trainer::step() {
  State& s = *state_;
  s.begin();
  if (s.end().has_value()) return false;
  if (s.evaluation_stopped) {
    s.saving_first([&] { s.evaluate(); });
    if (s.end().has_value()) return false;
  }
  try {
    s.keeping_anomaly([&] { s.start_step(); });
  } catch (const WorkStopped&) {
    s.stop = TrainEnd::stopped;
    return false;
  }
  const bool evaluates = s.due(s.options.eval_steps), saves = s.save_is_due();
  s.end_steps(evaluates || saves ? 0 : s.queue.most_running());
  if (evaluates) s.saving_first([&] { s.evaluate(); });
  if (s.is_saved()) s.end_saving();
  if (saves) s.save();
  if (s.stop.has_value()) return false;  // the evaluation was stopped
  if (s.should_stop())
    s.stop = TrainEnd::stopped;
  else if (s.options.max_seconds > 0 && s.any_process(s.since_begin.seconds() > s.options.max_seconds))
    s.stop = TrainEnd::out_of_time;
  if (s.running.empty()) s.since_step.restart();  // an evaluation is not a part of the next step
  return !s.end().has_value();
}

std::string Trainer::save() {
  State& s = *state_;
  INGOT_CHECK(s.options.checkpoints.has_value(),
              InvalidConfig("checkpoints", "names no directory, so there is nowhere to save to"));
  s.begin();
  s.end_steps(0);
  s.save();
  s.end_saving();
  return s.last_checkpoint;
}

void Trainer::plan(std::int64_t total_steps, std::int64_t eval_steps) {
  State& s = *state_;
  s.options.total_steps = s.info.total_steps = std::max(total_steps, s.progress.step);
  s.options.eval_steps = eval_steps;
}

TrainEnd Trainer::finish() {
  State& s = *state_;
  s.begin();
  TrainEnd end = s.end().value_or(TrainEnd::stopped);
  s.end_steps(0);
  if (s.evaluated_step != s.progress.step && end != TrainEnd::stopped) {
    s.saving_first([&] { s.evaluate(); });
    end = s.stop.value_or(end);
  }
  if (s.options.checkpoints.has_value() && (s.options.save_at_end || end == TrainEnd::stopped)) s.save();
  s.end_saving();
  s.note_memory();
  s.flush();
  s.tell([&](Reporter& r) { r.finish(s.history); });
  return end;
}

TrainEnd Trainer::run() {
  while (step()) {
  }
  return finish();
}

const TrainProgress& Trainer::progress() const { return state_->progress; }
const RunHistory& Trainer::history() const { return state_->history; }
double Trainer::train_loss() const { return state_->train_loss; }
const std::string& Trainer::last_checkpoint() const { return state_->last_checkpoint; }
RunInfo& Trainer::info() { return state_->info; }

}  // namespace ingot
