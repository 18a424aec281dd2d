#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// Gradients of many leaves in a few contiguous blocks at fixed addresses, so that each block can be sent,
/// reduced or recorded as one tensor. A bucket holds leaves of one dtype and device in their order; the
/// buckets go from the last leaves to the first, as a backward pass does. The gradients have the same bits as
/// in separate memory.
///
///     GradBuckets buckets(leaves, 25 << 20);
///     buckets.on_ready([&](std::size_t i) { communicator.all_reduce(buckets[i]); });
///     for (each micro-batch but the last) backward(loss());
///     buckets.last_pass();
///     backward(loss());
///     buckets.finish();
class GradBuckets {
 public:
  /// Where gradients lie in a bucket of so many elements, by leaf.
  struct Layout {
    struct Item {
      std::size_t leaf = 0, begin = 0;  ///< index of the leaf, first element
    };
    std::vector<Item> items;
    std::size_t elements = 0;
  };
  /// How the leaves are laid out. `bucket_bytes`: a bucket is full with the leaf that brings it there.
  /// `groups`, by leaf, where the values get the same layout: no bucket has leaves of two groups, and only
  /// leaves that are contiguous stay so in a bucket, since ops join those.
  static std::vector<Layout> lay_out(std::span<const Tensor> leaves, std::size_t bucket_bytes,
                                     std::span<const std::int64_t> groups = {});

  enum class Memory {
    fixed,   ///< the gradients of all buckets stand in their buckets from the beginning
    passing  ///< the backward pass makes each gradient by itself, and take() puts those of a bucket together
  };
  /// Gradients that the leaves have are dropped. `layouts`: of lay_out().
  GradBuckets(std::span<const Tensor> leaves, std::vector<Layout> layouts, Memory memory = Memory::fixed);
  GradBuckets(std::span<const Tensor> leaves, std::size_t bucket_bytes, Memory memory = Memory::fixed)
      : GradBuckets(leaves, lay_out(leaves, bucket_bytes), memory) {}
  /// The gradients stay where they are; their memory goes with the last of them.
  ~GradBuckets();
  GradBuckets(const GradBuckets&) = delete;
  GradBuckets& operator=(const GradBuckets&) = delete;

  std::size_t size() const { return buckets_.size(); }
  /// One axis: the gradients of bucket `i` one behind the other, with zeros between them for alignment. Fixed
  /// memory only.
  const Tensor& operator[](std::size_t i) const { return buckets_[i].memory; }
  /// Passing memory: the same in memory of its own, with zeros for leaves without a gradient. The leaves'
  /// gradients are dropped.
  Tensor take(std::size_t i) const;
  const Layout& layout(std::size_t i) const { return buckets_[i].layout; }

  /// `ready(i)` runs when the last gradient of bucket `i` is final; always in the order of the buckets.
  void on_ready(std::function<void(std::size_t)> ready);
  /// The next backward pass is the last that adds to the gradients: buckets become ready in it.
  void last_pass();
  /// After it: in fixed memory what got no gradient is zero from here on, and the buckets that are left
  /// become ready.
  void finish();

 private:
  struct Bucket {
    Layout layout;
    Tensor memory;
    std::size_t waiting = 0;
  };
  Tensor place(const Tensor& memory, const Layout::Item& item) const;
  void arrived(std::size_t bucket);
  void report();
  void fill_gaps(const Bucket& bucket) const;

  std::vector<Tensor> leaves_;
  Memory memory_;
  std::vector<Bucket> buckets_;
  std::function<void(std::size_t)> ready_;
  bool last_pass_ = false;
  std::size_t reported_ = 0;
};

}  // namespace ingot
