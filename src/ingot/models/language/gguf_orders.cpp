#include "ingot/models/language/gguf_orders.h"

#include <array>
#include <numeric>
#include <utility>

namespace ingot {
namespace {

void append(std::vector<std::int64_t>& order, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) order.push_back(first + i);
}

}  // namespace

std::vector<std::int64_t> DeltaSizes::all_of_each() const {
  const std::int64_t of_key = values() / key_heads, group = 2 * key_size + 2 * of_key;
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(key_heads * group));
  std::int64_t first = 0;
  for (const std::int64_t rows : {key_size, key_size, of_key, of_key}) {
    for (std::int64_t head = 0; head < key_heads; ++head) append(order, head * group + first, rows);
    first += rows;
  }
  return order;
}

std::vector<Transform> DeltaSizes::tiled(std::string_view part, bool to_gguf) const {
  if (key_heads == value_heads) return {};
  const bool with_keys = part == "attn_qkv" || part == "ssm_conv1d";
  const bool of_heads = part == "ssm_alpha" || part == "ssm_beta" || part == "ssm_a" || part == "ssm_dt";
  if (!with_keys && !of_heads && part != "attn_gate" && part != "ssm_out") return {};
  const std::int64_t size = of_heads ? 1 : value_size, before = with_keys ? 2 * keys() : 0,
                     turns = value_heads / key_heads;
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(before + value_heads * size));
  append(order, 0, before);
  for (std::int64_t turn = 0; turn < turns; ++turn)
    for (std::int64_t key = 0; key < key_heads; ++key)
      append(order, before + (key * turns + turn) * size, size);
  return {Transform::take(part == "ssm_out" ? 1 : 0, to_gguf ? order : inverse(order))};
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return back;
}

std::vector<std::int64_t> rotary_pairs(std::int64_t heads, std::int64_t size, std::int64_t rotated) {
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(heads * size));
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t first = head * size;
    for (std::int64_t i = 0; i < rotated / 2; ++i) {
      order.push_back(first + i);
      order.push_back(first + rotated / 2 + i);
    }
    append(order, first + rotated, size - rotated);
  }
  return order;
}

LanguageConfig without_multipliers(LanguageConfig c) {
  if (c.embedding_multiplier != c.logit_scale) c.tie_word_embeddings = false;
  c.embedding_multiplier = c.logit_scale = 1;
  c.attention_in_multiplier = c.attention_out_multiplier = c.key_multiplier = 1;
  c.ssm_in_multiplier = c.ssm_out_multiplier = 1;
  c.ssm_multipliers.clear();
  c.mlp_gate_multiplier = c.mlp_down_multiplier = 1;
  if (!c.mamba_rms_norm) c.mamba_norm_before_gate = false;  // which says nothing there
  return c;
}

std::vector<Transform> multipliers_of(std::string_view part, bool bias, const LanguageConfig& c) {
  // Factors of a weight and of its bias: those of an input reach the weight alone.
  const double in = c.attention_in_multiplier, key = c.key_multiplier, out = c.attention_out_multiplier,
               gate = c.mlp_gate_multiplier, down = c.mlp_down_multiplier;
  const std::pair<std::string_view, std::array<double, 2>> kFactors[] = {
      {"token_embd", {c.embedding_multiplier, 1}},
      {"output", {c.logit_scale, c.logit_scale}},
      {"attn_q", {in, 1}},
      {"attn_k", {in * key, key}},
      {"attn_v", {in, 1}},
      {"attn_output", {out, out}},
      {"ssm_out", {c.ssm_out_multiplier, c.ssm_out_multiplier}},
      {"ffn_gate", {gate, gate}},
      {"ffn_down", {down, down}}};
  for (const auto& [name, factors] : kFactors)
    if (name == part && factors[bias ? 1 : 0] != 1) return {Transform::scale(factors[bias ? 1 : 0])};
  const double from_input = bias ? 1 : c.ssm_in_multiplier;
  if (part != "ssm_in" || (c.ssm_multipliers.empty() && from_input == 1)) return {};
  const std::int64_t inner = c.mamba_inner(), states = c.mamba_n_groups * c.mamba_d_state;
  const std::array<std::int64_t, 5> rows{inner, inner, states, states, c.mamba_n_heads};
  std::vector<double> by_row;
  by_row.reserve(static_cast<std::size_t>(std::accumulate(rows.begin(), rows.end(), std::int64_t{0})));
  for (std::size_t i = 0; i < rows.size(); ++i)
    by_row.insert(by_row.end(), static_cast<std::size_t>(rows[i]),
                  from_input * (c.ssm_multipliers.empty() ? 1 : c.ssm_multipliers[i]));
  return {Transform::scale_rows(std::move(by_row))};
}

}  // namespace ingot
