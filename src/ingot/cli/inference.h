#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ingot/cli/command.h"
#include "ingot/infer/engine.h"
#include "ingot/text/tokenizer.h"

namespace ingot::cli {

/// What the verbs that run a model share.
struct InferenceOptions {
  std::string model, device = "auto", format = "as stored", kv_cache = "auto", packed_cache = "auto";
  std::int64_t context = 0, chunk = 512, threads = 0, speculate = 0;
  bool eager = false;
};
void add_inference_options(Command& verb, InferenceOptions& options);
/// The same without the model itself.
void add_run_options(Command& verb, InferenceOptions& options);

/// How words are chosen, as options.
struct SamplingFlags {
  std::int64_t max_tokens = 256;
  SamplingOptions sampling;
  infer::Request request() const;
};
void add_sampling_options(Command& verb, SamplingFlags& flags);

/// A model with its weights in the format asked for. `model` may be gone through hub::resolve_model.
std::unique_ptr<LanguageModel> open_model(const InferenceOptions& options);
infer::EngineOptions engine_options(const InferenceOptions& options);

struct InferenceModel {
  std::string path;
  std::unique_ptr<LanguageModel> model;
  text::Tokenizer tokenizer;
  infer::EngineOptions engine;
};
InferenceModel open_for_inference(const InferenceOptions& options);

/// The prompt's ids; for an empty one the token that the model begins with.
std::vector<std::int32_t> encode_prompt(const InferenceModel& opened, const std::string& prompt);
/// What ends a text: the model's end token and the tokenizer's.
std::vector<std::int32_t> end_tokens(const InferenceModel& opened);

}  // namespace ingot::cli
