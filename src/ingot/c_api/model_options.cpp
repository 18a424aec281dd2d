// Structs of options of the C API, and those of C++ that they stand for.
#include "ingot/base/error.h"
#include "ingot/c_api/inner/generation.h"

using namespace ingot;
using namespace ingot::c_api;

namespace ingot::c_api {
namespace {

IngotGenerateOptions c_options(const infer::TextOptions& o) {
  const SamplingOptions& s = o.sampling;
  IngotGenerateOptions c{};
  c.size = sizeof c;
  c.max_tokens = o.max_tokens;
  c.min_tokens = s.min_tokens;
  c.temperature = s.temperature;
  c.top_k = s.top_k;
  c.top_p = s.top_p;
  c.min_p = s.min_p;
  c.typical_p = s.typical_p;
  c.top_n_sigma = s.top_n_sigma;
  c.xtc_probability = s.xtc_probability;
  c.xtc_threshold = s.xtc_threshold;
  c.mirostat = s.mirostat;
  c.mirostat_tau = s.mirostat_tau;
  c.mirostat_eta = s.mirostat_eta;
  c.repetition_penalty = s.repetition_penalty;
  c.presence_penalty = s.presence_penalty;
  c.frequency_penalty = s.frequency_penalty;
  c.no_repeat_ngram_size = s.no_repeat_ngram_size;
  c.dry_multiplier = s.dry.multiplier;
  c.dry_base = s.dry.base;
  c.dry_allowed_length = s.dry.allowed_length;
  c.seed = s.seed;
  c.ignore_end_tokens = o.ignore_end_tokens ? 1 : 0;
  c.speculate = o.speculate;
  c.logprobs = o.logprobs;
  return c;
}

std::vector<std::string> strings_arg(const char* const* strings, std::size_t count, const char* argument) {
  std::vector<std::string> all;
  all.reserve(count);
  for (const char* one : array_arg(strings, count, argument)) all.push_back(string_arg(one, argument));
  return all;
}

infer::Constraint constraint_of(const IngotGenerateOptions& c) {
  using Kind = infer::Constraint::Kind;
  const auto source = [&](Kind kind) {
    return infer::Constraint{.kind = kind,
                             .source = string_arg(c.constraint_source, "options.constraint_source")};
  };
  switch (c.constraint) {
    case INGOT_CONSTRAINT_NONE:
      return {};
    case INGOT_CONSTRAINT_JSON_OBJECT:
      return {.kind = Kind::json_object};
    case INGOT_CONSTRAINT_JSON_SCHEMA:
      return source(Kind::json_schema);
    case INGOT_CONSTRAINT_REGEX:
      return source(Kind::regex);
    case INGOT_CONSTRAINT_CHOICE:
      return {.kind = Kind::choice, .choices = strings_arg(c.choices, c.choice_count, "options.choices")};
    case INGOT_CONSTRAINT_GRAMMAR:
      return infer::grammar_constraint(source(Kind::gbnf).source);
    default:
      throw InvalidArgument("options.constraint", "is none of INGOT_CONSTRAINT_...");
  }
}

LogitsProcessor processor_of(const IngotGenerateOptions& c) {
  if (c.logits_processor == nullptr) return {};
  return [call = c.logits_processor, user = c.logits_processor_user](std::span<float> logits,
                                                                     std::span<const std::int32_t> history) {
    const std::int32_t ended = call(logits.data(), logits.size(), history.data(), history.size(), user);
    if (ended != 0) throw Error("the logits processor ended the request with " + std::to_string(ended));
  };
}

}  // namespace

infer::TextOptions text_options(const infer::Session& session, const IngotGenerateOptions* options) {
  infer::TextOptions o = session.options();
  if (options == nullptr) return o;
  const IngotGenerateOptions c = options_or(options, c_options(o));
  o.max_tokens = c.max_tokens;
  o.ignore_end_tokens = c.ignore_end_tokens != 0;
  o.speculate = c.speculate;
  o.logprobs = c.logprobs;
  o.stop = strings_arg(c.stop, c.stop_count, "options.stop");
  o.bad_words = strings_arg(c.bad_words, c.bad_word_count, "options.bad_words");
  o.constraint = constraint_of(c);
  SamplingOptions& s = o.sampling;
  s.temperature = c.temperature;
  s.min_tokens = c.min_tokens;
  s.top_k = c.top_k;
  s.top_p = c.top_p;
  s.min_p = c.min_p;
  s.typical_p = c.typical_p;
  s.top_n_sigma = c.top_n_sigma;
  s.xtc_probability = c.xtc_probability;
  s.xtc_threshold = c.xtc_threshold;
  s.mirostat = c.mirostat;
  s.mirostat_tau = c.mirostat_tau;
  s.mirostat_eta = c.mirostat_eta;
  s.repetition_penalty = c.repetition_penalty;
  s.presence_penalty = c.presence_penalty;
  s.frequency_penalty = c.frequency_penalty;
  s.no_repeat_ngram_size = c.no_repeat_ngram_size;
  s.dry.multiplier = c.dry_multiplier;
  s.dry.base = c.dry_base;
  s.dry.allowed_length = c.dry_allowed_length;
  s.seed = c.seed;
  s.logits_processor = processor_of(c);
  const auto ids = array_arg(c.logit_bias_ids, c.logit_bias_count, "options.logit_bias_ids");
  const auto biases = array_arg(c.logit_biases, c.logit_bias_count, "options.logit_biases");
  s.logit_bias.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) s.logit_bias.emplace_back(ids[i], biases[i]);
  return o;
}

}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_session_options(IngotSessionOptions* options, size_t size) {
  return call(__func__, [&] {
    IngotSessionOptions defaults{};
    defaults.chunk = infer::EngineOptions{}.chunk;
    fill_options(options, size, defaults);
  });
}

IngotStatus ingot_generate_options(const IngotSession* session, IngotGenerateOptions* options, size_t size) {
  return call(__func__, [&] {
    fill_options(
        options, size,
        c_options(session == nullptr ? infer::TextOptions{} : object_of(session)->session.options()));
  });
}

}  // extern "C"
