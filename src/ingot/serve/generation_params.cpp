#include "ingot/serve/generation_params.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/random_seed.h"
#include "ingot/serve/api_error.h"
#include "ingot/serve/structured_output.h"

namespace ingot::serve {
namespace {

constexpr std::int64_t kMostChoices = 16, kMostTopLogprobs = 20, kMostStops = 32;
constexpr std::int64_t kMostBadWords = 1024, kMostBreakers = 64, kMostBreakerBytes = 256;
constexpr std::int64_t kMostStreamInterval = 1024, kMostAllowedTokens = 1 << 20;
constexpr double kMostSeconds = 86'400;

// What changes the text, and is not built: to pass over it would give something else than was asked for.
void refuse_unbuilt(const Fields& body) {
  for (const char* name : {"functions", "function_call", "audio"}) {
    if (body.has(name)) throw bad_field(name, "is not supported by this server");
  }
}

// vLLM's fields; early_stopping is transformers'. The texts are told from one another at the end, and with
// what changes on the way they would not be the most probable ones.
void read_beams(const Fields& body, GenerationParams& params) {
  infer::BeamOptions beams{.width = params.n};
  body.read("length_penalty", beams.length_penalty);
  const nlohmann::json* early = body.any("early_stopping");
  if (!body.boolean("use_beam_search").value_or(false)) {  // clients send the defaults of all fields
    if (beams.length_penalty != 1) throw bad_field("length_penalty", "needs 'use_beam_search': true");
    if (early != nullptr && *early != false)
      throw bad_field("early_stopping", "needs 'use_beam_search': true");
    return;
  }
  if (early != nullptr && early->is_boolean()) {
    beams.early_stopping = early->get<bool>() ? infer::EarlyStopping::yes : infer::EarlyStopping::no;
  } else if (early != nullptr && *early == "never") {
    beams.early_stopping = infer::EarlyStopping::never;
  } else if (early != nullptr) {
    throw bad_field("early_stopping",
                    fmt::format("is true, false or \"never\", got {}", excerpt(*early, 40)));
  }
  const auto refuse = [](const char* name) {
    throw bad_field(name, "does not go with 'use_beam_search': true; leave one of the two out");
  };
  if (params.stream) refuse("stream");
  if (params.best_of > params.n) refuse("best_of");
  if (params.prompt_logprobs >= 0) refuse("prompt_logprobs");
  if (!params.text.stop.empty()) refuse("stop");
  params.beams = beams;
}

void read_logit_bias(const Fields& body, SamplingOptions& sampling) {
  const nlohmann::json* bias = body.object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& [key, value] : bias->items()) {
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc{} || end != key.data() + key.size() || id < 0 || !value.is_number())
      throw bad_field("logit_bias",
                      fmt::format("maps token ids to numbers, got {}: {}", key, excerpt(value, 40)));
    // OpenAI's scale ends at -100, which rules a token out.
    const float added = value.get<float>();
    sampling.logit_bias.emplace_back(id, added <= -100 ? -std::numeric_limits<float>::infinity() : added);
  }
}

void read_allowed_tokens(const Fields& body, SamplingOptions& sampling) {
  auto allowed = body.ids("allowed_token_ids");
  if (!allowed) return;
  if (allowed->empty() || std::ssize(*allowed) > kMostAllowedTokens)
    throw bad_field("allowed_token_ids",
                    fmt::format("must hold 1 to {} token ids, got {}", kMostAllowedTokens, allowed->size()));
  sampling.allowed_tokens = std::move(*allowed);
}

// vLLM's name, or llama-server's; −1 is any number of tokens.
void read_thinking_budget(const Fields& body, std::int64_t& budget) {
  for (const char* name : {"thinking_token_budget", "thinking_budget_tokens"}) {
    body.read(name, budget);
    if (budget < -1) throw bad_field(name, fmt::format("must be -1 (no limit) or more, got {}", budget));
  }
}

void read_sampling(const Fields& body, SamplingOptions& s) {
  body.read("temperature", s.temperature);
  body.read("top_p", s.top_p);
  body.read("top_k", s.top_k);
  s.top_k = std::max<std::int64_t>(s.top_k, 0);  // vLLM's −1: all
  body.read("min_p", s.min_p);
  body.read("typical_p", s.typical_p);
  body.read("top_n_sigma", s.top_n_sigma);
  body.read("xtc_probability", s.xtc_probability);
  body.read("xtc_threshold", s.xtc_threshold);
  body.read("min_keep", s.min_keep);
  body.read("dynatemp_range", s.dynatemp_range);
  body.read("dynatemp_exponent", s.dynatemp_exponent);
  read_allowed_tokens(body, s);
  body.read("mirostat", s.mirostat);
  body.read("mirostat_tau", s.mirostat_tau);
  body.read("mirostat_eta", s.mirostat_eta);
  body.read("repeat_penalty", s.repetition_penalty);
  body.read("repetition_penalty", s.repetition_penalty);
  body.read("repeat_last_n", s.repeat_last_n);
  body.read("presence_penalty", s.presence_penalty);
  body.read("frequency_penalty", s.frequency_penalty);
  body.read("dry_multiplier", s.dry.multiplier);
  body.read("dry_base", s.dry.base);
  body.read("dry_allowed_length", s.dry.allowed_length);
  body.read("dry_penalty_last_n", s.dry.last_n);
  body.read("no_repeat_ngram_size", s.no_repeat_ngram_size);
  body.read("min_tokens", s.min_tokens);
  read_logit_bias(body, s);
  const auto seed = body.integer("seed");
  s.seed = seed && *seed >= 0 ? static_cast<std::uint64_t>(*seed) : random_seed();
}

