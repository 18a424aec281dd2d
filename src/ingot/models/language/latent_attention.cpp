#include "ingot/models/language/latent_attention.h"

#include "ingot/models/language/decoder_init.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// transformers gives the norms of latents this, whatever rms_norm_eps is.
constexpr float kLatentEps = 1e-6F;

Tensor side_by_side(const Tensor& a, const Tensor& b) { return concat(std::vector<Tensor>{a, b}, -1); }

}  // namespace

std::vector<ProjectionGroup::Layer> LatentHeads::projections(const LanguageConfig& c) {
  const bool latent = c.q_lora_rank > 0;
  const std::int64_t queries = latent ? c.q_lora_rank : c.num_attention_heads * c.head_dim;
  return {{latent ? "q_a_proj" : "q_proj",
           decoder_linear(c.hidden_size, queries, latent && c.qkv_bias, decoder_weight_init(c))},
          {"kv_a_proj_with_mqa", decoder_linear(c.hidden_size, c.kv_lora_rank + c.qk_rope_head_dim,
                                                c.qkv_bias, decoder_weight_init(c))}};
}

LatentHeads::LatentHeads(const ParamSource& source, const LanguageConfig& c)
    : q_a_layernorm(c.q_lora_rank > 0
                        ? std::make_unique<RmsNorm>(source.scope("q_a_layernorm"),
                                                    RmsNormOptions{.width = c.q_lora_rank, .eps = kLatentEps})
                        : nullptr),
      q_b_proj(c.q_lora_rank > 0 ? std::make_unique<Linear>(
                                       source.scope("q_b_proj"),
                                       decoder_linear(c.q_lora_rank, c.num_attention_heads * c.head_dim,
                                                      false, decoder_weight_init(c)))
                                 : nullptr),
      kv_a_layernorm(source.scope("kv_a_layernorm"), {.width = c.kv_lora_rank, .eps = kLatentEps}),
      kv_b_proj(source.scope("kv_b_proj"),
                decoder_linear(c.kv_lora_rank, c.num_attention_heads * (c.qk_nope_head_dim + c.v_head_dim),
                               false, decoder_weight_init(c))),
      heads(c.num_attention_heads),
      rank(c.kv_lora_rank),
      plain(c.qk_nope_head_dim),
      rotary(c.qk_rope_head_dim),
      value_size(c.v_head_dim),
      interleaved(c.interleaved_rope) {}

LatentHeads::Parts LatentHeads::parts(const std::vector<Tensor>& projected, const RopeTable& table,
                                      const Tensor& positions) const {
  const Tensor& x = projected[0];
  const Tensor& both = projected[1];
  const Tensor q = split_heads(q_b_proj == nullptr ? x : (*q_b_proj)((*q_a_layernorm)(x)), heads);
  auto [queries, keys] =
      rope(contiguous(narrow(q, 3, plain, rotary)), split_heads(contiguous(narrow(both, 2, rank, rotary)), 1),
           table, {.interleaved = interleaved, .positions = positions});
  return {.queries = narrow(q, 3, 0, plain),
          .rotary_queries = queries,
          .latents = kv_a_layernorm(contiguous(narrow(both, 2, 0, rank))),
          .rotary_keys = keys};
}

Qkv LatentHeads::of_heads(const Parts& parts) const {
  const Tensor both = split_heads(kv_b_proj(parts.latents), heads);
  const Tensor shared = broadcast_to(parts.rotary_keys, parts.rotary_queries.shape());
  return {side_by_side(parts.queries, parts.rotary_queries), side_by_side(narrow(both, 3, 0, plain), shared),
          narrow(both, 3, plain, value_size)};
}

Tensor LatentHeads::matrices(DType dtype) const {
  return reshape(to(kv_b_proj.weight.effective(dtype), dtype), {heads, plain + value_size, rank});
}

Qkv LatentHeads::of_latents(const Parts& parts, const Tensor& matrices) const {
  const Tensor& q = parts.queries;
  const Tensor by_head = reshape(transpose(reshape(q, {-1, heads, plain}), 0, 1), {heads, -1, plain});
  const Tensor in_latents = transpose(matmul(by_head, narrow(matrices, 1, 0, plain)), 0, 1);
  const Tensor keys = side_by_side(unsqueeze(parts.latents, 2), parts.rotary_keys);
  return {side_by_side(reshape(in_latents, {q.dim(0), q.dim(1), heads, rank}), parts.rotary_queries), keys,
          keys};
}

Tensor LatentHeads::values(const Tensor& mixed, const Tensor& matrices) const {
  const Tensor by_head = transpose(narrow(mixed, 2, 0, rank), 0, 1);
  return transpose(matmul(by_head, transpose(narrow(matrices, 1, plain, value_size), 1, 2)), 0, 1);
}

void LatentHeads::visit(ParamVisitor& v) {
  v("q_a_layernorm", q_a_layernorm);
  v("q_b_proj", q_b_proj);
  v("kv_a_layernorm", kv_a_layernorm);
  v("kv_b_proj", kv_b_proj);
}

}  // namespace ingot
