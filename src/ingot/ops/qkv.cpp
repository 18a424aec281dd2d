#include "ingot/ops/qkv.h"

#include <array>
#include <utility>

#include "ingot/ops/norm.h"
#include "ingot/ops/view.h"

namespace ingot {

Qkv::Qkv(Tensor q, Tensor k, Tensor v) : q_(std::move(q)), k_(std::move(k)), v_(std::move(v)) {}

Qkv::Qkv(Tensor fused, std::int64_t heads, std::int64_t kv_heads)
    : fused_(std::move(fused)), heads_(heads), kv_heads_(kv_heads) {}

Tensor Qkv::queries() const { return is_fused() ? narrow(fused_, 2, 0, heads_) : q_; }
Tensor Qkv::keys() const { return is_fused() ? narrow(fused_, 2, heads_, kv_heads_) : k_; }
Tensor Qkv::values() const { return is_fused() ? narrow(fused_, 2, heads_ + kv_heads_, kv_heads_) : v_; }

Qkv normalize(Qkv x, const HeadNorms& norms) {
  return {rms_norm(x.queries(), norms.query, norms.eps, norms.weight_offset),
          rms_norm(x.keys(), norms.key, norms.eps, norms.weight_offset), x.values()};
}

Qkv rotate(Qkv x, const RopeTable& table, const Tensor& positions, bool interleaved) {
  if (x.is_fused()) {
    const RopeOptions options{
        .interleaved = interleaved, .heads = x.heads_ + x.kv_heads_, .positions = positions};
    return {rope_in_place(std::move(x.fused_), table, options), x.heads_, x.kv_heads_};
  }
  auto [q, k] = rope(x.q_, x.k_, table, {.interleaved = interleaved, .positions = positions});
  return {std::move(q), std::move(k), std::move(x.v_)};
}

Qkv normalize_and_rotate(Qkv x, const HeadNorms& norms, const RopeTable& table, const Tensor& positions) {
  const RopeOptions options{.positions = positions};
  if (x.is_fused()) {
    auto [q, k, v] = rms_norm_rope_qkv(x.fused_, x.kv_heads_, norms, table, options);
    return {std::move(q), std::move(k), std::move(v)};
  }
  auto [q, k] =
      rms_norm_rope({x.q_, norms.query}, {x.k_, norms.key}, norms.eps, norms.weight_offset, table, options);
  return {std::move(q), std::move(k), std::move(x.v_)};
}

Tensor attention(const Qkv& x, const AttentionOptions& options) {
  if (x.is_fused()) return attention_qkv(x.fused_, x.heads_, x.kv_heads_, options);
  return attention(x.q_, x.k_, x.v_, options);
}

}  // namespace ingot
