// A model that generates text for any number of Python threads: its scheduler puts all requests into one
// batch.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "generate_options.h"
#include "held.h"
#include "one_at_a_time.h"
#include <nanobind/stl/unique_ptr.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/chat_prompt.h"
#include "ingot/infer/load.h"
#include "ingot/infer/scheduler.h"
#include "ingot/infer/session.h"

namespace ingot::python {
namespace {

using infer::JobEnd;
using infer::Scheduler;
using infer::TextPiece;

// A Python function that C++ threads call and drop.
class Callback {
 public:
  explicit Callback(nb::object function) : function_(std::move(function)) {}
  void operator()() const {
    if (Py_IsInitialized() == 0) return;
    const AcquiredGil acquire;
    try {
      function_.get()();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable(function_.get());
    }
  }

 private:
  Held function_;
};

// What a request has written and nobody has taken yet.
class Stream {
 public:
  void push(TextPiece piece) {
    std::shared_ptr<Callback> ready;
    {
      const std::lock_guard lock(mutex_);
      pieces_.push_back(std::move(piece));
      ready = on_ready_;
    }
    changed_.notify_all();
    if (ready) (*ready)();
  }
  void end(JobEnd end) {
    std::shared_ptr<Callback> ready;
    {
      const std::lock_guard lock(mutex_);
      end_ = std::move(end);
      ready = std::move(on_ready_);
    }
    changed_.notify_all();
    ended_.notify_all();
    if (ready) (*ready)();
  }
  // Tokens that come faster than this are handed out together: whoever wakes for one takes a processor from
  // the model that writes the next.
  static constexpr std::chrono::milliseconds kPause{10};
  bool wait(int milliseconds) {
    std::unique_lock lock(mutex_);
    ended_.wait_until(lock, taken_ + kPause, [this] { return end_.has_value(); });
    return changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                             [this] { return !pieces_.empty() || end_; });
  }
  // Whoever wants the whole text sleeps through its pieces, and leaves the processors to the model.
  bool wait_for_end(int milliseconds) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                           [this] { return end_.has_value(); });
  }
  std::optional<TextPiece> take() {
    const std::lock_guard lock(mutex_);
    if (pieces_.empty()) return std::nullopt;
    taken_ = std::chrono::steady_clock::now();
    TextPiece all = std::move(pieces_.front());
    pieces_.pop_front();
    for (; !pieces_.empty(); pieces_.pop_front()) {  // what has piled up is one piece
      TextPiece& next = pieces_.front();
      all.text += next.text;
      all.tokens.insert(all.tokens.end(), next.tokens.begin(), next.tokens.end());
      all.logprobs.insert(all.logprobs.end(), next.logprobs.begin(), next.logprobs.end());
    }
    return all;
  }
  // Once everything is taken. An error is handed out once: whoever gets it may hold this stream, too.
  std::optional<JobEnd> ended() {
    const std::lock_guard lock(mutex_);
    if (!pieces_.empty() || !end_) return std::nullopt;
    JobEnd end = *end_;
    end_->error = nullptr;
    return end;
  }
  void call_when_ready(nb::object function) {
    auto callback = std::make_shared<Callback>(std::move(function));
    bool now = false;
    {
      const std::lock_guard lock(mutex_);
      now = !pieces_.empty() || end_;
      on_ready_ = callback;
    }
    if (now) (*callback)();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_, ended_;
  std::deque<TextPiece> pieces_;
  std::optional<JobEnd> end_;
  std::chrono::steady_clock::time_point taken_;  // of the last piece
  std::shared_ptr<Callback> on_ready_;
};

class Model;
// Whose logits processor this thread runs.
thread_local const Model* in_processor = nullptr;

