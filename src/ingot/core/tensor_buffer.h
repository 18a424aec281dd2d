#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "ingot/core/tensor.h"

namespace ingot {

/// A tensor's elements as plain bytes on the host: little-endian, row-major. A contiguous CPU tensor is
/// shared, not copied; anything else is copied once.
class TensorBuffer {
 public:
  explicit TensorBuffer(const Tensor& tensor);

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(tensor_.view().data), tensor_.nbytes()};
  }
  Shape shape() const { return tensor_.shape(); }
  DType dtype() const { return tensor_.dtype(); }
  std::int64_t numel() const { return tensor_.numel(); }
  std::size_t size_bytes() const { return tensor_.nbytes(); }
  /// A tensor over these bytes: shared on the CPU, copied to other devices.
  Tensor to_tensor(Device device = kCpu) const;

 private:
  Tensor tensor_;  // contiguous, on the CPU
};

}  // namespace ingot
