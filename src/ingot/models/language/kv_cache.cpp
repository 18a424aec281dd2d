#include "ingot/models/language/kv_cache.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/reserved_memory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/kv_store.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Rows [begin, begin + count) of every head; an absent tensor stays absent.
Tensor positions(const Tensor& x, std::int64_t begin, std::int64_t count) {
  return x.defined() ? narrow(x, 1, begin, count) : x;
}

std::uint64_t next_memory() {
  static std::atomic<std::uint64_t> count{0};
  return ++count;
}

}  // namespace

KvCache::KvCache(const LanguageConfig& config, std::int64_t capacity, DType dtype, Device device,
                 std::int64_t most)
    : state_(config, device),
      kv_heads_(config.cached_heads()),
      head_dim_(config.cached_size()),
      one_row_(config.is_latent()),
      dtype_(dtype),
      device_(device),
      capacity_(capacity),
      memory_(next_memory()) {
  INGOT_CHECK(capacity > 0, DimensionMismatch("a KV cache holds at least one token"));
  INGOT_CHECK(is_training_dtype(dtype) || dtype == DType::i8,
              InvalidConfig("kv_cache", "is f32, bf16, f16 or i8, got " + std::string(name(dtype))));
  INGOT_CHECK(dtype != DType::i8 || config.position != PositionKind::alibi,
              InvalidConfig("kv_cache", "i8 cannot hold ALiBi's positions; take f16, bf16 or f32"));
  layers_.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    attends_.push_back(config.attends(layer));
  make_layers(most);
}

KvCache::Layer KvCache::make_layer(std::int64_t tokens, bool paged) const {
  const MemoryTagScope tag(MemoryTag::kv_cache);
  const auto make = [&](const Shape& shape, DType dtype) {
    return paged ? reserve_tensor(shape, dtype, device_) : Tensor::empty(shape, dtype, device_);
  };
  Layer layer;
  layer.keys = make({kv_heads_, tokens, head_dim_}, dtype_);
  if (!one_row_) layer.values = make({kv_heads_, tokens, head_dim_}, dtype_);
  if (dtype_ != DType::i8) return layer;
  layer.key_scale = make({kv_heads_, tokens}, DType::f32);
  if (!one_row_) layer.value_scale = make({kv_heads_, tokens}, DType::f32);
  return layer;
}

// New memory for capacity_ tokens, of which up to `most` may come.
void KvCache::make_layers(std::int64_t most) {
  // Whole pages of each head, so that none is shared by two.
  const std::int64_t pages = (std::max(most, capacity_) + page_tokens() - 1) / page_tokens() * page_tokens();
  const std::size_t count = layers_.size();
  paged_ = most > 0;
  reserved_ = paged_ ? pages : capacity_;
  layers_.clear();
  while (layers_.size() < count) {
    const bool attends = attends_[layers_.size()];
    layers_.push_back(attends ? make_layer(reserved_, paged_) : Layer{});
    if (!paged_ || !attends || layers_.back().is_whole(one_row_, dtype_ == DType::i8)) continue;
    layers_.clear();  // no address space, or not on this device
    paged_ = false;
    reserved_ = capacity_;
  }
  memory_ = next_memory();
}

std::int64_t KvCache::page_tokens() const {
  constexpr std::int64_t kLeast = 16;
  const std::int64_t row = head_dim_ * static_cast<std::int64_t>(byte_size(dtype_));
  const std::int64_t page = static_cast<std::int64_t>(page_bytes());
  return std::max(kLeast, page / std::gcd(page, row));
}

std::size_t KvCache::nbytes() const {
  std::size_t bytes = 0;
  for (const Tensor& part : parts()) bytes += part.nbytes() / static_cast<std::size_t>(reserved_);
  return bytes * static_cast<std::size_t>(capacity_);
}

