#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/text_stream.h"

namespace ingot::infer {

/// More requests wait already than are allowed to.
class QueueFull : public Error {
 public:
  explicit QueueFull(std::int64_t waiting);
  std::string_view kind() const noexcept override { return "queue_full"; }
};

/// Text that is certain, and the tokens since the last piece.
struct TextPiece {
  std::string text;
  std::vector<std::int32_t> tokens;
  std::vector<DrawnLogprob> logprobs;  ///< of each token, where the request asks for them
};

/// How a request ended. The last piece of text comes before.
struct JobEnd {
  StopReason reason = StopReason::max_tokens;
  Generation generation;
  std::exception_ptr error{};  ///< where the reason is `failed`
};

/// A request with what gets its text. The functions are called by the scheduler's thread, which all requests
/// wait for: they hand on and return.
struct Job {
  Request request;  ///< on_token is the scheduler's
  std::vector<std::string> stop{};
  bool include_stop = false;  ///< the text has what ended it: the stop string, or the stop token
  SpecialText special{};
  std::function<void(TextPiece)> on_text{};
  std::function<void(JobEnd)> on_end{};
  bool continues = false;  ///< what was taken already goes on: it is not refused for max_waiting
};

struct SchedulerOptions {
  std::int64_t max_waiting = 256;  ///< requests that wait for their first step at most
};

/// Runs an engine on a thread of its own for requests from any thread.
class Scheduler {
 public:
  using Id = std::uint64_t;

  /// Both have to outlive the scheduler; nobody else may use the engine.
  Scheduler(Engine& engine, text::Tokenizer tokenizer, const SchedulerOptions& options = {});
  /// Cancels what is left.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Throws as Engine::check() does, InvalidConfig for an empty stop string, QueueFull.
  Id submit(Job job);
  /// Ends a request before the next step; on_end comes with StopReason::cancelled. Nothing happens where it
  /// has ended.
  void cancel(Id id);
  /// Has the engine take adapters on and off now (Engine::settle_adapters), where it has nothing else to do.
  void settle_adapters();
  /// Whether this is the thread that runs the requests and calls back. It may not wait for them.
  bool is_own_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  /// False: there are requests still when the time is over.
  bool wait_until_idle(std::chrono::milliseconds most);

  /// Of the time after the last step.
  EngineStats stats() const;
  const Engine& engine() const { return engine_; }

 private:
  struct Run {
    Id id = 0;
    Job job;
    TextStream stream;
    TextPiece piece;
    std::shared_ptr<Sequence> sequence{};
    std::exception_ptr failure{};  // of the step, not of the sequence
  };

  void work();
  bool take_orders();
  bool start(Run& run);
  void tell(Run& run, JobEnd end);
  bool take_token(Run& run, std::int32_t token);
  void step();
  void end_finished();
  void end(Run& run);
  void fail_all(const std::exception_ptr& error);
  void publish();

  Engine& engine_;
  const text::Tokenizer tokenizer_;
  const SchedulerOptions options_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::list<Run> arrived_;
  std::vector<Id> cancelled_;
  EngineStats stats_;
  Id last_id_ = 0;
  std::size_t unfinished_ = 0;
  bool stopping_ = false, unsettled_ = false;

  std::list<Run> runs_;  // of the thread alone
  std::thread thread_;
};

}  // namespace ingot::infer