class Model {
 public:
  explicit Model(const infer::SessionOptions& options)
      : session_(std::make_shared<infer::Session>(options)),
        scheduler_(std::make_shared<Scheduler>(session_->engine(), session_->tokenizer())) {}
  ~Model() {
    std::shared_ptr<Scheduler> last = take_scheduler();
    if (!is_own_thread(last.get())) {
      end(std::move(last));
      return;
    }
    // Its last user was a processor that it ran or dropped. Another thread waits for its end.
    std::thread([session = std::move(session_), last = std::move(last)]() mutable {
      last.reset();
      session.reset();
    }).detach();
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Cancels what runs.
  void close() {
    check_may_wait();
    end(take_scheduler());
  }
  // With the GIL. A call that waits for requests, from the thread that computes them, would wait for itself.
  void check_may_wait() {
    const std::lock_guard lock(mutex_);
    if (is_own_thread(scheduler_.get()))
      throw Busy("the model", "for the logits processor that calls it; only cancel() may be called there");
  }
  // Keeps others from submitting, or waits for who does. With the GIL.
  std::unique_lock<std::timed_mutex> alone() {
    check_may_wait();
    std::unique_lock lock(alone_, std::defer_lock);
    wait_interruptibly([&](int time) { return lock.try_lock_for(std::chrono::milliseconds(time)); }, [] {});
    return lock;
  }
  // Between alone() and its end.
  Scheduler::Id submit(infer::Job job) {
    if (LogitsProcessor& processor = job.request.sampling.logits_processor; processor) {
      processor = [this, process = std::move(processor)](auto logits, auto history) {
        const Model* const before = std::exchange(in_processor, this);
        struct Back {
          const Model* before;
          ~Back() { in_processor = before; }
        } const back{before};
        process(logits, history);
      };
    }
    return scheduler()->submit(std::move(job));
  }
  void cancel(Scheduler::Id id) {
    const std::lock_guard lock(mutex_);
    if (scheduler_ && getpid() == process_) scheduler_->cancel(id);
  }
  // Waits for the requests that run, and keeps new ones out: the model is one thread's at a time. With the
  // GIL.
  Tensor logits(const std::vector<std::int32_t>& tokens) {
    LastUse running{.model = *this, .scheduler = nullptr};
    const auto lock = alone();
    running.scheduler = scheduler();
    const auto idle = [&](int time) {
      return running.scheduler->wait_until_idle(std::chrono::milliseconds(time));
    };
    wait_interruptibly([&](int time) { return idle(time) || is_closed(); }, [] {});
    if (is_closed()) throw_closed();
    const ReleasedGil release;
    return infer::token_logits(session_->model(), tokens);
  }
  std::int64_t context() { return session_->engine().context(); }
  const infer::Session& session() const { return *session_; }
  const infer::ChatPrompt& chat() {
    if (!chat_) chat_.emplace(session_->tokenizer(), session_->path());
    return *chat_;
  }

 private:
  // A scheduler that close() may have left to this call.
  struct LastUse {
    Model& model;
    std::shared_ptr<Scheduler> scheduler;
    ~LastUse() { model.end(std::move(scheduler)); }
  };

  bool is_own_thread(const Scheduler* running) const {
    return in_processor == this || (running != nullptr && running->is_own_thread());
  }
  bool is_closed() {
    const std::lock_guard lock(mutex_);
    return scheduler_ == nullptr;
  }
  [[noreturn]] static void throw_closed() { throw Error("the model is closed"); }
  // In the child of a fork its thread does not exist, and nothing could wait for it.
  void end(std::shared_ptr<Scheduler> last) const {
    const ReleasedGil release;  // the scheduler's thread may be about to call Python
    if (!last || getpid() == process_) {
      last.reset();
      return;
    }
    nb::set_leak_warnings(false);
    new std::shared_ptr<Scheduler>(std::move(last));
  }
  std::shared_ptr<Scheduler> scheduler() {
    if (getpid() != process_) {
      throw Error(
          "the model was opened before a fork, and its threads are not in this process: open it here");
    }
    const std::lock_guard lock(mutex_);
    if (!scheduler_) throw_closed();
    return scheduler_;
  }
  std::shared_ptr<Scheduler> take_scheduler() {
    const std::lock_guard lock(mutex_);
    return std::move(scheduler_);
  }

  std::shared_ptr<infer::Session> session_;
  std::optional<infer::ChatPrompt> chat_;
  std::shared_ptr<Scheduler> scheduler_;  // null: closed
  std::mutex mutex_;                      // of scheduler_
  std::timed_mutex alone_;
  pid_t process_ = getpid();
};

// A request under way, as Python holds it.
struct Running {
  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
  Model* model = nullptr;
  Scheduler::Id id = 0;
  std::int64_t prompt_tokens = 0;
};

std::unique_ptr<Running> submit(Model& model, std::vector<std::int32_t> prompt, const nb::dict& given,
                                std::int64_t logprobs) {
  const infer::TextOptions options = generate_options(model.session(), given);
  auto running = std::make_unique<Running>();
  running->model = &model;
  running->prompt_tokens = static_cast<std::int64_t>(prompt.size());
  const auto alone = model.alone();
  const ReleasedGil release;
  infer::Job job{.request = model.session().request(std::move(prompt), options),
                 .stop = options.stop,
                 .include_stop = options.include_stop};
  job.request.logprobs = logprobs;
  const std::shared_ptr<Stream> stream = running->stream;
  job.on_text = [stream](TextPiece piece) { stream->push(std::move(piece)); };
  job.on_end = [stream](JobEnd end) { stream->end(std::move(end)); };
  running->id = model.submit(std::move(job));
  return running;
}

nb::object as_python(const infer::DrawnLogprob& logprob, std::int32_t id) {
  nb::list top;
  for (const infer::TokenLogprob& other : logprob.top) top.append(nb::make_tuple(other.id, other.logprob));
  return nb::make_tuple(id, logprob.logprob, top);
}

nb::object as_python(const TextPiece& piece) {
  nb::list logprobs;
  for (std::size_t i = 0; i < piece.logprobs.size(); ++i)
    logprobs.append(as_python(piece.logprobs[i], piece.tokens[i]));
  return nb::make_tuple(piece.text, piece.tokens, logprobs);
}

std::string reason_of(const JobEnd& end) {
  switch (end.reason) {
    case infer::StopReason::max_tokens:
    case infer::StopReason::context_full:
      return "length";
    case infer::StopReason::cancelled:
      return "cancelled";
    default:
      return "stop";
  }
}

// The next piece without waiting; None: nothing is there yet, or the text has ended.
nb::object poll(Running& running) {
  const std::optional<TextPiece> piece = running.stream->take();
  return piece ? as_python(*piece) : nb::none();
}

nb::object result_of(Running& running) {
  const std::optional<JobEnd> end = running.stream->ended();
  if (!end) return nb::none();
  try {
    if (end->error) std::rethrow_exception(end->error);
  } catch (const HeldError& error) {
    error.raise();
  }
  nb::dict result;
  result["finish_reason"] = reason_of(*end);
  result["cached_tokens"] = end->generation.cached_tokens;
  result["queue_seconds"] = end->generation.queue_seconds;
  result["prompt_seconds"] = end->generation.prompt_seconds;
  result["decode_seconds"] = end->generation.decode_seconds;
  return result;
}

void wait(Running& running) {
  running.model->check_may_wait();
  wait_interruptibly([&](int milliseconds) { return running.stream->wait(milliseconds); },
                     [&] { running.model->cancel(running.id); });
}

void wait_for_end(Running& running) {
  running.model->check_may_wait();
  wait_interruptibly([&](int milliseconds) { return running.stream->wait_for_end(milliseconds); },
                     [&] { running.model->cancel(running.id); });
}

infer::SessionOptions session_options(const std::string& path, const std::string& format,
                                      const std::string& device,
                                      const std::vector<std::pair<std::string, float>>& adapters,
                                      std::int64_t context, const std::optional<std::string>& kv_cache,
                                      std::int64_t max_running, std::size_t kv_memory, bool prefix_cache) {
  infer::SessionOptions options{.model = hub::resolve_model(path), .format = format, .device = device};
  options.engine = {
      .context = context, .max_running = max_running, .kv_memory = kv_memory, .prefix_cache = prefix_cache};
  if (kv_cache) options.engine.kv_cache = parse_dtype(*kv_cache);
  for (const auto& [adapter, weight] : adapters) options.adapters.push_back({adapter, weight});
  return options;
}

}  // namespace

