#include "ingot/c_api/scheduler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "ingot/c_api/inner/generation.h"
#include "ingot/infer/scheduler.h"

using namespace ingot;
using namespace ingot::c_api;

namespace ingot::c_api {

class SchedulerCore;

namespace {

// A callback of a scheduler that this thread runs, and those it runs it in: it must not wait for theirs.
class InCallback {
 public:
  explicit InCallback(const SchedulerCore& of) : of_(&of), outer_(innermost_) { innermost_ = this; }
  ~InCallback() { innermost_ = outer_; }
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;

  static bool is_of(const SchedulerCore& core) {
    const InCallback* each = innermost_;
    while (each != nullptr && each->of_ != &core) each = each->outer_;
    return each != nullptr;
  }

 private:
  static thread_local const InCallback* innermost_;
  const SchedulerCore* of_;
  const InCallback* outer_;
};

thread_local const InCallback* InCallback::innermost_ = nullptr;

void check_may_wait(const char* what, const SchedulerCore& core) {
  if (InCallback::is_of(core))
    throw Busy(std::string(what) + " inside a callback of the same scheduler would wait for itself");
}

}  // namespace

/// What a scheduler's handle and its requests share. Requests outlive the scheduler; the thread that closes
/// it ends it.
class SchedulerCore {
 public:
  SchedulerCore(const IngotSession* session, const infer::SchedulerOptions& options)
      : session_(session),
        scheduler_(std::make_unique<infer::Scheduler>(session_->session.engine(),
                                                      session_->session.tokenizer(), options)) {}

  const IngotSession& session() const { return *session_; }

  std::uint64_t submit(infer::Job job) {
    const std::lock_guard lock(mutex_);
    if (scheduler_ == nullptr) throw InvalidHandle("the scheduler is closed");
    return scheduler_->submit(std::move(job));
  }
  void cancel(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    if (scheduler_ != nullptr) scheduler_->cancel(id);
  }
  infer::EngineStats stats() const {
    const std::lock_guard lock(mutex_);
    return scheduler_ == nullptr ? infer::EngineStats{} : scheduler_->stats();
  }
  void shut_down() {
    std::unique_ptr<infer::Scheduler> ending;
    {
      const std::lock_guard lock(mutex_);
      ending = std::move(scheduler_);
    }
  }

 private:
  const Use<IngotSession> session_;
  mutable std::mutex mutex_;
  std::unique_ptr<infer::Scheduler> scheduler_;
};

}  // namespace ingot::c_api

struct IngotScheduler : Object {
  static constexpr const char* kName = "scheduler";
  IngotScheduler(const IngotSession* session, const infer::SchedulerOptions& options)
      : core(std::make_shared<SchedulerCore>(session, options)) {}
  const std::shared_ptr<SchedulerCore> core;
};

struct IngotRequest : Object {
  static constexpr const char* kName = "request";
  std::shared_ptr<SchedulerCore> core;
  std::uint64_t id = 0;
  std::int64_t prompt_tokens = 0;
  IngotRequestCallbacks callbacks{};

  std::mutex mutex;  // of what follows
  std::condition_variable ended;
  std::string text, unread;
  infer::JobEnd end;
  std::atomic<bool> done = false;
};

namespace ingot::c_api {
namespace {

void take_text(IngotRequest& request, const infer::TextPiece& piece) {
  if (piece.text.empty()) return;
  {
    const std::lock_guard lock(request.mutex);
    request.text += piece.text;
    request.unread += piece.text;
  }
  if (request.callbacks.on_text == nullptr) return;
  const InCallback mark(*request.core);
  if (request.callbacks.on_text(piece.text.c_str(), piece.text.size(), request.callbacks.user) != 0)
    request.core->cancel(request.id);
}

void take_end(IngotRequest& request, infer::JobEnd end) {
  const std::string reason(end.reason == infer::StopReason::failed ? "failed" : name(end.reason));
  {
    const std::lock_guard lock(request.mutex);
    request.end = std::move(end);
    request.done = true;
  }
  request.ended.notify_all();
  if (request.callbacks.on_end == nullptr) return;
  const InCallback mark(*request.core);
  request.callbacks.on_end(reason.c_str(), request.callbacks.user);
}

/// The id is known once submit() returns, and callbacks may come before that: they wait for it here.
struct Submission {
  std::mutex mutex;
};

template <class MakePrompt>
IngotStatus submit(const char* function, IngotScheduler* handle, const IngotGenerateOptions* options,
                   const IngotRequestCallbacks* callbacks, IngotRequest** out, const MakePrompt& prompt) {
  return call(function, [&] {
    auto& made = result(out, "out");
    const std::shared_ptr<SchedulerCore> core = object_of(handle)->core;
    const infer::Session& session = core->session().session;
    const infer::TextOptions how = text_options(session, options);
    const auto request = std::make_shared<IngotRequest>();
    if (callbacks != nullptr) request->callbacks = *callbacks;
    infer::Job job{.request = session.request(prompt(core->session()), how),
                   .stop = how.stop,
                   .include_stop = how.include_stop};
    if (auto& processor = job.request.sampling.logits_processor; processor) {
      processor = [process = std::move(processor), of = core.get()](auto logits, auto history) {
        const InCallback mark(*of);
        process(logits, history);
      };
    }
    request->prompt_tokens = static_cast<std::int64_t>(job.request.prompt.size());
    const auto starting = std::make_shared<Submission>();
    job.on_text = [request, starting](const infer::TextPiece& piece) {
      { const std::lock_guard wait(starting->mutex); }
      take_text(*request, piece);
    };
    job.on_end = [request, starting](infer::JobEnd end) {
      { const std::lock_guard wait(starting->mutex); }
      take_end(*request, std::move(end));
    };
    {
      const std::lock_guard lock(starting->mutex);
      request->id = core->submit(std::move(job));
      request->core = core;
    }
    made = open_handle(request);
  });
}

}  // namespace
}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_scheduler_options(IngotSchedulerOptions* options, size_t size) {
  return call(__func__, [&] {
    IngotSchedulerOptions defaults{};
    defaults.max_waiting = infer::SchedulerOptions{}.max_waiting;
    fill_options(options, size, defaults);
  });
}

