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
    : window_(config.has_windows() ? config.sliding_window : 0),
      chunk_(config.has_kind(LayerKind::chunked) ? config.attention_chunk_size : 0),
      state_(config, device),
      one_row_(config.is_latent()),
      dtype_(dtype),
      device_(device),
      capacity_(capacity),
      memory_(next_memory()) {
  INGOT_CHECK(capacity > 0 || (capacity == 0 && most > 0),
              DimensionMismatch("a KV cache holds at least one token, or may grow"));
  INGOT_CHECK(is_training_dtype(dtype) || dtype == DType::i8,
              InvalidConfig("kv_cache", "is f32, bf16, f16 or i8, got " + std::string(name(dtype))));
  INGOT_CHECK(dtype != DType::i8 || config.position != PositionKind::alibi,
              InvalidConfig("kv_cache", "i8 cannot hold ALiBi's positions; take f16, bf16 or f32"));
  layers_.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    holds_.push_back(config.attends(layer) && !config.reads_other_keys(layer));
    groups_.push_back(config.window(layer) > 0 || config.chunk(layer) > 0 ? Group::local : Group::full);
    if (!holds_.back()) continue;
    const auto group = static_cast<std::size_t>(groups_.back());
    heads_[group] = {config.cached_heads(layer), config.cached_size(layer)};
    for (const KvPages::Part& part : parts_of_layer(groups_.back(), /*paged=*/false))
      group_bytes_[group] += static_cast<std::size_t>(part.heads * part.row) * byte_size(part.dtype);
  }
  make_layers(most);
}

// A page of short rows of one head would hold so many tokens that much of it stays empty.
bool KvCache::share_pages(const Heads& heads) const {
  constexpr std::size_t kShortRow = 128;
  return heads.count > 1 && static_cast<std::size_t>(heads.size) * byte_size(dtype_) <= kShortRow;
}

// Those of a layer that are there: keys, values, their scales. Pages that heads share have the rows of one
// token side by side.
std::vector<KvPages::Part> KvCache::parts_of_layer(Group group, bool paged) const {
  const auto [count, size] = heads(group);
  const bool together = paged && share_pages(heads(group));
  const KvPages::Part rows{
      .heads = together ? 1 : count, .row = together ? count * size : size, .dtype = dtype_};
  const KvPages::Part scales{.heads = count, .dtype = DType::f32};
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

// Pages for the layers of each group in one piece of address space. False: there is none, or not on this
// device.
bool KvCache::make_pages(std::int64_t tokens) {
  std::array<std::vector<KvPages::Part>, 2> parts;
  for (std::size_t i = 0; i < holds_.size(); ++i) {
    if (!holds_[i]) continue;
    const std::vector<KvPages::Part> of_layer = parts_of_layer(groups_[i], /*paged=*/true);
    auto& of_group = parts[static_cast<std::size_t>(groups_[i])];
    of_group.insert(of_group.end(), of_layer.begin(), of_layer.end());
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    pages_[i] = KvPages::reserve(parts[i], tokens, page_tokens(), device_);
    if (pages_[i] == nullptr) {
      pages_ = {};
      return false;
    }
    pages_[i]->hold(capacity_);
  }
  return is_paged();
}

// New memory for capacity_ tokens, of which up to `most` may come.
void KvCache::make_layers(std::int64_t most) {
  const MemoryTagScope tag(MemoryTag::kv_cache);
  // Whole pages of each head, so that none is shared by two.
  const std::int64_t whole = (std::max(most, capacity_) + page_tokens() - 1) / page_tokens() * page_tokens();
  pages_ = {};
  reserved_ = most > 0 && make_pages(whole) ? whole : capacity_;
  // [heads, tokens, ...] of what pages have.
  const auto by_head = [&](const Tensor& x, const KvPages::Part& part, const Heads& heads) {
    if (!share_pages(heads) || part.row == 1) return x;
    return transpose(reshape(x, {reserved_, heads.count, heads.size}), 0, 1);
  };
  std::array<std::size_t, 2> next{};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i] = {};
    if (!holds_[i]) continue;
    const std::vector<KvPages::Part> parts = parts_of_layer(groups_[i], /*paged=*/false);
    const std::unique_ptr<KvPages>& from = pages(groups_[i]);
    std::size_t& number = next[static_cast<std::size_t>(groups_[i])];
    const std::vector<Tensor*> tensors = tensors_of(layers_[i]);
    for (std::size_t k = 0; k < tensors.size(); ++k)
      *tensors[k] = from != nullptr ? by_head(from->tensor(number++), parts[k], heads(groups_[i]))
                                    : Tensor::empty(parts[k].shape(reserved_), parts[k].dtype, device_);
  }
  memory_ = next_memory();
}

