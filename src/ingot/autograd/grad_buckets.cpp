#include "ingot/autograd/grad_buckets.h"

#include <algorithm>
#include <utility>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/contiguous_rows.h"

namespace ingot {
namespace {

constexpr std::size_t kAlignment = 256;  // of each gradient, in bytes: what kernels for wide loads ask for

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void zero(const Tensor& tensor) {
  backend(tensor.device())
      .fill_bytes(tensor.view().data, 0, tensor.nbytes(), current_stream(tensor.device()));
}

bool follows(const Tensor& leaf, const Tensor& before) {
  return contiguous_rows(std::vector{before.detach(), leaf.detach()}).defined();
}

GradBuffer& buffer_of(const Tensor& leaf) { return leaf.autograd_meta()->grad; }

}  // namespace

std::vector<GradBuckets::Layout> GradBuckets::lay_out(std::span<const Tensor> leaves,
                                                      std::size_t bucket_bytes,
                                                      std::span<const std::int64_t> groups) {
  std::vector<Layout> buckets;
  std::size_t filled = 0;
  for (std::size_t i = leaves.size(); i-- > 0;) {
    const Tensor& leaf = leaves[i];
    const auto opens = [&] {
      if (buckets.empty()) return true;
      const std::size_t behind = buckets.back().items.back().leaf;
      if (!groups.empty() && groups[behind] != groups[i]) return true;
      if (!groups.empty() && follows(leaves[behind], leaf)) return false;
      const Tensor& last = leaves[behind];
      return filled >= bucket_bytes || last.dtype() != leaf.dtype() || last.device() != leaf.device();
    };
    if (opens()) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().items.push_back({.leaf = i});
    filled += aligned(leaf.nbytes());
  }
  for (Layout& bucket : buckets) {
    std::ranges::reverse(bucket.items);
    std::size_t bytes = 0;
    for (Layout::Item& item : bucket.items) {
      const Tensor& leaf = leaves[item.leaf];
      const bool joins =
          !groups.empty() && &item != &bucket.items.front() && follows(leaf, leaves[(&item - 1)->leaf]);
      if (!joins) bytes = aligned(bytes) + (groups.empty() || bytes == 0 ? 0 : kAlignment);
      item.begin = bytes / byte_size(leaf.dtype());
      bytes += leaf.nbytes();
    }
    bytes = aligned(bytes);
    bucket.elements = bytes / byte_size(leaves[bucket.items.front().leaf].dtype());
  }
  return buckets;
}

GradBuckets::GradBuckets(std::span<const Tensor> leaves, std::vector<Layout> layouts, Memory memory)
    : leaves_(leaves.begin(), leaves.end()), memory_(memory) {
  for (const Tensor& leaf : leaves_) {
    INGOT_CHECK(leaf.requires_grad() && leaf.is_leaf(),
                Error("GradBuckets: a parameter is not a leaf that requires a gradient; give leaves alone"));
    INGOT_CHECK(
        !buffer_of(leaf).fixed,
        Error("GradBuckets: a leaf's gradient is in another bucket already; give each leaf to one bucket"));
    leaf.set_grad({});
  }
  const MemoryTagScope tag(MemoryTag::gradient);
  for (Layout& layout : layouts) {
    Bucket& bucket = buckets_.emplace_back();
    bucket.layout = std::move(layout);
    if (memory == Memory::passing) continue;
    const Tensor& first = leaves_[bucket.layout.items.front().leaf];
    bucket.memory =
        Tensor::empty({static_cast<std::int64_t>(bucket.layout.elements)}, first.dtype(), first.device());
    zero(bucket.memory);
    for (const Layout::Item& item : bucket.layout.items)
      buffer_of(leaves_[item.leaf]) = {.memory = place(bucket.memory, item), .written = false, .fixed = true};
  }
}

Tensor GradBuckets::place(const Tensor& memory, const Layout::Item& item) const {
  const Tensor& leaf = leaves_[item.leaf];
  char* at = memory.view().as<char>() + item.begin * byte_size(leaf.dtype());
  return {memory.storage(), contiguous_view(at, leaf.shape(), leaf.dtype(), leaf.device())};
}

Tensor GradBuckets::take(std::size_t i) const {
  const Layout& layout = buckets_[i].layout;
  const Tensor& first = leaves_[layout.items.front().leaf];
  const MemoryTagScope tag(MemoryTag::gradient);
  const Tensor memory =
      Tensor::empty({static_cast<std::int64_t>(layout.elements)}, first.dtype(), first.device());
  zero(memory);
  for (const Layout::Item& item : layout.items) {
    const Tensor& leaf = leaves_[item.leaf];
    const Tensor gradient = leaf.grad(), to = place(memory, item);
    if (gradient.defined())
      backend(to.device())
          .copy(to.view().data, gradient.view().data, gradient.nbytes(), current_stream(to.device()));
    leaf.set_grad({});
  }
  return memory;
}

GradBuckets::~GradBuckets() {
  on_ready({});
  if (memory_ == Memory::passing) return;
  for (const Tensor& leaf : leaves_) {
    GradBuffer& grad = buffer_of(leaf);
    grad.fixed = false;
    if (!grad.written) grad.memory = {};
  }
}

void GradBuckets::on_ready(std::function<void(std::size_t)> ready) {
  ready_ = std::move(ready);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (const Layout::Item& item : buckets_[i].layout.items)
      on_gradient_ready(leaves_[item.leaf], ready_ ? [this, i] { arrived(i); } : std::function<void()>{});
  }
}

void GradBuckets::last_pass() {
  last_pass_ = true;
  reported_ = 0;
  for (Bucket& bucket : buckets_) bucket.waiting = bucket.layout.items.size();
}

void GradBuckets::arrived(std::size_t bucket) {
  if (!last_pass_) return;
  --buckets_[bucket].waiting;
  report();
}

// In order: a bucket whose leaves are done waits for those before it, so that every process reports the same
// sequence.
void GradBuckets::report() {
  for (; reported_ < buckets_.size() && buckets_[reported_].waiting == 0; ++reported_) ready_(reported_);
}

void GradBuckets::fill_gaps(const Bucket& bucket) const {
  for (const Layout::Item& item : bucket.layout.items) {
    GradBuffer& grad = buffer_of(leaves_[item.leaf]);
    if (!grad.written) zero(grad.memory);
    grad.written = true;
  }
}

void GradBuckets::finish() {
  for (std::size_t i = reported_; i < buckets_.size(); ++i) {
    if (memory_ == Memory::fixed) fill_gaps(buckets_[i]);
    buckets_[i].waiting = 0;
  }
  if (ready_) report();
  last_pass_ = false;
}

}  // namespace ingot
