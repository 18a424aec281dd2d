#include "ingot/serve/answer.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/random_seed.h"
#include "ingot/grammar/time_limit.h"
#include "ingot/infer/beam_job.h"
#include "ingot/serve/api.h"

namespace ingot::serve {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The shorter of what the server and the client say; 0: neither says anything.
double seconds_for(const ApiContext& context, const GenerationParams& params) {
  const double most = context.request_seconds;
  return params.timeout && (most == 0 || *params.timeout < most) ? *params.timeout : most;
}

// One request of a client on its way: kept alive by the jobs that it waits for.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  Answer(const ApiContext& context, std::shared_ptr<Exchange> exchange, const ModelLease& model,
         const GenerationParams& params, std::unique_ptr<AnswerFormat> format)
      : exchange_(std::move(exchange)),
        lease_(model),
        model_(*model),
        metrics_(context.metrics.of(model->name())),
        timeline_(context.timeline),
        params_(params),
        access_(context.access),
        client_(context.access.client(exchange_->request())),
        seconds_(seconds_for(context, params)),
        interval_(params.stream_interval > 0 ? params.stream_interval : context.stream_interval),
        compile_time_(context.compile_time),
        format_(std::move(format)) {}

  void start(WorkQueue& compile_queue, std::vector<std::vector<std::int32_t>> prompts) {
    prompts_ = std::move(prompts);
    exchange_->on_close([self = shared_from_this()] { self->cancel_all(); });
    if (!model_.session().takes_long_to_request(params_.text)) return submit();
    compile_queue.submit([self = shared_from_this()] { self->submit_or_fail(); });
  }

 private:
  struct Choice {
    infer::Scheduler::Id job = 0;  // none of a beam search
    bool taken = false;            // by the scheduler
    std::uint64_t in_timeline = 0;
    std::int64_t prompt_tokens = 0, counted_tokens = 0;
    Clock::time_point last{};
    double first_token = 0;
    bool has_token = false, has_sent = false;
    infer::TextPiece gathered{};  // of the stream, until there is enough of it; or all, to pick the best
    infer::StopReason reason{};
  };

  // By the compile queue: there is nobody to throw to.
  void submit_or_fail() {
    try {
      if (has_gone()) return;
      if (seconds_ > 0 && seconds_since(start_) >= seconds_) throw late();
      compile_and_submit();
    } catch (...) {
      const ApiError error = to_api_error(std::current_exception());
      const std::lock_guard lock(mutex_);
      fail(error);
    }
  }

  // Waits for grammars of others, each of which may take as long: in the queue, and for what both use.
  void compile_and_submit() {
    const auto left =
        compile_time_ - std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
    if (left.count() <= 0) throw waited();
    const grammar::CompileTimeLimit limit(compile_time_, left);
    try {
      submit();
    } catch (const InvalidConfig&) {
      if (limit.waited_too_long()) throw waited();
      throw;
    }
  }

  ApiError waited() const {
    return {503,
            fmt::format("waited {:.0f} seconds for the grammars of others to be compiled; come again",
                        seconds_since(start_)),
            {},
            "queue_full"};
  }

  ApiError late() const {
    return {504, fmt::format("the answer was not complete in {} seconds", seconds_), {}, "timeout"};
  }

  void submit() {
    const infer::Request request = engine_request(model_.session(), params_);
    const std::lock_guard lock(mutex_);  // texts wait until all are taken
    if (gone_) return;
    for (const auto& prompt : prompts_) usage_.prompt_tokens += std::ssize(prompt);
    choices_.resize(prompts_.size() * tries());
    left_ = choices_.size();
    try {
      for (std::size_t i = 0; i < choices_.size(); ++i) {
        choices_[i].prompt_tokens = std::ssize(prompts_[i / tries()]);
        choices_[i].in_timeline = timeline_.add({.model = model_.name(),
                                                 .adapter = params_.adapter,
                                                 .client = client_.name,
                                                 .peer = exchange_->request().peer,
                                                 .prompt_tokens = choices_[i].prompt_tokens});
        if (params_.beams) continue;
        choices_[i].job = model_.scheduler().submit(job(
            request_of_choice(request, prompts_[i / tries()], static_cast<std::int64_t>(i % tries())), i));
        choices_[i].taken = true;
      }
      if (params_.beams) search(request);
    } catch (...) {
      for (const Choice& choice : choices_)  // nobody else will tell of those that were not taken
        if (!choice.taken) timeline_.end(choice.in_timeline, infer::StopReason::failed, {});
      left_ = 0;
      cancel();
      throw;
    }
    access_.charge(client_, usage_.prompt_tokens);
    if (params_.prompt_logprobs < 0) prompts_ = {};
    if (params_.stream) begin();
  }

  void begin() {
    begun_ = true;
    exchange_->begin(
        {.content_type = std::string(format_->stream_type()), .headers = {{"Cache-Control", "no-cache"}}});
    exchange_->write(format_->begin());
  }

  std::size_t n() const { return static_cast<std::size_t>(params_.n); }
  // Of each prompt.
  std::size_t tries() const { return static_cast<std::size_t>(params_.best_of); }
  bool picks_best() const { return tries() > n(); }

  // One for each prompt, whose texts are its choices.
  void search(const infer::Request& request) {
    for (std::size_t first = 0; first < choices_.size(); first += n()) {
      infer::Request own = job(request_of_choice(request, prompts_[first / n()], 0), first).request;
      own.on_admitted = [this, first] {
        for (std::size_t k = 0; k < n(); ++k) timeline_.admit(choices_[first + k].in_timeline);
      };
      beams_.push_back(infer::BeamJob::start(model_.scheduler(), std::move(own), *params_.beams,
                                             [self = shared_from_this(), first](infer::BeamEnd end) {
                                               self->take_texts(first, std::move(end));
                                             }));
      for (std::size_t k = 0; k < n(); ++k) choices_[first + k].taken = true;
    }
  }

  void take_texts(std::size_t first, infer::BeamEnd end) {
    try {
      put_texts(first, std::move(end));
    } catch (...) {  // else the client would wait for ever
      const std::lock_guard lock(mutex_);
      if (left_ > 0) fail(to_api_error(std::current_exception()));
    }
  }

  // A search finds fewer than n texts where the model has not so many: the others are empty.
  void put_texts(std::size_t first, infer::BeamEnd end) {
    end.texts.resize(n(), {.generation = {.reason = end.reason}});
    for (std::size_t k = 0; k < n(); ++k) {
      infer::Generation& found = end.texts[k].generation;
      infer::TextStream text(model_.tokenizer(), {}, params_.special, params_.text.include_stop);
      infer::TextPiece piece{.text = {}, .tokens = found.tokens, .logprobs = found.logprobs};
      for (const std::int32_t token : found.tokens) piece.text += text.push(token);
      piece.text += text.finish(found.stop_token);
      if (!piece.text.empty() || !piece.tokens.empty()) take(first + k, piece);
      const infer::StopReason reason = found.reason;
      take_end(first + k, {.reason = reason, .generation = std::move(found), .error = end.error});
    }
  }

  infer::Job job(infer::Request request, std::size_t choice) {
    infer::Job job{.request = std::move(request),
                   .stop = params_.text.stop,
                   .include_stop = params_.text.include_stop,
                   .special = params_.special};
    job.request.client = client_.name;
    job.request.priority = params_.priority.value_or(client_.priority);
    if (!client_.may_go_first) job.request.priority = std::max(job.request.priority, client_.priority);
    if (seconds_ > 0)
      job.request.deadline =
          start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
    job.request.on_admitted = [this, id = choices_[choice].in_timeline] { timeline_.admit(id); };
    job.on_text = [self = shared_from_this(), choice](const infer::TextPiece& piece) {
      self->take(choice, piece);
    };
    job.on_end = [self = shared_from_this(), choice](const infer::JobEnd& end) {
      self->take_end(choice, end);
    };
    return job;
  }

  void take(std::size_t i, const infer::TextPiece& piece) {
    const std::lock_guard lock(mutex_);
    Choice& choice = choices_[i];
    if (choice.has_token) metrics_.add_gap(seconds_since(choice.last));
    if (!choice.has_token) choice.first_token = seconds_since(start_);
    choice.has_token = true;
    choice.counted_tokens += std::ssize(piece.tokens);
    metrics_.add_tokens(piece.tokens.size());
    timeline_.count(choice.in_timeline, piece.tokens.size());
    choice.last = Clock::now();
    if (left_ == 0) return;
    if (picks_best() || (params_.stream && interval_ > 1)) return gather(i, piece);
    send(format_->piece(i, piece));
  }

  // The first piece goes at once; then so many tokens go together.
  void gather(std::size_t i, const infer::TextPiece& piece) {
    infer::TextPiece& gathered = choices_[i].gathered;
    gathered.text += piece.text;
    gathered.tokens.insert(gathered.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    gathered.logprobs.insert(gathered.logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
    if (picks_best()) return;
    if (!choices_[i].has_sent || std::ssize(gathered.tokens) >= interval_) send_gathered(i);
  }
  void send_gathered(std::size_t i) {
    const infer::TextPiece gathered = std::exchange(choices_[i].gathered, {});
    choices_[i].has_sent = true;
    if (!gathered.text.empty() || !gathered.tokens.empty()) send(format_->piece(i, gathered));
  }

  void take_end(std::size_t i, const infer::JobEnd& end) {
    const std::lock_guard lock(mutex_);
    const infer::Generation& made = end.generation;
    const Choice& choice = choices_[i];
    metrics_.add({.reason = end.reason,
                  .adapter = params_.adapter,
                  .prompt_tokens = choice.prompt_tokens,
                  .tokens = std::ssize(made.tokens),
                  .cached_tokens = made.cached_tokens,
                  .counted_tokens = choice.counted_tokens,
                  .drafted = made.drafted,
                  .accepted = made.accepted,
                  .queue = made.queue_seconds,
                  .first_token = choice.first_token,
                  .whole = seconds_since(start_),
                  .has_token = choice.has_token && !params_.beams});  // all tokens of beams come at the end
    timeline_.end(choice.in_timeline, end.reason, made);
    access_.charge(client_, std::ssize(made.tokens));
    usage_.completion_tokens += std::ssize(made.tokens);
    if (i % tries() == 0) usage_.cached_tokens += made.cached_tokens;
    if (left_ == 0) return;
    if (end.error != nullptr) return fail(to_api_error(end.error));
    if (end.reason == infer::StopReason::timeout) return fail(late());
    try {
      if (picks_best()) {
        choices_[i].reason = end.reason;
      } else {
        if (params_.prompt_logprobs >= 0) format_->prompt(i, prompts_[i / n()], made.prompt_logprobs);
        send_gathered(i);
        send(format_->choice_end(i, end.reason));
      }
      if (left_ == 1) finish();
      --left_;
    } catch (...) {  // else the client would wait for ever
      fail(to_api_error(std::current_exception()));
    }
  }

  void send(std::string bytes) {
    if (params_.stream && !bytes.empty()) exchange_->write(std::move(bytes));
  }

  // Of each prompt the choices whose tokens the model found most probable, on average.
  void put_best() {
    const auto likely = [](const Choice& choice) {
      double sum = 0;
      for (const infer::DrawnLogprob& token : choice.gathered.logprobs)
        sum += static_cast<double>(token.logprob);
      const std::size_t count = choice.gathered.logprobs.size();
      return count > 0 ? sum / static_cast<double>(count) : -std::numeric_limits<double>::infinity();
    };
    for (std::size_t prompt = 0; prompt * tries() < choices_.size(); ++prompt) {
      const auto tried = std::span(choices_).subspan(prompt * tries(), tries());
      std::ranges::stable_sort(tried, std::greater<>(), likely);
      for (std::size_t k = 0; k < n(); ++k) {
        format_->piece(prompt * n() + k, tried[k].gathered);
        format_->choice_end(prompt * n() + k, tried[k].reason);
      }
    }
  }

  void finish() {
    if (picks_best()) put_best();
    std::string rest = format_->end(usage_);
    if (!params_.stream) return exchange_->send({.body = std::move(rest)});
    send(std::move(rest));
    exchange_->end();
  }

  void fail(const ApiError& error) {
    left_ = 0;
    cancel();
    if (!begun_) return exchange_->send(error_response(error, format_->refusal(error)));
    send(format_->error(error));
    exchange_->end();
  }

  void cancel() {
    for (const Choice& choice : choices_)
      if (choice.job != 0) model_.scheduler().cancel(choice.job);
    for (const auto& beams : beams_) beams->cancel();
  }
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    if (left_ > 0) cancel();
  }
  bool has_gone() {
    const std::lock_guard lock(mutex_);
    return gone_;
  }

  const std::shared_ptr<Exchange> exchange_;
  const ModelLease lease_;
  ServedModel& model_;
  ModelMetrics& metrics_;
  Timeline& timeline_;
  const GenerationParams params_;
  const Access& access_;
  const Client client_;
  const double seconds_;                          // for the answer; 0: any time
  const std::int64_t interval_;                   // tokens of a piece of a stream at least
  const std::chrono::milliseconds compile_time_;  // of a grammar
  const std::unique_ptr<AnswerFormat> format_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::vector<Choice> choices_;
  std::vector<std::vector<std::int32_t>> prompts_;      // later where their logprobs are asked for alone
  std::vector<std::shared_ptr<infer::BeamJob>> beams_;  // of each prompt, where they are asked for
  std::size_t left_ = 0;  // choices that have not ended; 0 too where the answer has failed
  bool begun_ = false;    // a stream
  bool gone_ = false;     // the client
  Usage usage_;
};

}  // namespace

void answer(const ApiContext& context, const std::shared_ptr<Exchange>& exchange, const ModelLease& model,
            std::vector<std::vector<std::int32_t>> prompts, const GenerationParams& params,
            std::unique_ptr<AnswerFormat> format) {
  std::make_shared<Answer>(context, exchange, model, params, std::move(format))
      ->start(context.compile_queue, std::move(prompts));
}

std::string event(const std::string& json) { return "data: " + json + "\n\n"; }

std::string_view finish_reason(infer::StopReason reason) {
  using infer::StopReason;
  return reason == StopReason::max_tokens || reason == StopReason::context_full ? "length" : "stop";
}

std::string new_id(std::string_view prefix, int length) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  thread_local std::mt19937_64 random{random_seed()};
  std::string id(prefix);
  for (int i = 0; i < length; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

}  // namespace ingot::serve