void KvCache::reserve(std::int64_t capacity) {
  if (capacity <= capacity_) return;
  capacity_ = capacity;
  if (capacity <= reserved_) return;
  const NoGrad no_grad;
  const std::vector<Tensor> before = parts();
  make_layers(paged_ ? 2 * capacity : 0);
  const std::vector<Tensor> now = parts();
  for (std::size_t i = 0; i < now.size() && length_ > 0; ++i)
    copy_(positions(now[i], 0, length_), positions(before[i], 0, length_));
}

void KvCache::shrink(std::int64_t capacity) {
  capacity = std::max({capacity, length_, std::int64_t{1}});
  if (!paged_ || capacity >= capacity_) return;
  for (const Tensor& part : parts()) {
    const std::size_t row = part.nbytes() / static_cast<std::size_t>(kv_heads_ * reserved_);
    for (std::int64_t head = 0; head < kv_heads_; ++head)
      give_back_pages(part, static_cast<std::size_t>(head * reserved_ + capacity) * row,
                      static_cast<std::size_t>(head * reserved_ + capacity_) * row);
  }
  capacity_ = capacity;
}

void KvCache::copy_beginning(const KvCache& from, std::int64_t tokens) {
  INGOT_CHECK(tokens <= from.length_ && tokens <= capacity_ && layers_.size() == from.layers_.size() &&
                  dtype_ == from.dtype_ && from.beginning(tokens) == tokens,
              DimensionMismatch("cannot copy " + std::to_string(tokens) + " tokens of a KV cache of " +
                                std::to_string(from.length_) + " into one for " + std::to_string(capacity_)));
  const NoGrad no_grad;
  const auto copy = [tokens](const Tensor& to, const Tensor& source) {
    if (to.defined() && tokens > 0) copy_(positions(to, 0, tokens), positions(source, 0, tokens));
  };
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    copy(layers_[i].keys, from.layers_[i].keys);
    copy(layers_[i].values, from.layers_[i].values);
    copy(layers_[i].key_scale, from.layers_[i].key_scale);
    copy(layers_[i].value_scale, from.layers_[i].value_scale);
  }
  tokens > 0 ? state_.copy(from.state_) : state_.reset();
  length_ = tokens;
}

// What is there of each layer, one after the other.
std::vector<Tensor> KvCache::parts() const {
  std::vector<Tensor> parts;
  for (const Layer& layer : layers_) {
    for (const Tensor* x : {&layer.keys, &layer.values, &layer.key_scale, &layer.value_scale})
      if (x->defined()) parts.push_back(*x);
  }
  return parts;
}

std::vector<Tensor> KvCache::host_memory(std::int64_t count) const {
  std::vector<Tensor> memory;
  for (const Tensor& part : parts())
    memory.push_back(Tensor::empty(positions(part, 0, count).shape(), part.dtype()));
  return memory;
}

std::vector<Tensor> KvCache::saved(std::int64_t begin, std::int64_t count) const {
  INGOT_CHECK(
      begin >= 0 && count > 0 && begin + count <= length_,
      DimensionMismatch("cannot save tokens " + std::to_string(begin) + " to " +
                        std::to_string(begin + count) + " of a KV cache of " + std::to_string(length_)));
  const NoGrad no_grad;
  std::vector<Tensor> saved;
  for (const Tensor& part : parts()) {
    const Tensor from = positions(part, begin, count);
    const Tensor copy = Tensor::empty_like(from);  // a view of all tokens would be the cache's own memory
    copy_(copy, from);
    saved.push_back(to(copy, kCpu));
  }
  return saved;
}

void KvCache::restore(std::int64_t begin, std::span<const Tensor> saved, std::int64_t count) {
  const std::vector<Tensor> all = parts();
  INGOT_CHECK(begin <= length_ && begin + count <= capacity_ && saved.size() == all.size(),
              DimensionMismatch("cannot put " + std::to_string(count) + " tokens behind " +
                                std::to_string(begin) + " of a KV cache of " + std::to_string(length_) +
                                " for " + std::to_string(capacity_)));
  const NoGrad no_grad;
  for (std::size_t i = 0; i < all.size(); ++i)
    copy_(positions(all[i], begin, count), to(contiguous(positions(saved[i], 0, count)), device_));
  length_ = begin + count;
}

