#include "ingot/infer/engine.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/infer/captured_steps.h"
#include "ingot/infer/ngram.h"
#include "ingot/models/language/context.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

// A guess and the token before it are verified by kernels for few rows, which give every row the bits that it
// gets alone: eight queries of one sequence (cached_attention), sixteen rows of a product.
constexpr std::int64_t kMaxSpeculation = 7;
constexpr std::int64_t kCacheStep = 256;  // tokens that a cache grows by at least

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// min_tokens holds back what ends a sequence.
Sampler sampler_of(const Request& request) {
  SamplingOptions options = request.sampling;
  options.end_tokens = request.stop_tokens;
  return Sampler(options);
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
  INGOT_CHECK(chunk > 0, InvalidConfig("chunk", fmt::format("must be at least 1, got {}", chunk)));
}

DType default_kv_cache(const LanguageModel& model) {
  if (model.layers.empty()) return DType::f32;
  const LinearWeight& weights = model.layers.front()->self_attn.o_proj.weight;
  if (weights.is_quantized()) return DType::f16;
  const DType dtype = weights.dtype();
  return dtype == DType::f32 || !model.device().is_cpu() ? dtype : DType::f16;
}

void Request::validate(const LanguageConfig& model) const {
  INGOT_CHECK(max_tokens > 0,
              InvalidConfig("max_tokens", fmt::format("must be at least 1, got {}", max_tokens)));
  INGOT_CHECK(speculate >= 0 && speculate <= kMaxSpeculation,
              InvalidConfig("speculate", fmt::format("must be between 0 (off) and {}, got {}",
                                                     kMaxSpeculation, speculate)));
  sampling.validate();
  INGOT_CHECK(!prompt.empty(), DimensionMismatch("generate: the prompt is empty; give at least one token"));
  for (const std::int32_t id : prompt) {
    INGOT_CHECK(id >= 0 && id < model.vocab_size,
                DimensionMismatch(fmt::format("generate: token id {} is outside the vocabulary of {}", id,
                                              model.vocab_size)));
  }
}

Sequence::Sequence(Request request, KvCache cache)
    : request_(std::move(request)),
      sampler_(sampler_of(request_)),
      cache_(std::move(cache)),
      tokens_(request_.prompt) {}

void Sequence::finish(StopReason reason) {
  result_.reason = reason;
  result_.decode_seconds = now() - clock_;
  finished_ = true;
}

Engine::Engine(const LanguageModel& model, const EngineOptions& options)
    : model_(model),
      options_(options),
      context_(options.context > 0 ? options.context : context_length(model.config)) {
  options.validate(model.config);
  if (!options.kv_cache) options_.kv_cache = default_kv_cache(model);
  if (options_.capture && !model.device().is_cpu()) captured_ = std::make_unique<CapturedSteps>(model);
}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

void Engine::check_prompt(const Request& request) const {
  request.validate(model_.config);
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  INGOT_CHECK(length <= context_,
              DimensionMismatch(fmt::format(
                  "generate: the prompt has {} tokens, the context is {} (the model's own is {}); shorten it",
                  length, context_, context_length(model_.config))));
}

std::shared_ptr<Sequence> Engine::start(Request request) {
  check_prompt(request);
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t capacity = std::min(context_, length + std::min(request.max_tokens, kCacheStep));
  KvCache cache(model_.config, capacity, *options_.kv_cache, model_.device());
  std::shared_ptr<Sequence> sequence(new Sequence(std::move(request), std::move(cache)));
  add(sequence);
  return sequence;
}

