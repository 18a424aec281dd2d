#pragma once

#include <cstdint>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/models/language/config.h"

namespace ingot {

/// Keys and values of the tokens that a model has seen, so that the next token costs one row and not the
/// whole sequence. One batch of sequences of equal length; memory for `capacity` tokens is taken at once.
class KvCache {
 public:
  KvCache(const LanguageConfig& config, std::int64_t batch, std::int64_t capacity, DType dtype,
          Device device = kCpu);

  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  std::size_t nbytes() const;

  /// Writes keys and values [batch, new, kv_heads, head_dim] of layer `layer` behind those that are there;
  /// the length grows once all layers have written, through advance(). Throws DimensionMismatch when the
  /// cache is full.
  void append(std::int64_t layer, const Tensor& keys, const Tensor& values);
  /// Views of the first `tokens` keys and values of a layer: [batch, tokens, kv_heads, head_dim].
  Tensor keys(std::int64_t layer, std::int64_t tokens) const;
  Tensor values(std::int64_t layer, std::int64_t tokens) const;
  void advance(std::int64_t tokens) { length_ += tokens; }
  /// Forgets all but the first `tokens`.
  void truncate(std::int64_t tokens);

 private:
  std::vector<Tensor> keys_, values_;  // [batch, capacity, kv_heads, head_dim] per layer
  std::int64_t capacity_;
  std::int64_t length_ = 0;
};

}  // namespace ingot
