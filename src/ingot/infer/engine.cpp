#include "ingot/infer/engine.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/base/scope.h"
#include "ingot/base/units.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/infer/constraint.h"
#include "ingot/infer/decode_graph.h"
#include "ingot/infer/drafter.h"
#include "ingot/infer/logprobs.h"
#include "ingot/models/language/context.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

// Draft tokens and the token before them are verified by kernels for few rows, which give every row the bits
// that it gets alone: eight queries of one sequence (cached_attention).
constexpr std::int64_t kMaxSpeculation = 7;
constexpr std::int64_t kExpectedTokens =
    256;  // that a sequence is assumed to generate at most, when it is admitted

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// min_tokens holds back what ends a sequence.
Sampler sampler_of(const Request& request) {
  SamplingOptions options = request.sampling;
  options.end_tokens = request.stop_tokens;
  return Sampler(options);
}

EngineOptions with_defaults(EngineOptions options, const LanguageModel& model) {
  options.validate(model.config);
  if (!options.kv_cache) options.kv_cache = default_kv_cache(model);
  return options;
}

// Tokens whose keys and values fit the memory; 0: no limit.
std::int64_t budget_of(const EngineOptions& options, const LanguageModel& model) {
  if (options.kv_memory == 0) return 0;
  std::size_t bytes = KvCache(model.config, 1, *options.kv_cache).nbytes();
  if (options.draft_model != nullptr) bytes += Drafter::token_bytes(*options.draft_model);
  if (bytes == 0) return 0;  // no layer has keys and values
  const auto tokens = static_cast<std::int64_t>(options.kv_memory / bytes);
  INGOT_CHECK(
      tokens >= kExpectedTokens,
      InvalidConfig("kv_memory", fmt::format("{} holds {} tokens of {}, and {} are the least; raise it",
                                             human_bytes(options.kv_memory), tokens, human_bytes(bytes),
                                             kExpectedTokens)));
  return tokens;
}

std::int64_t context_of(const EngineOptions& options, const LanguageModel& model) {
  const std::int64_t context = options.context > 0 ? options.context : context_length(model.config);
  const std::int64_t budget = budget_of(options, model);
  if (budget == 0) return context;
  const std::int64_t state = KvPool::state_tokens(model.config, *options.kv_cache);
  INGOT_CHECK(budget - state >= kExpectedTokens,
              InvalidConfig("kv_memory",
                            fmt::format("{} holds {} tokens, and the state of a request "
                                        "takes the memory of {}; {} more are the least: raise it",
                                        human_bytes(options.kv_memory), budget, state, kExpectedTokens)));
  return std::min(context, budget - state);
}

KvPoolOptions pool_options(const EngineOptions& options, const LanguageModel& model, std::int64_t context) {
  const std::int64_t budget = budget_of(options, model);
  const std::int64_t idle =
      budget > 0 ? budget
                 : options.idle_contexts * (context + KvPool::state_tokens(model.config, *options.kv_cache));
  PromptStoreOptions store = options.prompt_store;
  if (model.config.rope_scaling.depends_on_length()) store.directory.clear();
  if (options.batch_invariant) store.model += fmt::format("\nbatch-invariant, chunks of {}", options.chunk);
  return {.dtype = *options.kv_cache,
          .device = model.device(),
          .budget = budget,
          .idle = options.prefix_cache ? idle : 0,
          .context = context,
          .chunk = options.chunk,
          .alignment = options.batch_invariant ? options.chunk : 1,
          .store = std::move(store)};
}

}  // namespace

void EngineOptions::validate(const LanguageConfig& model) const {
  INGOT_CHECK(
      !kv_cache || is_training_dtype(*kv_cache) || kv_cache == DType::i8,
      InvalidConfig("kv_cache", fmt::format("is f32, bf16, f16 or i8, got {}", ingot::name(*kv_cache))));
  const std::int64_t most = context_length(model);
  INGOT_CHECK(context >= 0 && context <= most,
              InvalidConfig("context", fmt::format("must be between 1 and the model's {} tokens "
                                                   "(max_position_embeddings), or 0 for all of them, got {}",
                                                   most, context)));
  INGOT_CHECK(prompt_store.directory.empty() || prefix_cache,
              InvalidConfig("prompt_cache", "needs prefix_cache: prompts are stored to be reused"));
  INGOT_CHECK(prompt_store.directory.empty() || !model.is_recurrent(),
              InvalidConfig("prompt_cache",
                            fmt::format("stores keys and values, and layers of '{}' keep a state that is not "
                                        "stored; leave it out",
                                        model.model_type)));
  INGOT_CHECK(chunk > 0, InvalidConfig("chunk", fmt::format("must be at least 1, got {}", chunk)));
  INGOT_CHECK(max_running >= 0,
              InvalidConfig("max_running", fmt::format("must be 0 (no limit) or more, got {}", max_running)));
}

