#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "ingot/infer/engine.h"
#include "ingot/text/tokenizer.h"

namespace ingot::serve {

/// The bytes that a token stands for behind others; of a special token its name.
std::string token_bytes(const text::Tokenizer& tokenizer, std::int32_t id);

/// One entry of the chat API's logprobs.content: token, logprob, bytes, top_logprobs.
nlohmann::ordered_json chat_logprob(const text::Tokenizer& tokenizer, std::int32_t id,
                                    const infer::DrawnLogprob& drawn);

/// vLLM's prompt_logprobs: null for the first token, then {"ID": {logprob, rank, decoded_token}, ...} with
/// the token itself and the `top` most probable ones.
nlohmann::ordered_json prompt_logprobs(const text::Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                                       std::span<const infer::PromptLogprob> logprobs, std::int64_t top);

}  // namespace ingot::serve
