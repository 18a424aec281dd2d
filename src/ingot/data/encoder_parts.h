#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ingot/data/sample_encoder.h"
#include "ingot/text/tokenizer.h"

namespace ingot::data {

inline constexpr text::EncodeOptions kNoSpecialTokens{.add_special_tokens = false};

/// SampleEncoder::identity of a kind of encoder: changes with the tokenizer and with `options`.
std::string encoder_identity(const text::Tokenizer& tokenizer, const std::string& kind,
                             const std::string& options);
/// SampleEncoder::show.
std::function<std::string(const EncodedSample&)> token_shower(const text::Tokenizer& tokenizer);
/// The prompt as the model begins a text, without what may end it.
std::vector<std::int32_t> encode_prompt(const text::Tokenizer& tokenizer, const std::string& prompt);

}  // namespace ingot::data
