#include "ingot/infer/beam_job.h"

#include <utility>

namespace ingot::infer {

BeamJob::BeamJob(Scheduler& scheduler, Request request, const BeamOptions& options, OnEnd on_end)
    : scheduler_(scheduler),
      on_end_(std::move(on_end)),
      search_(std::move(request), options, scheduler.engine()) {}

std::shared_ptr<BeamJob> BeamJob::start(Scheduler& scheduler, Request request, const BeamOptions& options,
                                        OnEnd on_end) {
  scheduler.engine().hold_adapter(request);  // for all tokens the same, whatever is unloaded meanwhile
  std::shared_ptr<BeamJob> job(new BeamJob(scheduler, std::move(request), options, std::move(on_end)));
  const std::lock_guard lock(job->mutex_);
  job->submit();
  return job;
}

void BeamJob::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (const Scheduler::Id id : jobs_) scheduler_.cancel(id);
}

// The next token of each text. What the scheduler does not take fails the search once the others have ended.
void BeamJob::submit() {
  std::vector<Request> requests = search_.requests();
  jobs_.clear();
  results_.assign(requests.size(), {});
  left_ = 0;
  try {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      jobs_.push_back(scheduler_.submit(
          {.request = std::move(requests[i]),
           .on_end = [self = shared_from_this(), i](JobEnd end) { self->take(i, std::move(end)); },
           .continues = search_.begun()}));
      ++left_;
    }
  } catch (...) {
    if (left_ == 0) throw;
    ended_early_ = true;
    end_ = {.reason = StopReason::failed, .texts = {}, .error = std::current_exception()};
    for (const Scheduler::Id id : jobs_) scheduler_.cancel(id);
  }
}

void BeamJob::take(std::size_t beam, JobEnd end) {
  OnEnd on_end;
  {
    const std::lock_guard lock(mutex_);
    results_[beam] = std::move(end.generation);
    const bool token = end.error == nullptr && end.reason == StopReason::max_tokens;
    if (!token && !ended_early_) {
      ended_early_ = true;
      end_ = {.reason = end.reason, .texts = {}, .error = end.error};
      for (const Scheduler::Id id : jobs_) scheduler_.cancel(id);
    }
    if (--left_ > 0) return;
    if (!ended_early_ && cancelled_) {
      ended_early_ = true;
      end_.reason = StopReason::cancelled;
    }
    try {
      if (!ended_early_) search_.take(results_);
      if (!ended_early_ && !search_.finished()) {
        submit();
        return;
      }
      if (!ended_early_) end_.texts = search_.texts();
    } catch (...) {
      end_ = {.reason = StopReason::failed, .texts = {}, .error = std::current_exception()};
    }
    on_end = std::exchange(on_end_, {});  // it may hold who holds this job
  }
  on_end(std::move(end_));
}

}  // namespace ingot::infer