void bind_generation(nb::module_& module) {
  nb::class_<Running>(module, "_Running")
      .def("wait", wait, "Until a piece is there or the text has ended.")
      .def("wait_for_end", wait_for_end)
      .def("poll", poll)
      .def("result", result_of, "None before the end.")
      .def(
          "cancel", [](Running& self) { self.model->cancel(self.id); }, ReleaseGil())
      .def(
          "call_when_ready", [](Running& self, nb::object f) { self.stream->call_when_ready(std::move(f)); },
          "function"_a)
      .def_ro("prompt_tokens", &Running::prompt_tokens);
  nb::class_<Model>(module, "_Model", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Model* self, const std::string& path, const std::string& format, const std::string& device,
             const std::vector<std::pair<std::string, float>>& adapters, std::int64_t context,
             const std::optional<std::string>& kv_cache, std::int64_t max_running, std::size_t kv_memory,
             bool prefix_cache) {
            const ReleasedGil release;
            new (self) Model(session_options(path, format, device, adapters, context, kv_cache, max_running,
                                             kv_memory, prefix_cache));
          },
          "path"_a, "format"_a, "device"_a, "adapters"_a, "context"_a, "kv_cache"_a.none(), "max_running"_a,
          "kv_memory"_a, "prefix_cache"_a)
      .def("submit", submit, "prompt"_a, "options"_a, "logprobs"_a, nb::keep_alive<0, 1>())
      .def(
          "encode",
          [](const Model& self, const std::string& prompt) { return self.session().encode(prompt); },
          "prompt"_a, ReleaseGil())
      .def(
          "render",
          [](Model& self, const std::string& messages, const std::string& tools, const std::string& variables,
             bool add_generation_prompt) {
            return self.chat().render({.messages = messages,
                                       .tools = tools,
                                       .variables = variables,
                                       .add_generation_prompt = add_generation_prompt});
          },
          "messages"_a, "tools"_a, "variables"_a, "add_generation_prompt"_a)
      .def("logits", &Model::logits, "tokens"_a)
      .def("close", &Model::close)
      .def_prop_ro("tokenizer", [](const Model& self) { return self.session().tokenizer(); })
      .def_prop_ro("context", &Model::context)
      .def_prop_ro("model_type", [](const Model& self) { return self.session().model().config.model_type; })
      .def_prop_ro("device", [](const Model& self) { return to_string(self.session().model().device()); });
}

}  // namespace ingot::python
