// A model that generates text for any number of Python threads: its scheduler puts all requests into one
// batch.
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "bindings.h"
#include <fmt/format.h>
#include <nanobind/stl/unique_ptr.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
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
  ~Callback() {
    if (Py_IsInitialized() == 0) {
      function_.release();  // the interpreter is gone
      return;
    }
    const nb::gil_scoped_acquire acquire;
    function_.reset();
  }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  void operator()() const {
    if (Py_IsInitialized() == 0) return;
    const nb::gil_scoped_acquire acquire;
    try {
      function_();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable(function_);
    }
  }

 private:
  nb::object function_;
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
    if (ready) (*ready)();
  }
  bool wait(int milliseconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                             [this] { return !pieces_.empty() || end_; });
  }
  std::optional<TextPiece> take() {
    const std::lock_guard lock(mutex_);
    if (pieces_.empty()) return std::nullopt;
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
  // Once everything is taken.
  std::optional<JobEnd> ended() {
    const std::lock_guard lock(mutex_);
    return pieces_.empty() ? end_ : std::nullopt;
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
  std::condition_variable changed_;
  std::deque<TextPiece> pieces_;
  std::optional<JobEnd> end_;
  std::shared_ptr<Callback> on_ready_;
};

class Model {
 public:
  explicit Model(const infer::SessionOptions& options)
      : session_(options), scheduler_(std::make_unique<Scheduler>(session_.engine(), session_.tokenizer())) {}
  ~Model() {
    const nb::gil_scoped_release release;  // the scheduler's thread may be about to call Python
    scheduler_.reset();
  }

  Scheduler& scheduler() {
    if (getpid() != process_) {
      throw Error(
          "the model was opened before a fork, and its threads are not in this process: open it here");
    }
    if (!scheduler_) throw Error("the model is closed");
    return *scheduler_;
  }
  void close() {
    const nb::gil_scoped_release release;
    scheduler_.reset();
  }
  Scheduler::Id submit(infer::Job job) {
    const std::lock_guard lock(alone_);
    return scheduler().submit(std::move(job));
  }
  // Waits for the requests that run, and keeps new ones out: the model is one thread's at a time.
  Tensor logits(const std::vector<std::int32_t>& tokens) {
    const std::lock_guard lock(alone_);
    while (!scheduler().wait_until_idle(std::chrono::minutes(1))) {
    }
    return infer::token_logits(session_.model(), tokens);
  }
  const infer::Session& session() const { return session_; }
  const infer::ChatPrompt& chat() {
    if (!chat_) chat_.emplace(session_.tokenizer(), session_.path());
    return *chat_;
  }

 private:
  infer::Session session_;
  std::optional<infer::ChatPrompt> chat_;
  std::unique_ptr<Scheduler> scheduler_;
  std::mutex alone_;
  pid_t process_ = getpid();
};

using Set = std::function<void(infer::TextOptions&, nb::handle)>;

template <class T>
Set text_option(T infer::TextOptions::*member) {
  return [member](infer::TextOptions& options, nb::handle value) { options.*member = nb::cast<T>(value); };
}
template <class T>
Set sampling_option(T SamplingOptions::*member) {
  return [member](infer::TextOptions& options, nb::handle value) {
    options.sampling.*member = nb::cast<T>(value);
  };
}

// The options of generate(), by the names of the command line, vLLM and transformers.
const std::map<std::string, Set>& generation_options() {
  static const std::map<std::string, Set> table = {
      {"max_tokens", text_option(&infer::TextOptions::max_tokens)},
      {"max_new_tokens", text_option(&infer::TextOptions::max_tokens)},
      {"stop",
       [](infer::TextOptions& o, nb::handle v) {
         o.stop = nb::isinstance<nb::str>(v) ? std::vector{nb::cast<std::string>(v)}
                                             : nb::cast<std::vector<std::string>>(v);
       }},
      {"bad_words", text_option(&infer::TextOptions::bad_words)},
      {"ignore_eos", text_option(&infer::TextOptions::ignore_end_tokens)},
      {"speculate", text_option(&infer::TextOptions::speculate)},
      {"temperature", sampling_option(&SamplingOptions::temperature)},
      {"top_k", sampling_option(&SamplingOptions::top_k)},
      {"top_p", sampling_option(&SamplingOptions::top_p)},
      {"min_p", sampling_option(&SamplingOptions::min_p)},
      {"typical_p", sampling_option(&SamplingOptions::typical_p)},
      {"top_n_sigma", sampling_option(&SamplingOptions::top_n_sigma)},
      {"xtc_probability", sampling_option(&SamplingOptions::xtc_probability)},
      {"xtc_threshold", sampling_option(&SamplingOptions::xtc_threshold)},
      {"mirostat", sampling_option(&SamplingOptions::mirostat)},
      {"mirostat_tau", sampling_option(&SamplingOptions::mirostat_tau)},
      {"mirostat_eta", sampling_option(&SamplingOptions::mirostat_eta)},
      {"repetition_penalty", sampling_option(&SamplingOptions::repetition_penalty)},
      {"presence_penalty", sampling_option(&SamplingOptions::presence_penalty)},
      {"frequency_penalty", sampling_option(&SamplingOptions::frequency_penalty)},
      {"no_repeat_ngram_size", sampling_option(&SamplingOptions::no_repeat_ngram_size)},
      {"min_tokens", sampling_option(&SamplingOptions::min_tokens)},
      {"seed", sampling_option(&SamplingOptions::seed)},
      {"logit_bias",
       [](infer::TextOptions& o, nb::handle v) {
         for (const auto& [id, bias] : nb::cast<std::map<std::int32_t, float>>(v))
           o.sampling.logit_bias.emplace_back(id, bias);
       }},
  };
  return table;
}

infer::TextOptions read_options(const infer::Session& session, const nb::dict& given) {
  infer::TextOptions options = session.options();
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (value.is_none()) continue;
    const auto found = generation_options().find(name);
    if (found == generation_options().end()) {
      std::vector<std::string> names;
      for (const auto& [known, set] : generation_options()) names.push_back(known);
      throw InvalidConfig(name, "is no option of generate()" + did_you_mean(name, names));
    }
    try {
      found->second(options, value);
    } catch (const nb::cast_error&) {
      throw InvalidConfig(name, "does not take " + nb::cast<std::string>(nb::repr(value)));
    }
  }
  options.sampling.end_tokens.assign(session.end_tokens().begin(), session.end_tokens().end());
  return options;
}