void Engine::restart(Sequence& sequence, Request request) {
  check_prompt(request);
  const auto found = std::ranges::find(active_, &sequence, &std::shared_ptr<Sequence>::get);
  INGOT_CHECK(found == active_.end(), Error("restart: the sequence is still being continued"));
  const auto [mine, theirs] = std::ranges::mismatch(sequence.tokens_, request.prompt);
  // The last token goes through the model in any case: its logits are wanted.
  const std::int64_t shared = std::min({mine - sequence.tokens_.begin(), sequence.cache_.length(),
                                        static_cast<std::int64_t>(request.prompt.size()) - 1});
  sequence.cache_.truncate(shared);
  sequence.sampler_ = sampler_of(request);
  sequence.tokens_ = request.prompt;
  sequence.request_ = std::move(request);
  sequence.result_ = {};
  sequence.finished_ = false;
  add(sequence.shared_from_this());
}

void Engine::cancel(Sequence& sequence) {
  if (sequence.finished()) return;
  sequence.finish(StopReason::cancelled);
  std::erase_if(active_, [&](const auto& s) { return s.get() == &sequence; });
}

void Engine::add(std::shared_ptr<Sequence> sequence) {
  sequence->clock_ = now();
  active_.push_back(std::move(sequence));
}

Engine::Turn Engine::decode_turn(Sequence& s) const {
  Turn turn{.sequence = &s, .input = {s.tokens_.back()}, .samples = true};
  const auto made = static_cast<std::int64_t>(s.result_.tokens.size());
  // Guesses beyond the last token wanted, or beyond the context, would be thrown away.
  const std::int64_t room = std::min(s.request_.max_tokens - made, context_ - s.cache_.length()) - 1;
  const std::vector<std::int32_t> draft = ngram_draft(s.tokens_, std::min(s.request_.speculate, room));
  turn.drafted = static_cast<std::int64_t>(draft.size());
  turn.input.insert(turn.input.end(), draft.begin(), draft.end());
  return turn;
}

// Texts being written come first; prompts share what is left of the chunk, in the order of their arrival.
std::vector<Engine::Turn> Engine::plan() {
  std::vector<Turn> turns;
  // Scalings of RoPE that depend on the length of the sequence need tables of their own.
  const bool alone = model_.config.rope_scaling.depends_on_length();
  for (const auto& s : active_) {
    if (s->pending() == 1 && !(alone && !turns.empty())) turns.push_back(decode_turn(*s));
  }
  std::int64_t left = options_.chunk;
  for (const auto& s : active_) {
    if (s->pending() == 1 || left == 0 || (alone && !turns.empty())) continue;
    const std::int64_t count = std::min(s->pending(), left);
    const auto first = s->tokens_.begin() + s->cache_.length();
    turns.push_back({.sequence = s.get(), .input = {first, first + count}, .samples = count == s->pending()});
    left -= count;
  }
  return turns;
}

// Runs all turns through the model.
Engine::Logits Engine::forward(std::vector<Turn>& turns) {
  std::vector<std::int32_t> tokens;
  std::vector<CacheSegment> segments;
  std::int64_t rows = 0;  // hidden states that become logits
  for (Turn& turn : turns) {
    KvCache& cache = turn.sequence->cache_;
    const auto count = static_cast<std::int64_t>(turn.input.size());
    const std::int64_t need = cache.length() + count;
    if (need > cache.capacity()) {
      cache.reserve(
          std::min(context_, std::max({need, 2 * cache.capacity(), cache.capacity() + kCacheStep})));
    }
    tokens.insert(tokens.end(), turn.input.begin(), turn.input.end());
    segments.push_back({.cache = &cache, .tokens = count, .unwanted = count - turn.rows()});
    turn.first_row = rows;
    rows += turn.rows();
  }
  if (captured_ != nullptr && captured_->takes(segments)) return {captured_->run(tokens, segments), true};
  const auto total = static_cast<std::int64_t>(tokens.size());
  const Tensor hidden = model_.hidden(Tensor::from(tokens, {1, total}, model_.device()), segments);
  if (rows == 0) return {};
  return {to(model_.logits(reshape(hidden, {rows, hidden.dim(2)})), DType::f32)};
}

