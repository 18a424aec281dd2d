#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/data/token_cache.h"

namespace ingot::data {

/// A tokenizer whose ids are the bytes; 256 ends a document.
inline TokenEncoder byte_encoder() {
  TokenEncoder encoder;
  encoder.vocab_size = 257;
  encoder.identity = "bytes";
  encoder.eos_id = 256;
  encoder.encode_batch = [](std::span<const std::string_view> texts) {
    std::vector<std::vector<std::int32_t>> ids;
    for (const std::string_view text : texts) {
      ids.emplace_back();
      for (const char c : text) ids.back().push_back(static_cast<unsigned char>(c));
    }
    return ids;
  };
  return encoder;
}

inline std::vector<std::int32_t> tokens_of(const TokenStore& store) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(store.size()));
  store.read(0, tokens);
  return tokens;
}

/// Documents of the given lengths; token i of the store is i.
inline std::shared_ptr<const TokenStore> counting_store(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> ends;
  for (const std::int64_t length : lengths) {
    for (std::int64_t i = 0; i < length; ++i) tokens.push_back(static_cast<std::int32_t>(tokens.size()));
    ends.push_back(static_cast<std::int64_t>(tokens.size()));
  }
  const auto vocab = static_cast<std::int64_t>(tokens.size()) + 1;
  return std::make_shared<const TokenStore>(std::move(tokens), std::move(ends), vocab);
}

}  // namespace ingot::data
