#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ingot/infer/beam_search.h"
#include "ingot/infer/scheduler.h"

namespace ingot::infer {

/// How a beam search of a scheduler ended.
struct BeamEnd {
  StopReason reason = StopReason::max_tokens;  ///< failed, cancelled, timeout: there are no texts
  std::vector<BeamText> texts{};
  std::exception_ptr error{};  ///< where the reason is `failed`
};

/// A beam search whose tokens a scheduler computes, beside all others' requests. `on_end` is called once, by
/// the scheduler's thread. Safe to use from any thread.
class BeamJob : public std::enable_shared_from_this<BeamJob> {
 public:
  using OnEnd = std::function<void(BeamEnd)>;

  /// Throws as BeamSearch and Scheduler::submit() do. The scheduler has to outlive the job.
  static std::shared_ptr<BeamJob> start(Scheduler& scheduler, Request request, const BeamOptions& options,
                                        OnEnd on_end);
  /// As Scheduler::cancel().
  void cancel();

 private:
  BeamJob(Scheduler& scheduler, Request request, const BeamOptions& options, OnEnd on_end);
  void submit();
  void take(std::size_t beam, JobEnd end);

  Scheduler& scheduler_;
  std::mutex mutex_;  // of what follows
  OnEnd on_end_;
  BeamSearch search_;
  BeamEnd end_;
  std::vector<Scheduler::Id> jobs_;  // of this token
  std::vector<Generation> results_;
  std::size_t left_ = 0;  // of them
  bool ended_early_ = false, cancelled_ = false;
};

}  // namespace ingot::infer
