#include "ingot/infer/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot::infer {
namespace {

constexpr std::int64_t kMostBeams = 64;

void check_goes_with_beams(const Request& request) {
  const auto refuse = [](const char* option, const char* what) {
    throw InvalidConfig(option, fmt::format("{} not go with a beam search; leave one of the two out", what));
  };
  if (request.grammar != nullptr) refuse("use_beam_search", "structured output and tools that are forced do");
  if (request.thinking.limits()) refuse("thinking_token_budget", "does");
  if (request.prompt_logprobs >= 0) refuse("prompt_logprobs", "do");
  SamplingOptions sampling = request.sampling;
  sampling.min_tokens = 0;
  if (sampling.changes_logits())
    refuse(
        "use_beam_search",
        "penalties, logit_bias, bad_words and what else changes logits (the model's generation_config.json "
        "may have some) do");
}

}  // namespace

void BeamOptions::validate() const {
  INGOT_CHECK(width >= 1 && width <= kMostBeams,
              InvalidConfig("beams", fmt::format("must be 1 to {}, got {}", kMostBeams, width)));
  INGOT_CHECK(std::isfinite(length_penalty),
              InvalidConfig("length_penalty", fmt::format("must be finite, got {}", length_penalty)));
}

BeamSearch::BeamSearch(Request request, const BeamOptions& options, const Engine& engine)
    : request_(std::move(request)),
      options_(options),
      stop_tokens_(std::exchange(request_.stop_tokens, {})),
      min_tokens_(request_.sampling.min_tokens),
      max_tokens_(request_.max_tokens),
      logprobs_(request_.logprobs),
      last_(StopReason::max_tokens),
      running_(1) {
  options_.validate();
  check_goes_with_beams(request_);
  std::ranges::sort(stop_tokens_);
  stop_tokens_.erase(std::unique(stop_tokens_.begin(), stop_tokens_.end()), stop_tokens_.end());
  if (const std::int64_t room = engine.context() + 1 - std::ssize(request_.prompt); room < max_tokens_) {
    max_tokens_ = std::max<std::int64_t>(room, 1);  // a prompt that is too long fails its request
    last_ = StopReason::context_full;
  }
  request_.sampling = {.temperature = 0};
  request_.speculate = 0;
  request_.on_token = nullptr;
  request_.max_tokens = 1;
  // Of each text so many of the most probable tokens that `width` go on, whatever ends.
  const std::int64_t most = std::min(engine.vocab_size(), options_.width + std::ssize(stop_tokens_));
  request_.logprobs = std::max(most, logprobs_);
}

std::vector<Request> BeamSearch::requests() const {
  std::vector<Request> requests;
  for (const Beam& beam : running_) {
    requests.push_back(request_);
    auto& prompt = requests.back().prompt;
    prompt.insert(prompt.end(), beam.tokens.begin(), beam.tokens.end());
    if (length_ > 0 || requests.size() > 1) requests.back().on_admitted = nullptr;
  }
  return requests;
}

bool BeamSearch::stops(std::int32_t token) const { return std::ranges::binary_search(stop_tokens_, token); }

// The best first; of equals, those of the better text.
std::vector<BeamSearch::Candidate> BeamSearch::candidates(std::span<const Generation> results) const {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const DrawnLogprob& drawn = results[i].logprobs.front();
    for (const TokenLogprob& token : drawn.top) {
      if (length_ < min_tokens_ && stops(token.id)) continue;
      all.push_back({i, &drawn, token, running_[i].sum + static_cast<double>(token.logprob)});
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &Candidate::sum);
  return all;
}

BeamSearch::Beam BeamSearch::longer(const Candidate& candidate) const {
  Beam beam = running_[candidate.beam];
  beam.tokens.push_back(candidate.token.id);
  beam.sum = candidate.sum;
  if (logprobs_ < 0) return beam;
  const auto most = std::min(std::ssize(candidate.drawn->top), logprobs_);
  beam.logprobs.push_back({.logprob = candidate.token.logprob,
                           .top = {candidate.drawn->top.begin(), candidate.drawn->top.begin() + most}});
  return beam;
}

void BeamSearch::end(Beam beam, StopReason reason) {
  beam.score = beam.sum / std::pow(static_cast<double>(beam.tokens.size()), options_.length_penalty);
  beam.reason = reason;
  ended_.push_back(std::move(beam));
  std::ranges::stable_sort(ended_, std::greater<>(), &Beam::score);
  if (ended_.size() > width()) ended_.pop_back();
}

// Whether a text that is still written may become better than the worst that has ended.
bool BeamSearch::can_improve() const {
  if (ended_.size() < width()) return true;
  const bool longest = options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
  const auto length = static_cast<double>(longest ? max_tokens_ : length_);
  return running_.front().sum / std::pow(length, options_.length_penalty) > ended_.back().score;
}

void BeamSearch::take(std::span<const Generation> results) {
  if (length_ == 0) first_ = results.front();
  if (length_ > 0) decode_seconds_ += results.front().queue_seconds + results.front().prompt_seconds;
  const std::vector<Candidate> candidates = this->candidates(results);
  const bool last = ++length_ == max_tokens_;
  std::vector<Beam> next;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const bool stops_here = stops(candidates[i].token.id);
    if (stops_here || last) {
      // Of those that end only the first are texts; the others were looked at so that enough go on.
      if (i < width()) end(longer(candidates[i]), stops_here ? StopReason::stop_token : last_);
    } else if (next.size() < width()) {
      next.push_back(longer(candidates[i]));
    }
    if (i >= width() && (last || next.size() == width())) break;
  }
  running_ = std::move(next);
  const bool enough = ended_.size() == width() && options_.early_stopping == EarlyStopping::yes;
  finished_ = last || running_.empty() || enough || !can_improve();
}

std::vector<BeamText> BeamSearch::texts() const {
  std::vector<BeamText> texts;
  for (const Beam& beam : ended_) {
    BeamText text{.generation = {.tokens = beam.tokens, .logprobs = beam.logprobs, .reason = beam.reason},
                  .score = beam.score};
    Generation& g = text.generation;
    if (beam.reason == StopReason::stop_token) {
      g.stop_token = g.tokens.back();
      g.tokens.pop_back();
      if (!g.logprobs.empty()) g.logprobs.pop_back();
    }
    g.cached_tokens = first_.cached_tokens;
    g.queue_seconds = first_.queue_seconds;
    g.prompt_seconds = first_.prompt_seconds;
    g.decode_seconds = decode_seconds_;
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<BeamText> beam_search(Engine& engine, const Request& request, const BeamOptions& options) {
  Request held = request;
  engine.hold_adapter(held);
  BeamSearch search(std::move(held), options, engine);
  while (!search.finished()) {
    std::vector<std::shared_ptr<Sequence>> sequences;
    const auto cancel_rest = [&] {
      for (const auto& sequence : sequences) engine.cancel(*sequence);  // where an error came in between
    };
    try {
      for (Request& next : search.requests()) sequences.push_back(engine.start(std::move(next)));
      while (!std::ranges::all_of(sequences, &Sequence::finished)) engine.step();
    } catch (...) {
      cancel_rest();
      throw;
    }
    std::vector<Generation> results;
    results.reserve(sequences.size());
    for (const auto& sequence : sequences) results.push_back(sequence->result());
    if (std::ranges::any_of(results, [](const Generation& g) { return g.logprobs.empty(); })) return {};
    search.take(results);
  }
  return search.texts();
}

}  // namespace ingot::infer