std::int64_t KvCache::page_tokens() const {
  constexpr std::int64_t kLeast = 16;
  std::int64_t tokens = kLeast;
  for (const Heads& heads : heads_) {
    if (heads.count == 0) continue;
    const std::size_t page = page_bytes(), whole = page / std::gcd(page, page_row_bytes(heads));
    tokens = std::lcm(tokens, static_cast<std::int64_t>(whole));
  }
  return tokens;
}

// Of the rows that lie behind one another in pages.
std::size_t KvCache::page_row_bytes(const Heads& heads) const {
  return static_cast<std::size_t>((share_pages(heads) ? heads.count : 1) * heads.size) * byte_size(dtype_);
}

std::int64_t KvCache::capacity_step() const {
  std::int64_t step = 8;  // of rows that fill a page: growing is work, too
  for (const Heads& heads : heads_) {
    if (heads.count == 0) continue;
    const std::size_t row = page_row_bytes(heads);
    step = std::max(step, static_cast<std::int64_t>((page_bytes() + row - 1) / row));
  }
  return step;
}

std::size_t KvCache::nbytes() const {
  return token_bytes() * static_cast<std::size_t>(capacity_) -
         group_bytes(Group::local) * static_cast<std::size_t>(dropped(Group::local));
}

std::size_t KvCache::used_bytes() const {
  return token_bytes() * static_cast<std::size_t>(length_) -
         group_bytes(Group::local) * static_cast<std::size_t>(dropped(Group::local));
}

std::size_t KvCache::bytes_of(std::int64_t tokens, std::int64_t chunk) const {
  const std::int64_t kept = std::max(window_, chunk_) + kTakenBack + page_tokens() + chunk;
  const std::int64_t in_window = is_paged() ? std::min(tokens, kept) : tokens;
  return group_bytes(Group::full) * static_cast<std::size_t>(tokens) +
         group_bytes(Group::local) * static_cast<std::size_t>(in_window);
}

void KvCache::attach(const std::shared_ptr<CacheJournal>& journal) {
  INGOT_CHECK(length_ == 0, Error("a KV cache that holds tokens cannot be kept by other ranks, too"));
  entry_.attach(journal, next_memory());
  entry_.note({.kind = CacheEvent::Kind::made,
               .tokens = capacity_,
               .most = is_paged() ? reserved_ : 0,
               .dtype = dtype_});
}

void KvCache::reserve(std::int64_t capacity) {
  if (capacity <= capacity_) return;
  entry_.note({.kind = CacheEvent::Kind::reserved, .tokens = capacity});
  capacity_ = capacity;
  if (capacity <= reserved_) {
    for (const auto& pages : pages_)
      if (pages != nullptr) pages->hold(capacity);
    return;
  }
  const NoGrad no_grad;
  const bool paged = is_paged();
  const std::int64_t gone = dropped(Group::local);
  const std::vector<PartOfGroup> before = parts_of_groups();
  const auto pages = std::move(pages_);  // `before` is in it
  make_layers(paged ? 2 * capacity : 0);
  const std::vector<Tensor> now = parts();
  for (std::size_t i = 0; i < now.size() && length_ > 0; ++i) {
    const std::int64_t begin = before[i].group == Group::local ? gone : 0;
    copy_(positions(now[i], begin, length_ - begin), positions(before[i].tensor, begin, length_ - begin));
  }
  if (const auto& local = this->pages(Group::local); local != nullptr) local->drop(gone);
}

void KvCache::shrink(std::int64_t capacity) {
  capacity = std::max({capacity, length_, std::int64_t{1}});
  if (!is_paged() || capacity >= capacity_) return;
  entry_.note({.kind = CacheEvent::Kind::shrunk, .tokens = capacity});
  for (const auto& pages : pages_)
    if (pages != nullptr) pages->keep(capacity);
  capacity_ = capacity;
}

std::int64_t KvCache::first_seen(std::int64_t length) const {
  std::int64_t first = length;
  if (window_ > 0) first = std::min(first, length - (window_ - 1));
  if (chunk_ > 0) first = std::min(first, length / chunk_ * chunk_);
  return first;
}

std::int64_t KvCache::first_without(std::int64_t token) const {
  std::int64_t length = token;
  if (window_ > 0) length = std::max(length, token + window_ - 1);
  if (chunk_ > 0) length = std::max(length, (token + chunk_ - 1) / chunk_ * chunk_);
  return length;
}

