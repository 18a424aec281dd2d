#include "ingot/data/tokenizer_encoder.h"

#include "ingot/base/hash.h"
#include "ingot/base/scope.h"

namespace ingot::data {
namespace {

constexpr text::EncodeOptions kPlain{.add_special_tokens = false};

/// Whether a text can be encoded in two, cut between a newline and a letter. Tried rather than derived: it
/// hangs together with the pattern, the normalizer and what is put before a text.
bool splits_at_lines(const text::Tokenizer& tokenizer) {
  if (!tokenizer.decodes_token_wise()) return false;
  for (const std::string before : {"word\n", "end. \n", "\n\n\n", "  x\t\n", "12\r\n", "it's\n", "{\n"}) {
    for (const std::string after : {"word", "Capital and more", "x = 1", "a\n\nb"}) {
      std::vector<std::int32_t> ids = tokenizer.encode(before, kPlain);
      const std::vector<std::int32_t> rest = tokenizer.encode(after, kPlain);
      ids.insert(ids.end(), rest.begin(), rest.end());
      if (tokenizer.encode(before + after, kPlain) != ids) return false;
    }
  }
  return true;
}

}  // namespace

TokenEncoder encoder_of(const text::Tokenizer& tokenizer) {
  TokenEncoder encoder;
  encoder.encode_batch = [tokenizer](std::span<const std::string_view> texts) {
    const Scope scope(ScopeKind::data, "tokenize");
    return tokenizer.encode_batch(texts, kPlain);
  };
  encoder.vocab_size = tokenizer.vocab_size();
  encoder.identity = sha256_hex(tokenizer.to_json());
  encoder.eos_id = tokenizer.eos_id();
  encoder.splits_at_lines = splits_at_lines(tokenizer);
  return encoder;
}

}  // namespace ingot::data