DType default_kv_cache(const LanguageModel& model) {
  if (model.layers.empty()) return DType::f32;
  const auto has_keys = [](const auto& layer) { return layer->self_attn != nullptr; };
  const auto found = std::ranges::find_if(model.layers, has_keys);
  const auto& layer = found != model.layers.end() ? *found : model.layers.front();
  const LinearWeight& weights = layer->mixer_output();
  if (weights.is_quantized()) return DType::f16;
  const DType dtype = weights.dtype();
  return dtype == DType::f32 || !has_host_memory(model.device()) ? dtype : DType::f16;
}

void Request::validate(const LanguageConfig& model) const {
  INGOT_CHECK(max_tokens > 0,
              InvalidConfig("max_tokens", fmt::format("must be at least 1, got {}", max_tokens)));
  INGOT_CHECK(speculate >= 0 && speculate <= kMaxSpeculation,
              InvalidConfig("speculate", fmt::format("must be between 0 (off) and {}, got {}",
                                                     kMaxSpeculation, speculate)));
  INGOT_CHECK(
      logprobs >= -1 && logprobs <= model.vocab_size,
      InvalidConfig("logprobs", fmt::format("must be -1 (none) to {}, got {}", model.vocab_size, logprobs)));
  INGOT_CHECK(prompt_logprobs >= -1 && prompt_logprobs <= model.vocab_size,
              InvalidConfig("prompt_logprobs", fmt::format("must be -1 (none) to {}, got {}",
                                                           model.vocab_size, prompt_logprobs)));
  sampling.validate();
  for (const auto* tokens : {&thinking.begin, &thinking.end, &thinking.closing}) {
    for (const std::int32_t id : *tokens)
      INGOT_CHECK(id >= 0 && id < model.vocab_size,
                  InvalidConfig("thinking", fmt::format("token id {} is outside the vocabulary of {}", id,
                                                        model.vocab_size)));
  }
  INGOT_CHECK(!prompt.empty(), DimensionMismatch("generate: the prompt is empty; give at least one token"));
  for (const std::int32_t id : prompt) {
    INGOT_CHECK(id >= 0 && id < model.vocab_size,
                DimensionMismatch(fmt::format("generate: token id {} is outside the vocabulary of {}", id,
                                              model.vocab_size)));
  }
}

Sequence::Sequence(Request request)
    : request_(std::move(request)), sampler_(sampler_of(request_)), tokens_(request_.prompt), clock_(now()) {
  if (request_.grammar != nullptr)
    guide_ = std::make_unique<GrammarGuide>(request_.grammar, request_.stop_tokens);
  if (request_.thinking.limits()) thinking_.emplace(request_.thinking);
}
Sequence::~Sequence() = default;

// Whether its grammar lets nothing follow.
bool Sequence::complete() const { return guide_ != nullptr && guide_->complete(); }

std::int32_t Sequence::draw(std::span<const float> logits) {
  const std::size_t prompt = request_.prompt.size();
  const std::optional<std::int32_t> forced = thinking_ ? thinking_->forced() : std::nullopt;
  const std::int32_t token =
      forced ? *forced : sampler_(logits, tokens_, prompt, guide_ != nullptr ? &guide_->allowed() : nullptr);
  if (guide_ != nullptr) guide_->take(token);
  if (thinking_) thinking_->take(token);
  return token;
}

const std::string& Sequence::adapter_identity() const {
  static const std::string kNone;
  return request_.held_adapter != nullptr ? request_.held_adapter->identity : kNone;
}

void Sequence::finish(StopReason reason) {
  result_.reason = reason;
  const bool waited = slot_ == nullptr && result_.tokens.empty();
  (waited ? result_.queue_seconds : result_.decode_seconds) = now() - clock_;
  ClientShares::end(*share_);
  finished_ = true;
}

