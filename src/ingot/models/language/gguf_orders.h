#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ingot/models/language/config.h"
#include "ingot/weights/transform.h"

// Orders and factors of weights that GGUF files have and checkpoints do not. Row i of the result is row
// order[i] of what is given.
namespace ingot {

/// Heads of gated delta nets. Each key head is that of neighbouring value heads in checkpoints.
struct DeltaSizes {
  std::int64_t key_heads = 0, value_heads = 0, key_size = 0, value_size = 0;

  static DeltaSizes of(const LanguageConfig& c) {
    return {c.linear_num_key_heads, c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim};
  }
  std::int64_t keys() const { return key_heads * key_size; }
  std::int64_t values() const { return value_heads * value_size; }
  /// Qwen 3 Next's queries, keys, values and gates of each key head -> all queries, all keys and so on.
  std::vector<std::int64_t> all_of_each() const;
  /// Qwen 3.5's files: value heads of all key heads are interleaved, the first of each, and then the second.
  /// The step for a part of a layer ("attn_qkv", "ssm_out"), to GGUF or from it; none where it has no value
  /// heads.
  std::vector<Transform> tiled(std::string_view part, bool to_gguf) const;
};

/// The order that undoes `order`.
std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order);

/// Of heads of `size` rows whose first `rotated` ones rotate: from halves that rotate together to pairs.
std::vector<std::int64_t> rotary_pairs(std::int64_t heads, std::int64_t size, std::int64_t rotated);

/// Falcon H1's multipliers are in the weights of a file: the same model without them.
LanguageConfig without_multipliers(LanguageConfig c);
/// What they do to a part ("attn_k", "token_embd") of such a model, weight or bias; none: nothing.
std::vector<Transform> multipliers_of(std::string_view part, bool bias, const LanguageConfig& c);

}  // namespace ingot
