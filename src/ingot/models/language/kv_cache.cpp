#include "ingot/models/language/kv_cache.h"

#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {

KvCache::KvCache(const LanguageConfig& config, std::int64_t batch, std::int64_t capacity, DType dtype,
                 Device device)
    : capacity_(capacity) {
  INGOT_CHECK(batch > 0 && capacity > 0,
              DimensionMismatch("a KV cache needs at least one sequence and one token"));
  const MemoryTagScope tag(MemoryTag::kv_cache);
  const Shape shape{batch, capacity, config.num_key_value_heads, config.head_dim};
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    keys_.push_back(Tensor::empty(shape, dtype, device));
    values_.push_back(Tensor::empty(shape, dtype, device));
  }
}

std::size_t KvCache::nbytes() const { return 2 * keys_.size() * keys_.front().nbytes(); }

void KvCache::append(std::int64_t layer, const Tensor& keys, const Tensor& values) {
  const std::int64_t end = length_ + keys.dim(1);
  INGOT_CHECK(
      end <= capacity_,
      DimensionMismatch("the context is full: " + std::to_string(length_) + " tokens are in a KV cache for " +
                        std::to_string(capacity_) + ", and " + std::to_string(keys.dim(1)) + " more came"));
  const NoGrad no_grad;
  const auto at = static_cast<std::size_t>(layer);
  copy_(slice(keys_[at], 1, length_, end), keys);
  copy_(slice(values_[at], 1, length_, end), values);
}

Tensor KvCache::keys(std::int64_t layer, std::int64_t tokens) const {
  return slice(keys_[static_cast<std::size_t>(layer)], 1, 0, tokens);
}
Tensor KvCache::values(std::int64_t layer, std::int64_t tokens) const {
  return slice(values_[static_cast<std::size_t>(layer)], 1, 0, tokens);
}

void KvCache::truncate(std::int64_t tokens) {
  INGOT_CHECK(tokens >= 0 && tokens <= length_,
              DimensionMismatch("cannot cut a KV cache of " + std::to_string(length_) + " tokens to " +
                                std::to_string(tokens)));
  length_ = tokens;
}

}  // namespace ingot
