#pragma once

#include <memory>

#include "ingot/kernels/cpu/library/gemm_layout.h"

namespace ingot::kernels::cpu {

/// One matmul by oneDNN's primitive: c [m, n] = a [m, k] · b [k, n]. It is planned for the threads that there
/// are when it is made, so make it where it runs. oneDNN keeps primitives: making one again takes some
/// microseconds.
class OnednnMatmul {
 public:
  struct Size {
    std::int64_t m = 0, n = 0, k = 0;
  };
  struct Strides {
    Matrix a, b;
    std::int64_t c = 0;  ///< from row to row, in elements
  };
  /// What is multiplied, f32 or bf16, and what is added to the result.
  struct Kind {
    DType operands = DType::f32, result = DType::f32;
    bool biased = false, accumulate = false;
  };

  OnednnMatmul(const Size& size, const Strides& strides, const Kind& kind);

  /// bias: [n], or null where the kind has none.
  void run(const void* a, const void* b, const void* bias, void* c) const;

 private:
  struct Planned;
  std::shared_ptr<const Planned> planned_;
};

}  // namespace ingot::kernels::cpu