Engine::Engine(const LanguageModel& model, const EngineOptions& options)
    : model_(model),
      options_(with_defaults(options, model)),
      context_(context_of(options_, model)),
      pool_(model.config, pool_options(options_, model, context_)) {
  if (options_.capture && backend(model.device()).capabilities().graph_capture)
    captured_ = std::make_unique<DecodeGraph>(model);
  if (options_.draft_model != nullptr)
    drafter_ = std::make_unique<Drafter>(*options_.draft_model, model.config.vocab_size, options_.chunk,
                                         options_.capture);
}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

void Engine::check(const Request& request) const {
  request.validate(model_.config);
  INGOT_CHECK(request.adapter.empty() || request.held_adapter != nullptr ||
                  (options_.adapters != nullptr && options_.adapters->find(request.adapter) != nullptr),
              InvalidConfig("adapter", fmt::format("'{}' is not loaded; load it first", request.adapter)));
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  INGOT_CHECK(length <= context_,
              DimensionMismatch(fmt::format(
                  "generate: the prompt has {} tokens, the context is {} (the model's own is {}); shorten it",
                  length, context_, context_length(model_.config))));
}

void Engine::hold_adapter(Request& request) const {
  if (request.held_adapter == nullptr && options_.adapters != nullptr && !request.adapter.empty())
    request.held_adapter = options_.adapters->find(request.adapter);
  check(request);
}

void Engine::settle_adapters() {
  if (options_.adapters != nullptr) options_.adapters->settle();
}

std::shared_ptr<Sequence> Engine::start(Request request) {
  hold_adapter(request);
  const std::shared_ptr<Sequence> sequence(new Sequence(std::move(request)));
  sequence->share_ = &shares_.begin(sequence->request_.client);
  waiting_.push_back(sequence);
  return sequence;
}

void Engine::cancel(Sequence& sequence) {
  if (!sequence.finished()) end(sequence, StopReason::cancelled);
}

void Engine::end(Sequence& sequence, StopReason reason) {
  sequence.finish(reason);
  release(sequence);
  const auto is_it = [&](const auto& s) { return s.get() == &sequence; };
  std::erase_if(active_, is_it);
  std::erase_if(waiting_, is_it);
}

void Engine::end_overdue() {
  const auto time = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<Sequence>> overdue;
  for (const auto& s : active_)
    if (s->request_.deadline && *s->request_.deadline <= time) overdue.push_back(s);
  for (const auto& s : waiting_)
    if (s->request_.deadline && *s->request_.deadline <= time) overdue.push_back(s);
  for (const auto& s : overdue) end(*s, StopReason::timeout);
}

// The request to be admitted next: by priority, then those that gave their memory up, then of the client that
// had least, then in the order of their arrival. One whose prompt another one is just reading waits for that.
std::deque<std::shared_ptr<Sequence>>::iterator Engine::next_waiting() {
  const auto rank = [](const Sequence& s) {
    return std::tuple(s.request_.priority, !s.preempted_, s.preempted_ ? 0 : s.share_->served);
  };
  auto next = waiting_.end();
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (next != waiting_.end() && rank(**it) >= rank(**next)) continue;
    const Sequence& s = **it;
    if (!pool_.worth_waiting(s.tokens_, s.adapter_identity(), reusable(s))) next = it;
  }
  return next;
}

// Admits requests from the queue, as long as the KV cache has free blocks.
void Engine::admit() {
  while (options_.max_running == 0 || static_cast<std::int64_t>(active_.size()) < options_.max_running) {
    const auto next = next_waiting();
    if (next == waiting_.end() || !admit(**next)) return;
    if (!(*next)->preempted_) ClientShares::read(*(*next)->share_, (*next)->pending());
    active_.push_back(std::move(*next));
    waiting_.erase(next);
  }
}

// How many tokens of its prompt may come from the cache.
std::int64_t Engine::reusable(const Sequence& s) const {
  if (model_.config.rope_scaling.depends_on_length()) return 0;  // others' keys may have other angles
  if (s.request_.prompt_logprobs >= 0)
    return std::ssize(s.result_.prompt_logprobs);  // the rest has no logits
  return KvPool::kAll;
}

bool Engine::admit(Sequence& s) {
  const auto length = static_cast<std::int64_t>(s.tokens_.size());
  s.slot_ =
      pool_.acquire(s.tokens_, std::min(context_, length + std::min(s.request_.max_tokens, kExpectedTokens)),
                    s.adapter_identity(), reusable(s));
  if (s.slot_ == nullptr) return false;
  if (!s.result_.tokens.empty()) return true;  // it was preempted
  s.result_.cached_tokens = s.cached();
  s.result_.queue_seconds = now() - s.clock_;
  s.clock_ = now();
  if (s.request_.on_admitted) std::exchange(s.request_.on_admitted, nullptr)();
  return true;
}