IngotStatus ingot_scheduler_open(IngotSession* session, const IngotSchedulerOptions* options,
                                 IngotScheduler** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    IngotSchedulerOptions defaults{};
    defaults.max_waiting = infer::SchedulerOptions{}.max_waiting;
    const auto o = options_or(options, defaults);
    if (o.max_waiting < 1) throw InvalidArgument("options.max_waiting", "has to be positive");
    made = open_handle(
        std::make_shared<IngotScheduler>(session, infer::SchedulerOptions{.max_waiting = o.max_waiting}));
  });
}

IngotStatus ingot_scheduler_close(IngotScheduler* scheduler) {
  return call(__func__, [&] {
    if (scheduler == nullptr) return;
    const auto object = object_of(scheduler);
    check_may_wait("ingot_scheduler_close", *object->core);
    close_handle(scheduler);
    object->core->shut_down();
  });
}

IngotStatus ingot_scheduler_submit(IngotScheduler* scheduler, const char* prompt,
                                   const IngotGenerateOptions* options,
                                   const IngotRequestCallbacks* callbacks, IngotRequest** out) {
  return submit(__func__, scheduler, options, callbacks, out,
                [&](const IngotSession& s) { return s.session.encode(string_arg(prompt, "prompt")); });
}

IngotStatus ingot_scheduler_submit_ids(IngotScheduler* scheduler, const int32_t* ids, size_t count,
                                       const IngotGenerateOptions* options,
                                       const IngotRequestCallbacks* callbacks, IngotRequest** out) {
  return submit(__func__, scheduler, options, callbacks, out, [&](const IngotSession&) {
    const auto given = array_arg(ids, count, "ids");
    return std::vector<std::int32_t>(given.begin(), given.end());
  });
}

IngotStatus ingot_scheduler_submit_chat(IngotScheduler* scheduler, const char* messages, const char* tools,
                                        const IngotGenerateOptions* options,
                                        const IngotRequestCallbacks* callbacks, IngotRequest** out) {
  return submit(__func__, scheduler, options, callbacks, out,
                [&](const IngotSession& s) { return s.chat_ids(messages, tools); });
}

IngotStatus ingot_request_poll(IngotRequest* request, char** text, size_t* bytes, int32_t* done) {
  return call(__func__, [&] {
    auto& piece = result(text, "text");
    auto& finished = result(done, "done");
    if (bytes != nullptr) *bytes = 0;
    const auto r = object_of(request);
    const std::lock_guard lock(r->mutex);
    piece = give_text(r->unread);
    if (bytes != nullptr) *bytes = r->unread.size();
    r->unread.clear();
    finished = r->done ? 1 : 0;
  });
}

IngotStatus ingot_request_wait(IngotRequest* request, int64_t timeout_ms, IngotGeneration** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const auto r = object_of(request);
    if (!r->done && timeout_ms != 0) check_may_wait("ingot_request_wait", *r->core);
    std::unique_lock lock(r->mutex);
    const auto is_done = [&] { return r->done.load(); };
    constexpr std::int64_t kYear = 365LL * 24 * 3600 * 1000;  // what is longer would overflow the clock
    if (timeout_ms < 0) {
      r->ended.wait(lock, is_done);
    } else if (!r->ended.wait_for(lock, std::chrono::milliseconds(std::min(timeout_ms, kYear)), is_done)) {
      return;
    }
    if (r->end.error != nullptr) std::rethrow_exception(r->end.error);
    infer::WrittenText written{
        .prompt = {}, .text = r->text, .prompt_tokens = r->prompt_tokens, .generation = r->end.generation};
    written.generation.reason = r->end.reason;
    made = open_handle(std::make_shared<IngotGeneration>(std::move(written)));
  });
}

IngotStatus ingot_request_cancel(IngotRequest* request) {
  return call(__func__, [&] {
    const auto r = object_of(request);
    r->core->cancel(r->id);
  });
}

IngotStatus ingot_request_close(IngotRequest* request) {
  return call(__func__, [&] {
    if (request == nullptr) return;
    const auto r = object_of(request);
    close_handle(request);
    if (!r->done) r->core->cancel(r->id);
  });
}

IngotStatus ingot_scheduler_stats(const IngotScheduler* scheduler, IngotSchedulerStats* stats, size_t size) {
  return call(__func__, [&] {
    const infer::EngineStats now = object_of(scheduler)->core->stats();
    const IngotSchedulerStats values{
        .running = now.running, .waiting = now.waiting, .preemptions = now.preemptions};
    fill(stats, size, values, "stats");
  });
}

}  // extern "C"
