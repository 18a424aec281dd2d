#pragma once

namespace ingot::kernels::cpu {

/// Whether a matmul of few rows begins with the last columns of its weights: where this thread's last one
/// read the same weights from the first on, as each step of an RNN does, the caches still hold the last.
inline bool reads_backward(const void* weights) {
  static thread_local const void* forward = nullptr;
  const bool again = weights == forward;
  forward = again ? nullptr : weights;
  return again;
}

}  // namespace ingot::kernels::cpu