void KvCache::append(std::int64_t layer, const Tensor& keys, const Tensor& values) {
  const std::int64_t count = keys.dim(0);
  INGOT_CHECK(
      length_ + count <= capacity_,
      DimensionMismatch("the context is full: " + std::to_string(length_) + " tokens are in a KV cache for " +
                        std::to_string(capacity_) + ", and " + std::to_string(count) + " more came"));
  const NoGrad no_grad;
  const Layer& to = layers_[static_cast<std::size_t>(layer)];
  const auto next = [&](const Tensor& of) { return positions(of, length_, count); };
  store_keys_and_values(keys, values,
                        {next(to.keys), next(to.values), next(to.key_scale), next(to.value_scale)});
}

void KvCache::append_behind(std::int64_t layer, const Tensor& start, const Tensor& keys,
                            const Tensor& values) {
  const NoGrad no_grad;
  const Layer& to = layers_[static_cast<std::size_t>(layer)];
  store_keys_and_values(keys, values, {to.keys, to.values, to.key_scale, to.value_scale}, start);
}

KvCache::Entries KvCache::entries(std::int64_t layer, std::int64_t tokens) const {
  const Layer& from = layers_[static_cast<std::size_t>(layer)];
  const auto batched = [tokens](const Tensor& x) {
    return x.defined() ? unsqueeze(transpose(positions(x, 0, tokens), 0, 1), 0) : x;
  };
  return {batched(from.keys), batched(from.read()), batched(from.key_scale), batched(from.read_scale())};
}

kernels::CacheEntry KvCache::entry(std::int64_t layer) const {
  const Layer& of = layers_[static_cast<std::size_t>(layer)];
  return {.keys = of.keys.view().data,
          .values = of.read().view().data,
          .key_scales = of.key_scale.view().as<float>(),
          .value_scales = of.read_scale().view().as<float>(),
          .capacity = reserved_};
}

bool share_launches(std::span<const CacheSegment> segments) {
  const KvCache& first = *segments.front().cache;
  const std::int64_t tokens = segments.front().tokens;
  const auto as_first = [tokens](const CacheSegment& segment) { return segment.tokens == tokens; };
  return segments.size() > 1 && tokens <= kernels::kFewQueries && std::ranges::all_of(segments, as_first) &&
         kernels::takes_cache_entries(first.head_size(), first.dtype());
}

Shape cache_entries_shape(std::span<const CacheSegment> segments) {
  return {segments.front().cache->layers(), static_cast<std::int64_t>(segments.size()),
          static_cast<std::int64_t>(sizeof(kernels::CacheEntry))};
}

void write_cache_entries(std::span<const CacheSegment> segments, const Tensor& entries) {
  auto* to = entries.view().as<kernels::CacheEntry>();
  for (std::int64_t layer = 0; layer < entries.dim(0); ++layer)
    for (const CacheSegment& segment : segments) *to++ = segment.cache->entry(layer);
}

void append_to_all(const KvCache& one, std::int64_t layer, const Tensor& entries, const Tensor& starts,
                   const Tensor& keys, const Tensor& values) {
  const KvCache::Layer& like = one.layers_[static_cast<std::size_t>(layer)];
  store_keys_and_values(keys, values, {like.keys, like.values, like.key_scale, like.value_scale}, starts,
                        entries);
}

void KvCache::truncate(std::int64_t tokens) {
  INGOT_CHECK(tokens >= 0 && tokens <= length_,
              DimensionMismatch("cannot cut a KV cache of " + std::to_string(length_) + " tokens to " +
                                std::to_string(tokens)));
  length_ = beginning(tokens);
  if (length_ == 0) state_.reset();
}

}  // namespace ingot