// A request under way, as Python holds it.
struct Running {
  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
  Model* model = nullptr;
  Scheduler::Id id = 0;
  std::int64_t prompt_tokens = 0;
};

std::unique_ptr<Running> submit(Model& model, std::vector<std::int32_t> prompt, const nb::dict& given,
                                std::int64_t logprobs) {
  const infer::TextOptions options = read_options(model.session(), given);
  auto running = std::make_unique<Running>();
  running->model = &model;
  running->prompt_tokens = static_cast<std::int64_t>(prompt.size());
  const nb::gil_scoped_release release;
  infer::Job job{.request = model.session().request(std::move(prompt), options), .stop = options.stop};
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
  if (end->error) std::rethrow_exception(end->error);
  nb::dict result;
  result["finish_reason"] = reason_of(*end);
  result["cached_tokens"] = end->generation.cached_tokens;
  result["queue_seconds"] = end->generation.queue_seconds;
  result["prompt_seconds"] = end->generation.prompt_seconds;
  result["decode_seconds"] = end->generation.decode_seconds;
  return result;
}

void wait(Running& running) {
  wait_interruptibly([&](int milliseconds) { return running.stream->wait(milliseconds); },
                     [&] { running.model->scheduler().cancel(running.id); });
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
      .def("poll", poll)
      .def("result", result_of, "None before the end.")
      .def(
          "cancel", [](Running& self) { self.model->scheduler().cancel(self.id); }, ReleaseGil())
      .def(
          "call_when_ready", [](Running& self, nb::object f) { self.stream->call_when_ready(std::move(f)); },
          "function"_a)
      .def_ro("prompt_tokens", &Running::prompt_tokens);
  nb::class_<Model>(module, "_Model")
      .def(
          "__init__",
          [](Model* self, const std::string& path, const std::string& format, const std::string& device,
             const std::vector<std::pair<std::string, float>>& adapters, std::int64_t context,
             const std::optional<std::string>& kv_cache, std::int64_t max_running, std::size_t kv_memory,
             bool prefix_cache) {
            const nb::gil_scoped_release release;
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
      .def("logits", &Model::logits, "tokens"_a, ReleaseGil())
      .def("close", &Model::close)
      .def_prop_ro("tokenizer", [](const Model& self) { return self.session().tokenizer(); })
      .def_prop_ro("context", [](Model& self) { return self.scheduler().engine().context(); })
      .def_prop_ro("model_type", [](const Model& self) { return self.session().model().config.model_type; })
      .def_prop_ro("device", [](const Model& self) { return to_string(self.session().model().device()); });
}

}  // namespace ingot::python