void Engine::release(Sequence& s) {
  if (s.slot_ != nullptr) pool_.release(s.slot_, s.tokens_);
  s.slot_.reset();
  if (drafter_ != nullptr) drafter_->release(s.draft_slot_, s.tokens_);
}

// The request waits again, before all others; its tokens and its sampler stay.
void Engine::preempt(Sequence& sequence) {
  const auto found = std::ranges::find(active_, &sequence, &std::shared_ptr<Sequence>::get);
  release(sequence);
  sequence.preempted_ = true;
  waiting_.push_front(std::move(*found));
  active_.erase(found);
  ++preemptions_;
}

bool Engine::grow(Sequence& s, std::int64_t tokens) { return pool_.grow(*s.slot_, tokens); }

// The one that gives its memory up: of the least urgent the latest.
Sequence& Engine::last_in_line() {
  auto last = active_.rbegin();
  for (auto it = last; it != active_.rend(); ++it)
    if ((*it)->request_.priority > (*last)->request_.priority) last = it;
  return **last;
}

// Capacity in each cache for what this step adds. The earliest of the most urgent requests always gets it.
void Engine::make_room(std::vector<Turn>& turns) {
  for (std::size_t i = 0; i < turns.size(); ++i) {
    Sequence& s = *turns[i].sequence;
    while (s.slot_ != nullptr && !grow(s, s.cached() + static_cast<std::int64_t>(turns[i].input.size())))
      preempt(last_in_line());
  }
  std::erase_if(turns, [](const Turn& turn) { return turn.sequence->slot_ == nullptr; });
}

// Sequences of one adapter are neighbours.
void Engine::use_adapters(const std::vector<Turn>& turns) {
  if (options_.adapters == nullptr) return;
  std::vector<AdapterBank::Part> parts;
  for (const Turn& turn : turns) {
    const AdapterHandle& adapter = turn.sequence->request_.held_adapter;
    if (parts.empty() || parts.back().adapter != adapter) parts.push_back({.adapter = adapter});
    parts.back().tokens += std::ssize(turn.input);
    parts.back().wanted += turn.rows();
  }
  options_.adapters->use(parts);
}

// Runs all sequences through the model: in one pass; or, where decode steps are captured, such sequences and
// prompts in a pass of each, as launching work for many sequences one by one takes longer than reading the
// weights again.
// What an error leaves between two layers is not a state to go on from: such sequences are read again.
Engine::Logits Engine::forward_or_forget(std::vector<Turn>& turns) {
  try {
    return forward(turns);
  } catch (...) {
    for (const Turn& turn : turns) {
      KvCache& cache = turn.sequence->slot_->cache;
      cache.truncate(cache.beginning(cache.length()));
    }
    throw;
  }
}

Engine::Logits Engine::forward(std::vector<Turn>& turns) {
  const auto prompts = std::ranges::find_if(turns, [](const Turn& turn) { return !turn.decodes(); });
  const auto decoding = static_cast<std::size_t>(prompts - turns.begin());
  const bool apart = captured_ != nullptr && captured_->possible() && decoding > 1 && prompts != turns.end();
  if (!apart) return forward(turns, 0);
  const Logits first = forward(std::span(turns).first(decoding), 0);
  const Logits second = forward(std::span(turns).subspan(decoding), first.rows.dim(0));
  if (!second.rows.defined()) return first;
  const std::vector<Tensor> both{first.rows, second.rows};
  return {concat(both, 0)};
}

// One pass, whose logits stand behind `first_row` others.
Engine::Logits Engine::forward(std::span<Turn> turns, std::int64_t first_row) {
  const bool decodes = std::ranges::all_of(turns, &Turn::decodes);
  const Scope scope(ScopeKind::work, decodes ? "decode" : "prefill");
  std::vector<std::int32_t> tokens;
  std::vector<CacheSegment> segments;
  std::int64_t rows = 0;  // hidden states that become logits
  for (Turn& turn : turns) {
    const auto count = static_cast<std::int64_t>(turn.input.size());
    tokens.insert(tokens.end(), turn.input.begin(), turn.input.end());
    segments.push_back({.cache = &turn.sequence->slot_->cache,
                        .tokens = count,
                        .unwanted = count - turn.rows(),
                        .sequence_length = static_cast<std::int64_t>(turn.sequence->tokens_.size())});
    turn.first_score = first_row + rows;
    turn.first_row = turn.first_score + (turn.scores ? count - 1 : 0);
    rows += turn.rows();
  }
  if (captured_ != nullptr && captured_->takes(segments)) return {captured_->run(tokens, segments), true};
  const auto total = static_cast<std::int64_t>(tokens.size());
  const Tensor hidden = model_.hidden(Tensor::from(tokens, {1, total}, model_.device()), segments);
  if (rows == 0) return {};
  return {to(model_.logits(reshape(hidden, {rows, hidden.dim(2)})), DType::f32)};
}

