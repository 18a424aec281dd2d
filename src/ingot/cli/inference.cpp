#include "ingot/cli/inference.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/cli/arguments.h"
#include "ingot/core/device_config.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/load.h"
#include "ingot/models/open_tokenizer.h"

namespace ingot::cli {

void add_inference_options(Command& verb, InferenceOptions& o) {
  verb.option("model", o.model, "Model directory (config.json, weights, tokenizer.json), or a .gguf file")
      .required();
  add_run_options(verb, o);
}

void add_run_options(Command& verb, InferenceOptions& o) {
  add_device_option(verb, o.device);
  verb.option("--format", o.format,
              "Weights as stored, or f32, bf16, f16, q8_0, q4_k, ...: rounded when the model is loaded");
  verb.option(
      "--packed-cache", o.packed_cache,
      "Where packed weights are kept for the next start: auto (beside the model), off, or a directory");
  verb.option("--kv-cache", o.kv_cache,
              "What keys and values are kept in; auto: f16, but f32 where weights are f32")
      .one_of({"auto", "f32", "bf16", "f16", "i8"});
  verb.option("--context", o.context, "Tokens of a text at most; 0: the model's own limit");
  verb.option("--chunk", o.chunk, "Tokens of a prompt that go through the model at once");
  verb.option("--speculate", o.speculate,
              "Tokens to guess ahead from repetitions, up to 7; the text stays the same");
  verb.option("--threads", o.threads, "Threads; 0: one per processor");
  verb.flag("--eager", o.eager, "On a card: launch kernel by kernel, not the captured step of a token");
}

void add_sampling_options(Command& verb, SamplingFlags& o) {
  verb.option("-n,--max-tokens", o.max_tokens, "Tokens to write at most");
  verb.option("-t,--temperature", o.sampling.temperature, "0 is always the likeliest; higher is freer");
  verb.option("--top-k", o.sampling.top_k, "Draw among the k likeliest; 0: all");
  verb.option("--top-p", o.sampling.top_p, "Draw among the likeliest that reach this probability together");
  verb.option("--min-p", o.sampling.min_p, "Drop tokens less likely than this times the likeliest");
  verb.option("--repetition-penalty", o.sampling.repetition_penalty, "Above 1 avoids what was said");
  verb.option("--seed", o.sampling.seed, "The same seed writes the same text");
}

infer::Request SamplingFlags::request() const {
  infer::Request request;
  request.max_tokens = max_tokens;
  request.sampling = sampling;
  return request;
}

std::unique_ptr<LanguageModel> open_model(const InferenceOptions& o) {
  INGOT_CHECK(o.threads >= 0,
              InvalidConfig("--threads", fmt::format("must be positive, or 0 for all, got {}", o.threads)));
  if (o.threads > 0) set_num_threads(static_cast<int>(o.threads));
  return infer::load_model(o.model, o.format == "as stored" ? std::string() : o.format,
                           {.where = o.packed_cache}, choose_device(o.device));
}

infer::EngineOptions engine_options(const InferenceOptions& o) {
  infer::EngineOptions options{.context = o.context, .chunk = o.chunk, .capture = !o.eager};
  if (o.kv_cache != "auto") options.kv_cache = parse_dtype(o.kv_cache);
  return options;
}

InferenceModel open_for_inference(const InferenceOptions& options) {
  InferenceOptions o = options;
  o.model = hub::resolve_model(o.model);
  return {o.model, open_model(o), open_tokenizer(o.model), engine_options(o)};
}

std::vector<std::int32_t> encode_prompt(const InferenceModel& opened, const std::string& prompt) {
  std::vector<std::int32_t> ids = opened.tokenizer.encode(prompt);
  if (!ids.empty()) return ids;
  const LanguageConfig& config = opened.model->config;
  const std::int64_t first = config.bos_token_id >= 0 ? config.bos_token_id : config.eos_token_id;
  INGOT_CHECK(first >= 0, InvalidConfig("--prompt", "is empty, and the model names no token to begin with"));
  return {static_cast<std::int32_t>(first)};
}

std::vector<std::int32_t> end_tokens(const InferenceModel& opened) {
  std::vector<std::int32_t> ids;
  if (opened.model->config.eos_token_id >= 0) {
    ids.push_back(static_cast<std::int32_t>(opened.model->config.eos_token_id));
  }
  const auto named = opened.tokenizer.eos_id();
  if (named.has_value() && std::ranges::find(ids, *named) == ids.end()) ids.push_back(*named);
  return ids;
}

}  // namespace ingot::cli
