#include "ingot/autograd/grad_buckets.h"

#include <algorithm>
#include <utility>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"

namespace ingot {
namespace {

constexpr std::size_t kAlignment = 256;  // of each gradient, in bytes: what kernels for wide loads ask for

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void zero(const Tensor& tensor) {
  backend(tensor.device())
      .fill_bytes(tensor.view().data, 0, tensor.nbytes(), current_stream(tensor.device()));
}

GradBuffer& buffer_of(const Tensor& leaf) { return leaf.autograd_meta()->grad; }

}  // namespace

GradBuckets::GradBuckets(std::span<const Tensor> leaves, std::size_t bucket_bytes)
    : leaves_(leaves.begin(), leaves.end()) {
  std::size_t filled = 0;
  for (std::size_t i = leaves_.size(); i-- > 0;) {
    const Tensor& leaf = leaves_[i];
    INGOT_CHECK(leaf.requires_grad() && leaf.is_leaf(),
                Error("GradBuckets: only leaves that require a gradient have a place in a bucket"));
    INGOT_CHECK(!buffer_of(leaf).fixed, Error("GradBuckets: a leaf's gradient is in another bucket already"));
    const bool opens = buckets_.empty() || filled >= bucket_bytes ||
                       leaves_[buckets_.back().leaves.back()].dtype() != leaf.dtype() ||
                       leaves_[buckets_.back().leaves.back()].device() != leaf.device();
    if (opens) {
      buckets_.emplace_back();
      filled = 0;
    }
    buckets_.back().leaves.push_back(i);
    filled += aligned(leaf.nbytes());
  }
  const MemoryTagScope tag(MemoryTag::gradient);
  for (Bucket& bucket : buckets_) {
    std::ranges::reverse(bucket.leaves);
    const Tensor& first = leaves_[bucket.leaves.front()];
    std::size_t bytes = 0;
    for (const std::size_t i : bucket.leaves) bytes += aligned(leaves_[i].nbytes());
    const auto elements = static_cast<std::int64_t>(bytes / byte_size(first.dtype()));
    bucket.memory = Tensor::empty({elements}, first.dtype(), first.device());
    zero(bucket.memory);
    char* at = bucket.memory.view().as<char>();
    for (const std::size_t i : bucket.leaves) {
      const Tensor& leaf = leaves_[i];
      buffer_of(leaf) = {
          .memory = {bucket.memory.storage(), contiguous_view(at, leaf.shape(), leaf.dtype(), leaf.device())},
          .written = false,
          .fixed = true};
      at += aligned(leaf.nbytes());
    }
  }
}

GradBuckets::~GradBuckets() {
  on_ready({});
  for (const Tensor& leaf : leaves_) {
    GradBuffer& grad = buffer_of(leaf);
    grad.fixed = false;
    if (!grad.written) grad.memory = {};
  }
}

void GradBuckets::on_ready(std::function<void(std::size_t)> ready) {
  ready_ = std::move(ready);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (const std::size_t leaf : buckets_[i].leaves)
      on_gradient_ready(leaves_[leaf], ready_ ? [this, i] { arrived(i); } : std::function<void()>{});
  }
}

void GradBuckets::last_pass() {
  last_pass_ = true;
  reported_ = 0;
  for (Bucket& bucket : buckets_) bucket.waiting = bucket.leaves.size();
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
  for (const std::size_t i : bucket.leaves) {
    GradBuffer& grad = buffer_of(leaves_[i]);
    if (!grad.written) zero(grad.memory);
    grad.written = true;
  }
}

void GradBuckets::finish() {
  for (std::size_t i = reported_; i < buckets_.size(); ++i) {
    fill_gaps(buckets_[i]);
    buckets_[i].waiting = 0;
  }
  if (ready_) report();
  last_pass_ = false;
}

}  // namespace ingot
