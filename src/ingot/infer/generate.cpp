#include "ingot/infer/generate.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Long prompts go through the model in pieces: activations stay small, and the rate is as high as in one
// piece.
constexpr std::int64_t kPromptChunk = 512;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs `tokens` and returns the logits after the last one.
std::vector<float> last_logits(const LanguageModel& model, std::span<const std::int32_t> tokens,
                               KvCache& cache) {
  Tensor last;
  for (std::size_t at = 0; at < tokens.size(); at += kPromptChunk) {
    const auto piece = tokens.subspan(at, std::min<std::size_t>(kPromptChunk, tokens.size() - at));
    const Tensor ids = Tensor::from(piece, {1, static_cast<std::int64_t>(piece.size())});
    const Tensor hidden = model.hidden({.tokens = ids}, &cache);
    last = narrow(hidden, 1, hidden.dim(1) - 1, 1);
  }
  return contiguous(to(model.logits(contiguous(last)), DType::f32)).to_vector<float>();
}

}  // namespace

void GenerateOptions::validate() const {
  INGOT_CHECK(max_tokens > 0,
              InvalidConfig("max_tokens", fmt::format("must be at least 1, got {}", max_tokens)));
  sampling.validate();
}

Generation generate(const LanguageModel& model, std::span<const std::int32_t> prompt,
                    const GenerateOptions& options, const std::function<bool(std::int32_t)>& on_token) {
  options.validate();
  const NoGrad no_grad;
  const auto prompt_length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t context = model.config.max_position_embeddings;
  INGOT_CHECK(prompt_length > 0, DimensionMismatch("generate: the prompt is empty; give at least one token"));
  INGOT_CHECK(prompt_length <= context,
              DimensionMismatch(
                  fmt::format("generate: the prompt has {} tokens, the model's context is {}; shorten it",
                              prompt_length, context)));
  for (const std::int32_t id : prompt) {
    INGOT_CHECK(id >= 0 && id < model.config.vocab_size,
                DimensionMismatch(fmt::format("generate: token id {} is outside the vocabulary of {}", id,
                                              model.config.vocab_size)));
  }
  KvCache cache(model.config, 1, std::min(context, prompt_length + options.max_tokens), model.config.dtype);
  Sampler sampler(options.sampling);
  std::vector<std::int32_t> history(prompt.begin(), prompt.end());
  Generation result;
  auto start = std::chrono::steady_clock::now();
  std::vector<float> logits = last_logits(model, prompt, cache);
  result.prompt_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  while (true) {
    const std::int32_t token = sampler(logits, history);
    if (std::ranges::find(options.stop_tokens, token) != options.stop_tokens.end()) {
      result.reason = StopReason::stop_token;
      break;
    }
    result.tokens.push_back(token);
    history.push_back(token);
    if (on_token && !on_token(token)) {
      result.reason = StopReason::cancelled;
      break;
    }
    if (static_cast<std::int64_t>(result.tokens.size()) == options.max_tokens) break;
    if (cache.length() == context) {
      result.reason = StopReason::context_full;
      break;
    }
    logits = last_logits(model, std::span(&token, 1), cache);
  }
  result.decode_seconds = seconds_since(start);
  return result;
}

}  // namespace ingot