bool KvCache::drop_left_behind(std::int64_t most) {
  const std::unique_ptr<KvPages>& local = pages(Group::local);
  if (local == nullptr) return false;
  const std::int64_t before = local->dropped();
  local->drop(std::clamp<std::int64_t>(first_seen(std::max<std::int64_t>(length_ - kTakenBack, 0)), 0, most));
  const std::int64_t now = local->dropped();
  if (now > 0) shortest_ = first_without(now);
  if (now > before) entry_.note({.kind = CacheEvent::Kind::dropped, .tokens = now});
  return now > before;
}

std::size_t KvCache::shareable(std::int64_t tokens) const {
  std::size_t bytes = 0;
  for (const Group group : {Group::full, Group::local}) {
    if (pages(group) != nullptr)
      bytes += group_bytes(group) * static_cast<std::size_t>(pages(group)->shareable(tokens));
  }
  return bytes;
}

std::vector<KvCache::SharedBlock> KvCache::shared_blocks() const {
  std::vector<SharedBlock> shared;
  for (const Group group : {Group::full, Group::local}) {
    if (pages(group) == nullptr) continue;
    const std::size_t bytes = group_bytes(group) * static_cast<std::size_t>(page_tokens());
    for (const void* block : pages(group)->shared()) shared.push_back({block, bytes});
  }
  return shared;
}

void KvCache::copy_beginning(const KvCache& from, std::int64_t tokens) {
  INGOT_CHECK(tokens <= from.length_ && tokens <= capacity_ && layers_.size() == from.layers_.size() &&
                  dtype_ == from.dtype_ && from.beginning(tokens) == tokens,
              DimensionMismatch("cannot copy " + std::to_string(tokens) + " tokens of a KV cache of " +
                                std::to_string(from.length_) + " into one for " + std::to_string(capacity_)));
  if (from.entry_.journal() != nullptr && entry_.journal() == nullptr) attach(from.entry_.journal());
  entry_.note({.kind = CacheEvent::Kind::copied, .from = from.entry_.number(), .tokens = tokens});
  const NoGrad no_grad;
  forget();
  std::array<std::int64_t, 2> shared{}, gone{};
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if (from.pages_[i] != nullptr) gone[i] = from.pages_[i]->dropped();
    if (pages_[i] != nullptr && from.pages_[i] != nullptr)
      shared[i] = pages_[i]->share(*from.pages_[i], tokens);
  }
  const std::vector<PartOfGroup> to = parts_of_groups();
  const std::vector<Tensor> source = from.parts();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto group = static_cast<std::size_t>(to[i].group);
    const bool is_shared = shared[group] > 0 && pages_[group]->shares(to[i].number);
    const std::int64_t begin = is_shared ? shared[group] : gone[group];
    if (begin < tokens)
      copy_(positions(to[i].tensor, begin, tokens - begin), positions(source[i], begin, tokens - begin));
  }
  for (std::size_t i = 0; i < pages_.size(); ++i)
    if (pages_[i] != nullptr) pages_[i]->drop(gone[i]);
  shortest_ = tokens > 0 ? from.shortest_ : 0;
  tokens > 0 ? state_.copy(from.state_) : state_.reset();
  length_ = tokens;
}

// All memory is for new tokens again.
void KvCache::forget() {
  own_behind(0);
  for (const auto& pages : pages_)
    if (pages != nullptr) pages->refill();
  shortest_ = 0;
}

// Before anything behind the first `tokens` is written: what others hold of it, too, is theirs.
void KvCache::own_behind(std::int64_t tokens) {
  for (const auto& pages : pages_)
    if (pages != nullptr) pages->own(tokens);
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

std::vector<KvCache::PartOfGroup> KvCache::parts_of_groups() const {
  std::vector<PartOfGroup> parts;
  std::array<std::size_t, 2> next{};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    for (const Tensor* x : {&layer.keys, &layer.values, &layer.key_scale, &layer.value_scale})
      if (x->defined()) parts.push_back({*x, groups_[i], next[static_cast<std::size_t>(groups_[i])]++});
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

bool KvCache::takes_entries() const {
  return std::ranges::all_of(heads_, [this](const Heads& heads) {
    return heads.count == 0 || kernels::takes_cache_entries(heads.size, dtype_);
  });
}

bool share_launches(std::span<const CacheSegment> segments) {
  const KvCache& first = *segments.front().cache;
  const std::int64_t tokens = segments.front().tokens;
  const auto as_first = [tokens](const CacheSegment& segment) { return segment.tokens == tokens; };
  return segments.size() > 1 && tokens <= kernels::kFewQueries && std::ranges::all_of(segments, as_first) &&
         first.takes_entries();
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
  entry_.note({.kind = CacheEvent::Kind::truncated, .tokens = length_});
  if (length_ > 0) return own_behind(length_);
  forget();
  state_.reset();
}

}  // namespace ingot
