#pragma once

#include <cstdint>
#include <string>

#include "ingot/core/tensor.h"
#include "ingot/onnx/op.h"

// What the attentions of ONNX and of ONNX Runtime have in common. Heads are [B, H, S, D].

namespace ingot::onnx {

/// Where on the way from scores to weights something is looked at.
enum class ScoreStage : std::uint8_t { products, capped, biased, weights };

struct Scoring {
  float scale = 1, softcap = 0;  ///< softcap 0: none
  bool causal = false;           ///< the queries are the last of the keys' positions
  std::int64_t window = 0;       ///< causal: a query sees as many keys, its own included; 0: all before it
  Tensor bias{};                 ///< added to the scores, broadcast to [B, H, S, T]; may be undefined
  Tensor sink{};      ///< [H]: a score that takes its part of softmax and adds no value; may be undefined
  bool wide = false;  ///< softmax in f64
  ScoreStage stage = ScoreStage::weights;  ///< what goes to `kept`
  Tensor* kept = nullptr;
};

/// fp16 and bf16 are computed in f32.
DType computed_in(DType dtype);
/// 1 / √D unless the node's attribute says else.
float scale_of(const OpCall& call, std::int64_t head_size);
/// [B, S, H·D] as [B, H, S, D]. DimensionMismatch naming the node where H does not divide.
Tensor split_heads(const OpCall& call, const Tensor& x, std::int64_t heads);
/// [B, H, S, D] as [B, S, H·D].
Tensor joined_heads(const Tensor& x);
/// Keys or values, each head as often as query heads read it.
Tensor shared_heads(const OpCall& call, const Tensor& x, std::int64_t query_heads);
/// Softmax of the last axis; rows of which nothing is seen (-inf) are zero where some may be.
Tensor guarded_softmax(const Tensor& scores, bool masked);
/// What is added to scores so that nothing is seen.
float masked_score();
/// softmax(scale q kᵀ + bias) v in q's dtype: q [B, Hq, S, D], k [B, Hkv, T, D], v [B, Hkv, T, Dv].
/// DimensionMismatch naming the node where they do not fit each other.
Tensor attend(const OpCall& call, const Tensor& q, const Tensor& k, const Tensor& v, const Scoring& scoring);

/// Rows of a cache of cosines or sines [P, W] for positions [B, S]: [B, S, 1, W].
Tensor angles_at(const OpCall& call, const Tensor& cache, const Tensor& positions);
/// The first 2·W of each head of x [B, S, H, D] rotated by angles [B, S, 1, W]: pairs are halves, or
/// `interleaved` neighbours.
Tensor rotated(const OpCall& call, const Tensor& x, const Tensor& cosine, const Tensor& sine,
               bool interleaved);

}  // namespace ingot::onnx