// Appends a token to the sequence; false when that ends it.
bool Engine::accept(Sequence& s, std::int32_t token) {
  if (std::ranges::find(s.request_.stop_tokens, token) != s.request_.stop_tokens.end()) {
    s.result_.stop_token = token;
    s.finish(StopReason::stop_token);
    return false;
  }
  s.result_.tokens.push_back(token);
  s.tokens_.push_back(token);
  ClientShares::wrote(*s.share_, 1);
  if (s.request_.on_token && !s.request_.on_token(token)) {
    s.finish(StopReason::cancelled);
  } else if (static_cast<std::int64_t>(s.result_.tokens.size()) == s.request_.max_tokens) {
    s.finish(StopReason::max_tokens);
  } else if (static_cast<std::int64_t>(s.tokens_.size()) > context_) {
    s.finish(StopReason::context_full);
  }
  return !s.finished_;
}

// Draws from each row as if there was no draft; goes on to the next only where the draft token is accepted.
void Engine::draw(Turn& turn, FunctionRef<std::int32_t(std::int64_t row)> next) {
  std::vector<std::int32_t>& tokens = turn.sequence->tokens_;
  const std::size_t length = tokens.size();
  try {
    for (std::int64_t i = 0; i <= turn.drafted; ++i) {
      const std::int32_t token = next(turn.first_row + i);
      turn.drawn.push_back(token);
      if (i == turn.drafted || token != turn.input[static_cast<std::size_t>(i) + 1]) break;
      if (turn.sequence->complete()) break;
      tokens.push_back(token);  // a sampler looks at the tokens so far
    }
  } catch (...) {
    turn.error = std::current_exception();
  }
  tokens.resize(length);
}

// What the model thought of the prompt's tokens that come behind those that were read.
void Engine::score(const std::vector<Turn>& turns, const Logits& logits) const {
  if (std::ranges::none_of(turns, &Turn::scores)) return;
  const Tensor host = logits.captured ? captured_->on_host() : to(logits.rows, kCpu);
  const auto vocab = static_cast<std::size_t>(model_.config.vocab_size);
  for (const Turn& turn : turns) {
    if (!turn.scores) continue;
    Sequence& s = *turn.sequence;
    std::vector<PromptLogprob>& scores = s.result_.prompt_logprobs;
    const std::vector<std::int32_t>& prompt = s.request_.prompt;
    const std::int64_t first = s.cached() - std::ssize(turn.input);  // what was read again is scored already
    for (std::int64_t i = std::ssize(scores) - first; i < std::ssize(turn.input); ++i) {
      if (scores.size() + 1 == prompt.size()) break;
      const auto row = static_cast<std::size_t>(turn.first_score + i);
      const std::span<const float> of_row(host.data<float>() + row * vocab, vocab);
      scores.push_back(prompt_logprob(of_row, prompt[scores.size() + 1], s.request_.prompt_logprobs));
    }
  }
}

