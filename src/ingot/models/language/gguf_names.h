#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/weights/transform.h"

namespace ingot {

/// What llama.cpp's converters do to the values of a tensor on the way from a Hugging Face checkpoint.
enum class GgufChange : std::uint8_t {
  none,
  query_rows,   ///< rows of each query head from halves to pairs that rotate together
  key_rows,     ///< of each key head
  transposed,   ///< GPT-2's Conv1D layers store [in, out]
  plus_one,     ///< Gemma's and Nemotron's norms multiply by 1 + weight; GGUF stores the sum
  one_row,      ///< [1, in] in a checkpoint, [in] in GGUF
  conv_taps,    ///< [channels, 1, taps] in a checkpoint, [channels, taps] of f32 in GGUF
  fused_heads,  ///< query, key and value of each head one below the other; in GGUF all queries, keys, values
  grouped_heads,  ///< likewise where groups of queries share a key and a value (Falcon)
  experts,        ///< all experts of a layer in one tensor [experts, out, in]
  latent_keys,    ///< kv_b_proj's part that makes keys, [heads, kv_lora_rank, qk_nope_head_dim]; read alone
  latent_values,  ///< and the one that makes values, whose rule follows, [heads, v_head_dim, kv_lora_rank]
  // Of those below a checkpoint's name has no ".weight", and biases are "_bias".
  bare,         ///< no change
  bare_row,     ///< as one_row
  first_turn,   ///< [experts, in, 2 · out], out in turns; in GGUF two stacks [experts, out, in]: this one
  second_turn,  ///< and this one, whose rule follows
  transposed_stack  ///< [experts, in, out]; in GGUF [experts, out, in]
};
/// Whether a checkpoint's names lack ".weight".
constexpr bool is_bare(GgufChange change) { return change >= GgufChange::bare; }

/// One tensor's two names, without ".weight" and ".bias", which are the same in both but for is_bare(). `*`
/// stands for the layer,
/// `#` for the expert.
struct GgufNameRule {
  std::string_view gguf;          ///< "blk.*.attn_q"
  std::string_view hugging_face;  ///< "model.layers.*.self_attn.q_proj"
  GgufChange change = GgufChange::none;
};

enum class GgufKeyKind : std::uint8_t { integer, number, boolean };

/// One metadata value's two names.
struct GgufKeyRule {
  std::string_view gguf;          ///< behind "<architecture>."
  std::string_view hugging_face;  ///< in config.json
  GgufKeyKind kind = GgufKeyKind::integer;
};

/// A family of models as GGUF files describe it.
struct GgufFamily {
  std::string_view architecture = {};  ///< GGUF's general.architecture
  std::span<const GgufNameRule> names = {};
  std::span<const GgufKeyRule> keys = {};
  /// Metadata that one side leaves out because the family fixes it; empty or a JSON object for config.json.
  std::string_view fixed = "{}";
  /// Of mixtures newer than expert_gating_func: softmax 1, sigmoid 2, softmax of the chosen 3.
  std::optional<std::int64_t> gating = {};
};

struct LanguageFamily;
/// The family of a GGUF file, by general.architecture; Mixtral calls itself "llama" and is told by its
/// experts. Null where it is not known.
const LanguageFamily* find_gguf_family(std::string_view architecture, bool has_experts);
std::vector<std::string> known_gguf_architectures();

/// A rule that fits a name, with the numbers that its stars stand for (-1: none).
struct GgufNameMatch {
  const GgufNameRule* rule = nullptr;
  std::int64_t layer = -1, expert = -1;
  std::string suffix;  ///< ".weight", ".bias": in GGUF

  std::string gguf() const;
  std::string hugging_face() const;
  std::string hugging_face(std::int64_t expert_number) const;
};
/// The rows of a fused projection (or its bias), [outer, inner, head] of them, with outer and inner
/// exchanged.
std::vector<Transform> exchanged_groups(const TensorInfo& info, std::int64_t outer, std::int64_t inner,
                                        std::int64_t head);

/// Groups of queries that share a key and a value, in one matrix of rows (or its bias).
struct GroupedHeads {
  std::int64_t groups, queries, head;  ///< of each group so many queries; sizes of heads

  /// Queries, keys and values of a checkpoint's matrix, which has one group below the other.
  std::vector<std::vector<Transform>> taken_apart(bool matrix) const;
  /// Those of a GGUF file's, as parts of the groups: on axis 1 one behind the other, then whole(), they are
  /// the checkpoint's.
  std::vector<std::vector<Transform>> grouped(bool matrix) const;
  std::vector<Transform> whole(bool matrix) const;
};

/// Where a key of config.json is, which may stand in an object: "attn_config.clip_qkv".
std::string json_pointer(std::string_view key);

std::optional<GgufNameMatch> match_gguf_name(const GgufFamily& family, std::string_view name);
std::optional<GgufNameMatch> match_hugging_face_name(const GgufFamily& family, std::string_view name);

}  // namespace ingot
