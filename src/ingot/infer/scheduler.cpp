#include "ingot/infer/scheduler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/log.h"
#include "ingot/base/parallel_threads.h"
#include "ingot/base/trace.h"

namespace ingot::infer {

QueueFull::QueueFull(std::int64_t waiting)
    : Error(fmt::format("{} requests are waiting already, and no more are taken; try again later", waiting)) {
}

Scheduler::Scheduler(Engine& engine, text::Tokenizer tokenizer, const SchedulerOptions& options)
    : engine_(engine),
      tokenizer_(std::move(tokenizer)),
      options_(options),
      stats_(engine.stats()),
      thread_([this] { work(); }) {
  release_threads();  // of the caller, who has loaded the model: the scheduler's thread computes from here on
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Scheduler::Id Scheduler::submit(Job job) {
  engine_.hold_adapter(job.request);
  TextStream stream(tokenizer_, job.stop, job.special, job.include_stop);
  const std::lock_guard lock(mutex_);
  const std::int64_t waiting = stats_.waiting + static_cast<std::int64_t>(arrived_.size());
  INGOT_CHECK(job.continues || waiting < options_.max_waiting, QueueFull(waiting));
  arrived_.push_back({.id = ++last_id_, .job = std::move(job), .stream = std::move(stream), .piece = {}});
  ++unfinished_;
  changed_.notify_all();
  return last_id_;
}

void Scheduler::cancel(Id id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
  changed_.notify_all();
}

void Scheduler::settle_adapters() {
  const std::lock_guard lock(mutex_);
  unsettled_ = true;
  changed_.notify_all();
}

bool Scheduler::wait_until_idle(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [this] { return unfinished_ == 0; });
}

EngineStats Scheduler::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Scheduler::work() {
  trace::name_thread("scheduler");
  while (take_orders()) {
    if (!runs_.empty()) step();
  }
  for (Run& run : runs_) engine_.cancel(*run.sequence);
  end_finished();
}

// Waits until there is something to do; false: the end.
bool Scheduler::take_orders() {
  engine_.settle_adapters();  // those of requests that have just ended
  std::list<Run> arrived;
  std::vector<Id> cancelled;
  {
    std::unique_lock lock(mutex_);
    const auto ready = [this] {
      return stopping_ || unsettled_ || !arrived_.empty() || !cancelled_.empty() || !runs_.empty();
    };
    if (!ready()) release_threads();  // another model's loops may need the processors
    changed_.wait(lock, ready);
    unsettled_ = false;
    arrived.swap(arrived_);
    cancelled.swap(cancelled_);
    // Until publish() those that arrived wait with the engine.
    stats_.waiting += static_cast<std::int64_t>(arrived.size());
  }
  arrived.remove_if([this](Run& run) { return !start(run); });
  runs_.splice(runs_.end(), arrived);
  for (const Id id : cancelled) {
    const auto found = std::ranges::find(runs_, id, &Run::id);
    if (found != runs_.end()) engine_.cancel(*found->sequence);
  }
  end_finished();
  const std::lock_guard lock(mutex_);
  return !stopping_;
}

// What passes Engine::check() may fail here still, as a grammar that can begin in too many ways does.
bool Scheduler::start(Run& run) {
  run.job.request.on_token = [this, &run](std::int32_t token) { return take_token(run, token); };
  try {
    run.sequence = engine_.start(std::move(run.job.request));
    return true;
  } catch (...) {
    tell(run, {.reason = StopReason::failed, .generation = {}, .error = std::current_exception()});
    return false;
  }
}

// False ends the sequence.
bool Scheduler::take_token(Run& run, std::int32_t token) {
  run.piece.tokens.push_back(token);
  const std::vector<DrawnLogprob>& logprobs = run.sequence->result().logprobs;
  if (!logprobs.empty()) run.piece.logprobs.push_back(logprobs.back());
  run.piece.text = run.stream.push(token);
  if (!run.piece.text.empty() && run.job.on_text) run.job.on_text(std::exchange(run.piece, {}));
  return !run.stream.stopped();
}

void Scheduler::step() {
  try {
    engine_.step();
  } catch (...) {
    // What no single request is to blame for, such as a lack of memory, has hit all.
    if (std::ranges::none_of(runs_, [](const Run& run) { return run.sequence->finished(); }))
      fail_all(std::current_exception());
  }
  end_finished();
}

void Scheduler::fail_all(const std::exception_ptr& error) {
  for (Run& run : runs_) {
    engine_.cancel(*run.sequence);
    run.failure = error;
  }
}

void Scheduler::end_finished() {
  publish();  // whoever hears of an end finds it counted
  for (auto run = runs_.begin(); run != runs_.end();) {
    if (!run->sequence->finished()) {
      ++run;
      continue;
    }
    end(*run);
    run = runs_.erase(run);
  }
}

void Scheduler::end(Run& run) {
  const Sequence& sequence = *run.sequence;
  JobEnd end{.reason = sequence.result().reason,
             .generation = sequence.result(),
             .error = run.failure != nullptr ? run.failure : sequence.error()};
  if (end.error != nullptr) end.reason = StopReason::failed;
  try {
    run.piece.text = run.stream.finish(sequence.result().stop_token);
    if (run.stream.stopped()) end.reason = StopReason::stop_string;
    const bool rest = !run.piece.text.empty() || !run.piece.tokens.empty();
    if (rest && run.job.on_text) run.job.on_text(std::move(run.piece));
  } catch (...) {
    end.reason = StopReason::failed;
    end.error = std::current_exception();
  }
  tell(run, std::move(end));
}

// Whatever a request's own function throws, the others go on.
void Scheduler::tell(Run& run, JobEnd end) {
  try {
    if (run.job.on_end) run.job.on_end(std::move(end));
  } catch (const std::exception& error) {
    log(LogLevel::error, "ingot::infer",
        fmt::format("the end of a request could not be told: {}", error.what()));
  }
  const std::lock_guard lock(mutex_);
  if (--unfinished_ == 0) changed_.notify_all();
}

void Scheduler::publish() {
  EngineStats stats = engine_.stats();
  const std::lock_guard lock(mutex_);
  stats_ = stats;
}

}  // namespace ingot::infer
