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
  group_rows,   ///< the norm of Mamba 2: [inner] in a checkpoint, a row for each group in GGUF
  first_half,   ///< rows of two matrices one below the other, or of a stack of those; in GGUF two: this one
  second_half,  ///< and this one, whose rule follows
  /// Qwen 3 Next's queries, keys, values and gates, group by group; in GGUF all queries, keys and values
  first_of_groups,
  second_of_groups,  ///< and all gates, whose rule follows
  // Of Mamba 2, by names without ".weight" on both sides: [heads] in a checkpoint, [heads, 1] of f32 in GGUF.
  decay,        ///< A_log, in GGUF −exp(A_log)
  column,       ///< no change of values
  decay_row,    ///< of a gated delta net, [heads] on both sides; in GGUF −exp(A_log)
  whole,        ///< no change, and no ".weight" on either side
  unsuffixed,   ///< a weight whose name in GGUF has no ".weight"
  fused_heads,  ///< query, key and value of each head one below the other; in GGUF all queries, keys, values
  grouped_heads,  ///< likewise where groups of queries share a key and a value (Falcon)
  experts,        ///< all experts of a layer, or AltUp's projections, in one tensor [experts, out, in]
  latent_keys,    ///< kv_b_proj's part that makes keys, [heads, kv_lora_rank, qk_nope_head_dim]; read alone
  latent_values,  ///< and the one that makes values, whose rule follows, [heads, v_head_dim, kv_lora_rank]
  // Of those below a checkpoint's name has no ".weight", and biases are "_bias".
  bare,                ///< no change
  bare_row,            ///< as one_row
  first_interleaved,   ///< [experts, in, 2 · out], interleaved; in GGUF two stacks [experts, out, in]: this
                       ///< one
  second_interleaved,  ///< and this one, whose rule follows
  transposed_stack,    ///< [experts, in, out]; in GGUF [experts, out, in]
  first_columns,       ///< [experts, in, 2 · out], one half behind the other; in GGUF two stacks: this one
  second_columns       ///< and this one, whose rule follows
};
/// Whether a checkpoint's names lack ".weight".
constexpr bool is_bare(GgufChange change) { return change >= GgufChange::bare; }

/// Whether the name in GGUF has no ".weight".
constexpr bool is_whole(GgufChange change) {
  return change == GgufChange::decay || change == GgufChange::column || change == GgufChange::decay_row ||
         change == GgufChange::whole || change == GgufChange::unsuffixed;
}

/// Whether the tensor becomes two, of which the rule that follows names the second.
constexpr bool has_second(GgufChange change) {
  return change == GgufChange::first_interleaved || change == GgufChange::first_half ||
         change == GgufChange::first_columns || change == GgufChange::first_of_groups;
}

/// One tensor's two names, without ".weight" and ".bias", which are the same in both but for is_bare(). `*`
/// stands for the layer,
/// `#` for the expert.
struct GgufNameRule {
  std::string_view gguf;          ///< "blk.*.attn_q"
  std::string_view hugging_face;  ///< "model.layers.*.self_attn.q_proj"
  GgufChange change = GgufChange::none;
};

/// A tensor of one number that every layer has, and GGUF files have among their metadata: a list of all
/// layers', or one number for all.
struct GgufLayerNumber {
  std::string_view gguf;          ///< the whole key: "xielu.beta"
  std::string_view hugging_face;  ///< "model.layers.*.mlp.act_fn.beta"
  bool scalar = false;            ///< in checkpoints its shape is [], not [1]
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
  std::string_view architecture = {};         ///< GGUF's general.architecture
  std::string_view expert_architecture = {};  ///< of models with experts; empty: the same
  std::span<const GgufNameRule> names = {};
  std::span<const GgufKeyRule> keys = {};
  /// Instead of names in models with experts; empty: the same names.
  std::span<const GgufNameRule> expert_names = {};
  /// Metadata that one side leaves out because the family fixes it; empty or a JSON object for config.json.
  std::string_view fixed = "{}";
  /// Of mixtures newer than expert_gating_func: softmax 1, sigmoid 2, softmax of the chosen 3.
  std::optional<std::int64_t> gating = {};
  std::span<const GgufLayerNumber> layer_numbers = {};
  bool read_only = false;  ///< llama.cpp would run another model
};

/// The family with the names of its models with experts, or of those without.
GgufFamily named_for(GgufFamily family, bool has_experts);

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

/// "blk.*.attn_q": "attn_q".
std::string_view part_of(std::string_view gguf_name);

/// Where a key of config.json is, which may stand in an object: "attn_config.clip_qkv".
std::string json_pointer(std::string_view key);

std::optional<GgufNameMatch> match_gguf_name(const GgufFamily& family, std::string_view name);
std::optional<GgufNameMatch> match_hugging_face_name(const GgufFamily& family, std::string_view name);

}  // namespace ingot
