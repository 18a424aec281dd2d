#pragma once

#include <cstdint>
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

}  // namespace ingot::serve