void check_between(const char* field, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    throw bad_field(field, fmt::format("must be {} to {}, got {}", least, most, value));
}

}  // namespace

GenerationParams read_params(const Fields& body, const infer::TextOptions& defaults) {
  refuse_unbuilt(body);
  GenerationParams params{.text = defaults};
  params.text.constraint = read_constraint(body);
  read_sampling(body, params.text.sampling);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (const auto tokens = body.integer(name)) params.max_tokens = tokens;
  }
  if (params.max_tokens) check_between("max_tokens", *params.max_tokens, 1, 1 << 30);
  if (const auto stop = body.strings("stop"))
    params.text.stop.insert(params.text.stop.end(), stop->begin(), stop->end());
  check_between("stop", std::ssize(params.text.stop), 0, kMostStops);
  params.stop_tokens = body.ids("stop_token_ids").value_or(std::vector<std::int32_t>());
  if (const auto words = body.strings("bad_words")) params.text.bad_words = *words;
  check_between("bad_words", std::ssize(params.text.bad_words), 0, kMostBadWords);
  if (const auto breakers = body.strings("dry_sequence_breakers")) {
    check_between("dry_sequence_breakers", std::ssize(*breakers), 0, kMostBreakers);
    for (const std::string& breaker : *breakers)
      if (std::ssize(breaker) > kMostBreakerBytes)
        throw bad_field("dry_sequence_breakers", fmt::format("has a string of {} bytes; {} are the most",
                                                             breaker.size(), kMostBreakerBytes));
    params.text.dry_sequence_breakers = *breakers;
  }
  body.read("ignore_eos", params.text.ignore_end_tokens);
  body.read("include_stop_str_in_output", params.text.include_stop);
  read_thinking_budget(body, params.text.thinking_budget);
  body.read("skip_special_tokens", params.special.skip);
  body.read("n", params.n);
  check_between("n", params.n, 1, kMostChoices);
  params.best_of = params.n;
  body.read("best_of", params.best_of);
  check_between("best_of", params.best_of, params.n, kMostChoices);
  params.priority = body.integer("priority");
  params.timeout = body.number("timeout");
  if (params.timeout && !(*params.timeout > 0 && *params.timeout <= kMostSeconds))
    throw bad_field("timeout", fmt::format("must be above 0 and at most {} seconds, got {}", kMostSeconds,
                                           *params.timeout));
  body.read("stream", params.stream);
  if (body.has("stream_interval")) {
    params.stream_interval = *body.integer("stream_interval");
    check_between("stream_interval", params.stream_interval, 1, kMostStreamInterval);
  }
  if (const nlohmann::json* options = body.object("stream_options")) {
    if (!params.stream) throw bad_field("stream_options", "needs 'stream': true");
    Fields(*options, "stream_options.").read("include_usage", params.usage_in_stream);
  }
  // The chat API has a switch and a number, the older one a number.
  const nlohmann::json* logprobs = body.any("logprobs");
  if (logprobs != nullptr && logprobs->is_boolean()) {
    if (logprobs->get<bool>()) params.logprobs = body.integer("top_logprobs").value_or(0);
  } else if (logprobs != nullptr) {
    params.logprobs = *body.integer("logprobs");
  }
  if (logprobs != nullptr) check_between("top_logprobs", params.logprobs, -1, kMostTopLogprobs);
  body.read("prompt_logprobs", params.prompt_logprobs);
  check_between("prompt_logprobs", params.prompt_logprobs, -1, kMostTopLogprobs);
  if (params.stream && params.prompt_logprobs >= 0)
    throw bad_field("prompt_logprobs", "come with answers at once alone, not with 'stream': true");
  if (params.best_of > params.n && (params.stream || params.prompt_logprobs >= 0))
    throw bad_field("best_of", "above n goes neither with 'stream': true nor with prompt_logprobs");
  if (body.has("top_logprobs") && params.logprobs < 0)
    throw bad_field("top_logprobs", "needs 'logprobs': true");
  read_beams(body, params);
  return params;
}

void keep_to_one_choice(GenerationParams& params) {
  if (params.beams)
    throw bad_field("use_beam_search", "is for /v1/completions and /v1/chat/completions alone; leave it out");
  params.n = params.best_of = 1;
}

infer::Request engine_request(const infer::Session& session, const GenerationParams& params) {
  infer::TextOptions options = params.text;
  options.max_tokens = params.max_tokens.value_or(options.max_tokens);
  infer::Request request = session.request({}, options);
  request.stop_tokens.insert(request.stop_tokens.end(), params.stop_tokens.begin(), params.stop_tokens.end());
  // The best are those whose tokens the model finds most probable.
  request.logprobs = params.best_of > params.n ? std::max<std::int64_t>(params.logprobs, 0) : params.logprobs;
  request.prompt_logprobs = params.prompt_logprobs;
  request.adapter = params.adapter;
  request.held_adapter = params.held_adapter;
  return request;
}

infer::Request request_of_choice(const infer::Request& request, std::vector<std::int32_t> prompt,
                                 std::int64_t choice) {
  infer::Request own = request;
  own.prompt = std::move(prompt);
  own.sampling.seed += static_cast<std::uint64_t>(choice);
  return own;
}

}  // namespace ingot::serve
