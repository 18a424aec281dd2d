#pragma once

#include <array>
#include <cstdint>

#include "ingot/core/view.h"
#include "ingot/kernels/cpu/simd/convert.h"

namespace ingot::kernels::cpu {

/// Elements [begin, begin + n) of a contiguous view as f32: in place where the view is f32, converted through
/// a buffer where it is bf16 or f16. An absent view gives a null pointer.
class FloatBlock {
 public:
  static constexpr std::int64_t kMax = 1024;  ///< elements; a multiple of every vector length

  FloatBlock(const View& view, std::int64_t begin, std::int64_t n) : dtype_(view.dtype), n_(n) {
    if (!view) return;
    memory_ = view.as<char>() + begin * static_cast<std::int64_t>(byte_size(dtype_));
    data_ = dtype_ == DType::f32 ? reinterpret_cast<float*>(memory_) : buffer_.data();
    if (data_ == buffer_.data()) load_floats(memory_, dtype_, 1, n, data_);
  }
  FloatBlock(const FloatBlock&) = delete;
  FloatBlock& operator=(const FloatBlock&) = delete;

  float* data() { return data_; }
  /// Rounds `values` to the view (nothing to do where they are in place).
  void store(const float* values) {
    if (memory_ != nullptr && static_cast<const void*>(memory_) != values) {
      store_floats(values, n_, memory_, dtype_, 1);
    }
  }

 private:
  DType dtype_;
  std::int64_t n_;
  char* memory_ = nullptr;
  float* data_ = nullptr;
  alignas(64) std::array<float, kMax> buffer_;
};

}  // namespace ingot::kernels::cpu
