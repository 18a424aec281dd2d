#pragma once

#include <initializer_list>

#include "ingot/base/scope.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// Checks operands: all tensors are defined, on one device and, with `same_dtype`, of one dtype.
/// Throws Error, DeviceMismatch or KernelError naming `op`.
void check_defined(const char* op, std::initializer_list<const Tensor*> tensors, bool same_dtype = true);

/// What an op begins with: check_defined(), and the Scope that it runs in.
class OpScope {
 public:
  OpScope(const char* op, std::initializer_list<const Tensor*> tensors, bool same_dtype = true)
      : scope_(ScopeKind::op, op) {
    check_defined(op, tensors, same_dtype);
  }

 private:
  Scope scope_;
};

/// x itself where the rows or the columns of its last two axes are adjacent, as the matmuls read it, or else
/// a copy that is contiguous.
Tensor as_matrix(const Tensor& x);

/// Heads [begin, begin + count) of a [B, S, H, D] view.
View heads_of(View view, std::int64_t begin, std::int64_t count);

}  // namespace ingot
