#include "ingot/data/encoder_parts.h"

#include <fmt/format.h>

#include "ingot/base/hash.h"

namespace ingot::data {

std::string encoder_identity(const text::Tokenizer& tokenizer, const std::string& kind,
                             const std::string& options) {
  const text::TokenizerConfig& config = tokenizer.config();
  return sha256_hex(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", kind, sha256_hex(tokenizer.to_json()),
                                config.bos_token, config.eos_token, config.eot_token, config.pad_token,
                                options));
}

std::function<std::string(const EncodedSample&)> token_shower(const text::Tokenizer& tokenizer) {
  return [tokenizer](const EncodedSample& sample) { return tokenizer.decode(sample.tokens, false); };
}

std::vector<std::int32_t> encode_prompt(const text::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<std::int32_t> ids = tokenizer.encode(prompt);
  if (tokenizer.eos_id() && !ids.empty() && ids.back() == *tokenizer.eos_id()) ids.pop_back();
  return ids;
}

}  // namespace ingot::data
