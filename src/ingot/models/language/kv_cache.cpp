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

// Those of a layer that are there: keys, values, their scales.
std::vector<KvPages::Part> KvCache::parts_of_layer() const {
  const KvPages::Part rows{.heads = kv_heads_, .row = head_dim_, .dtype = dtype_};
  const KvPages::Part scales{.heads = kv_heads_, .dtype = DType::f32};
  std::vector<KvPages::Part> parts(one_row_ ? 1 : 2, rows);
  if (dtype_ == DType::i8) parts.insert(parts.end(), one_row_ ? 1 : 2, scales);
  return parts;
}

// The tensors of a layer in the order of parts_of_layer().
std::vector<Tensor*> KvCache::tensors_of(Layer& layer) const {
  std::vector<Tensor*> tensors{&layer.keys};
  if (!one_row_) tensors.push_back(&layer.values);
  if (dtype_ == DType::i8) tensors.push_back(&layer.key_scale);
  if (dtype_ == DType::i8 && !one_row_) tensors.push_back(&layer.value_scale);
  return tensors;
}

// Pages for all layers in one piece of address space. Null: there is none, or not on this device.
std::unique_ptr<KvPages> KvCache::make_pages(std::int64_t tokens) const {
  const std::vector<KvPages::Part> of_layer = parts_of_layer();
  std::vector<KvPages::Part> parts;
  for (const bool attends : attends_)
    if (attends) parts.insert(parts.end(), of_layer.begin(), of_layer.end());
  auto pages = KvPages::reserve(parts, tokens, page_tokens(), device_);
  if (pages != nullptr) pages->hold(capacity_);
  return pages;
}

// New memory for capacity_ tokens, of which up to `most` may come.
void KvCache::make_layers(std::int64_t most) {
  const MemoryTagScope tag(MemoryTag::kv_cache);
  // Whole pages of each head, so that none is shared by two.
  const std::int64_t whole = (std::max(most, capacity_) + page_tokens() - 1) / page_tokens() * page_tokens();
  pages_ = most > 0 ? make_pages(whole) : nullptr;
  reserved_ = pages_ != nullptr ? whole : capacity_;
  const std::vector<KvPages::Part> parts = parts_of_layer();
  std::size_t next = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i] = {};
    if (!attends_[i]) continue;
    const std::vector<Tensor*> tensors = tensors_of(layers_[i]);
    for (std::size_t k = 0; k < tensors.size(); ++k)
      *tensors[k] = pages_ != nullptr ? pages_->tensor(next++)
                                      : Tensor::empty(parts[k].shape(reserved_), parts[k].dtype, device_);
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
  if (capacity <= reserved_) {
    if (pages_ != nullptr) pages_->hold(capacity);
    return;
  }
  const NoGrad no_grad;
  const std::vector<Tensor> before = parts();
  const std::unique_ptr<KvPages> pages = std::move(pages_);  // `before` is in it
  make_layers(pages != nullptr ? 2 * capacity : 0);
  const std::vector<Tensor> now = parts();
  for (std::size_t i = 0; i < now.size() && length_ > 0; ++i)
    copy_(positions(now[i], 0, length_), positions(before[i], 0, length_));
}

void KvCache::shrink(std::int64_t capacity) {
  capacity = std::max({capacity, length_, std::int64_t{1}});
  if (pages_ == nullptr || capacity >= capacity_) return;
  pages_->keep(capacity);
  capacity_ = capacity;
}

std::int64_t KvCache::shareable(std::int64_t tokens) const {
  return pages_ != nullptr ? pages_->shareable(tokens) : 0;
}

std::vector<const void*> KvCache::shared_blocks() const {
  return pages_ != nullptr ? pages_->shared() : std::vector<const void*>{};
}

void KvCache::copy_beginning(const KvCache& from, std::int64_t tokens) {
  INGOT_CHECK(tokens <= from.length_ && tokens <= capacity_ && layers_.size() == from.layers_.size() &&
                  dtype_ == from.dtype_ && from.beginning(tokens) == tokens,
              DimensionMismatch("cannot copy " + std::to_string(tokens) + " tokens of a KV cache of " +
                                std::to_string(from.length_) + " into one for " + std::to_string(capacity_)));
  const NoGrad no_grad;
  own_behind(0);
  const bool pages = pages_ != nullptr && from.pages_ != nullptr;
  const std::int64_t shared = pages ? pages_->share(*from.pages_, tokens) : 0;
  const std::vector<Tensor> to = parts(), source = from.parts();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t begin = shared > 0 && pages_->shares(i) ? shared : 0;
    if (begin < tokens)
      copy_(positions(to[i], begin, tokens - begin), positions(source[i], begin, tokens - begin));
  }
  tokens > 0 ? state_.copy(from.state_) : state_.reset();
  length_ = tokens;
}

// Before anything behind the first `tokens` is written: what others hold of it, too, is theirs.
void KvCache::own_behind(std::int64_t tokens) {
  if (pages_ != nullptr) pages_->own(tokens);
}

// The tensors of all layers, in the order of the parts of pages_.
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
  own_behind(begin);
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
  own_behind(length_);
  if (length_ == 0) state_.reset();
}

}  // namespace ingot