// Puts a token behind the text; false when that ends it.
bool Engine::accept(Sequence& s, std::int32_t token) {
  if (std::ranges::find(s.request_.stop_tokens, token) != s.request_.stop_tokens.end()) {
    s.finish(StopReason::stop_token);
    return false;
  }
  s.result_.tokens.push_back(token);
  s.tokens_.push_back(token);
  if (s.request_.on_token && !s.request_.on_token(token)) {
    s.finish(StopReason::cancelled);
  } else if (static_cast<std::int64_t>(s.result_.tokens.size()) == s.request_.max_tokens) {
    s.finish(StopReason::max_tokens);
  } else if (static_cast<std::int64_t>(s.tokens_.size()) > context_) {
    s.finish(StopReason::context_full);
  }
  return !s.finished_;
}

// Draws from each row as if there were no guesses; goes on to the next only where the guess was right.
void Engine::draw(Turn& turn, FunctionRef<std::int32_t(std::int64_t row)> next) {
  std::vector<std::int32_t>& tokens = turn.sequence->tokens_;
  const std::size_t length = tokens.size();
  for (std::int64_t i = 0; i <= turn.drafted; ++i) {
    const std::int32_t token = next(turn.first_row + i);
    turn.drawn.push_back(token);
    if (i == turn.drafted || token != turn.input[static_cast<std::size_t>(i) + 1]) break;
    tokens.push_back(token);  // a sampler looks at the text so far
  }
  tokens.resize(length);
}

void Engine::draw(std::vector<Turn>& turns, const Logits& logits) {
  const auto greedy = [](const Turn& turn) { return turn.sequence->sampler_.greedy(); };
  if (!model_.device().is_cpu() && std::ranges::all_of(turns, greedy)) {  // nothing else leaves the device
    const std::vector<std::int32_t> likeliest = likeliest_tokens(logits.rows);
    if (std::ranges::min(likeliest) >= 0) {
      for (Turn& turn : turns)
        draw(turn, [&](std::int64_t row) { return likeliest[static_cast<std::size_t>(row)]; });
      return;
    }  // else a sampler says what is wrong
  }
  const Tensor host = logits.captured ? captured_->on_host() : to(logits.rows, kCpu);
  const auto vocab = static_cast<std::size_t>(model_.config.vocab_size);
  // Texts draw side by side: one draw among 128,000 tokens takes most of a millisecond.
  parallel_share(static_cast<std::int64_t>(turns.size()), 1, 1, [&](std::int64_t begin, std::int64_t end) {
    for (Turn& turn :
         std::span(turns).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)))
      draw(turn, [&](std::int64_t row) {
        Sequence& s = *turn.sequence;
        return s.sampler_({host.data<float>() + static_cast<std::size_t>(row) * vocab, vocab}, s.tokens_,
                          s.request_.prompt.size());
      });
  });
}

void Engine::accept_drawn(const Turn& turn) {
  Sequence& s = *turn.sequence;
  if (s.result_.tokens.empty()) {
    s.result_.prompt_seconds = now() - s.clock_;
    s.clock_ = now();
  }
  s.result_.drafted += turn.drafted;
  for (std::size_t i = 0; i < turn.drawn.size(); ++i) {
    if (!accept(s, turn.drawn[i])) break;
    if (i + 1 < turn.drawn.size()) ++s.result_.accepted;  // the last one is no guess, or not the one guessed
  }
  // Wrong guesses leave the cache again.
  s.cache_.truncate(std::min(s.cache_.length(), static_cast<std::int64_t>(s.tokens_.size()) - 1));
}

bool Engine::step() {
  if (active_.empty()) return false;
  const NoGrad no_grad;
  std::vector<Turn> turns = plan();
  const Logits logits = forward(turns);
  std::erase_if(turns, [](const Turn& turn) { return !turn.samples; });
  if (!turns.empty()) draw(turns, logits);
  for (Turn& turn : turns) accept_drawn(turn);
  std::erase_if(active_, [](const auto& s) { return s->finished(); });
  return !active_.empty();
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
  }
  return "";
}

}  // namespace ingot::infer