void Engine::draw(std::vector<Turn>& turns, const Logits& logits) {
  const auto greedy = [](const Turn& turn) {
    return turn.sequence->sampler_.greedy() && turn.sequence->request_.logprobs < 0 &&
           turn.sequence->guide_ == nullptr && !turn.sequence->thinking_;
  };
  if (!has_host_memory(model_.device()) &&
      std::ranges::all_of(turns, greedy)) {  // nothing else leaves the device
    const std::vector<std::int32_t> best = argmax_tokens(logits.rows);
    if (std::ranges::min(best) >= 0) {
      for (Turn& turn : turns)
        draw(turn, [&](std::int64_t row) { return best[static_cast<std::size_t>(row)]; });
      return;
    }  // else a sampler says what is wrong
  }
  const Tensor host = logits.captured ? captured_->on_host() : to(logits.rows, kCpu);
  const auto vocab = static_cast<std::size_t>(model_.config.vocab_size);
  const auto draw_from_host = [&](Turn& turn) {
    Sequence& s = *turn.sequence;
    draw(turn, [&](std::int64_t row) {
      const std::span<const float> of_row(host.data<float>() + static_cast<std::size_t>(row) * vocab, vocab);
      const std::int32_t token = s.draw(of_row);
      if (s.request_.logprobs >= 0)
        turn.logprobs.push_back(drawn_logprob(of_row, token, s.request_.logprobs));
      return token;
    });
  };
  // Sequences sample in parallel: one draw among 128,000 tokens takes most of a millisecond.
  parallel_share(static_cast<std::int64_t>(turns.size()), 1, 1, [&](std::int64_t begin, std::int64_t end) {
    for (Turn& turn :
         std::span(turns).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)))
      draw_from_host(turn);
  });
}

void Engine::accept_drawn(Turn& turn) {
  Sequence& s = *turn.sequence;
  if (s.result_.tokens.empty()) {
    s.result_.prompt_seconds = now() - s.clock_;
    s.clock_ = now();
  }
  s.result_.drafted += turn.drafted;
  for (std::size_t i = 0; i < turn.drawn.size(); ++i) {
    if (!turn.logprobs.empty()) s.result_.logprobs.push_back(std::move(turn.logprobs[i]));
    if (!accept(s, turn.drawn[i])) break;
    if (i + 1 < turn.drawn.size())
      ++s.result_.accepted;  // the last one was not drafted, or is not the one drafted
  }
  if (!s.finished_ && s.complete()) s.finish(StopReason::grammar_end);
  s.result_.logprobs.resize(std::min(s.result_.logprobs.size(), s.result_.tokens.size()));
  // Rejected draft tokens leave the cache again. A stop token is none of the sequence's: all of those are
  // read.
  const bool stopped = s.finished_ && s.result_.reason == StopReason::stop_token;
  s.slot_->cache.truncate(
      std::min(s.cached(), static_cast<std::int64_t>(s.tokens_.size()) - (stopped ? 0 : 1)));
}

bool Engine::step() {
  const Scope scope(ScopeKind::step, "engine step");
  const NoGrad no_grad;
  settle_adapters();
  end_overdue();
  admit();
  std::vector<Turn> turns = plan();
  draft(turns);
  make_room(turns);
  std::exception_ptr error;
  for (std::vector<Turn>& pass : passes(std::move(turns))) run(pass, error);
  std::erase_if(active_, [](const auto& s) { return s->finished(); });
  if (error != nullptr) std::rethrow_exception(error);
  return !active_.empty() || !waiting_.empty();
}

// One forward pass. An error of one sequence ends that one.
void Engine::run(std::vector<Turn>& turns, std::exception_ptr& error) {
  if (turns.empty()) return;
  use_adapters(turns);
  const Logits logits = forward_or_forget(turns);
  score(turns, logits);
  std::erase_if(turns, [](const Turn& turn) { return !turn.samples; });
  if (!turns.empty()) {
    const Scope scope(ScopeKind::work, "sample");
    draw(turns, logits);
  }
  for (Turn& turn : turns) {
    try {
      if (turn.error != nullptr) std::rethrow_exception(turn.error);
      accept_drawn(turn);
    } catch (...) {
      turn.sequence->finish(StopReason::failed);
      error = turn.sequence->error_ = std::current_exception();
    }
    if (turn.sequence->finished()) release(*turn.sequence);
  }
}

void Engine::run() {
  while (step()) {
  }
}

Generation Engine::generate(Request request) {
  const std::shared_ptr<Sequence> sequence = start(std::move(request));
  while (!sequence->finished()) step();
  return sequence->result();
}

Generation generate(const LanguageModel& model, Request request, const EngineOptions& options) {
  return Engine(model, options).generate(std::move(request));
}

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::max_tokens:
      return "max_tokens";
    case StopReason::stop_token:
      return "stop_token";
    case StopReason::context_full:
      return "context_full";
    case StopReason::cancelled:
      return "cancelled";
    case StopReason::stop_string:
      return "stop_string";
    case StopReason::failed:
      return "failed";
    case StopReason::grammar_end:
      return "grammar_end";
    case StopReason::timeout:
      return "timeout";
  }
  return "";
}

}  // namespace ingot::infer
