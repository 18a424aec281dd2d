#pragma once

#include <cstddef>
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
  /// `bucket_bytes`: a bucket is full with the leaf that brings it there. Gradients that the leaves have are
  /// dropped.
  GradBuckets(std::span<const Tensor> leaves, std::size_t bucket_bytes);
  /// The gradients stay where they are; their memory goes with the last of them.
  ~GradBuckets();
  GradBuckets(const GradBuckets&) = delete;
  GradBuckets& operator=(const GradBuckets&) = delete;

  std::size_t size() const { return buckets_.size(); }
  /// One axis: the gradients of bucket `i` one behind the other, with zeros between them for alignment.
  const Tensor& operator[](std::size_t i) const { return buckets_[i].memory; }

  /// `ready(i)` runs when the last gradient of bucket `i` is final; always in the order of the buckets.
  void on_ready(std::function<void(std::size_t)> ready);
  /// The next backward pass is the last that adds to the gradients: buckets become ready in it.
  void last_pass();
  /// After it: what got no gradient is zero from here on, and the buckets that are left become ready.
  void finish();

 private:
  struct Bucket {
    Tensor memory;
    std::vector<std::size_t> leaves;
    std::size_t waiting = 0;
  };
  void arrived(std::size_t bucket);
  void report();
  void fill_gaps(const Bucket& bucket) const;

  std::vector<Tensor> leaves_;
  std::vector<Bucket> buckets_;
  std::function<void(std::size_t)> ready_;
  bool last_pass_ = false;
  std::size_t reported_ = 0;
};

}  // namespace ingot
