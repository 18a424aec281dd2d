#pragma once

#include <vector>

#include "ingot/autograd/node.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot {

/// A quantized matrix kept for the backward pass, as SavedTensor keeps a tensor: by identity where its memory
/// was given to save_by_identity(). Empty of a null pointer.
class SavedPacked {
 public:
  explicit SavedPacked(const quant::PackedPtr& matrix);
  explicit operator bool() const { return matrix_.rows > 0; }
  quant::PackedMatrix matrix() const;
  /// quant::values() of it.
  Tensor values(DType dtype = DType::f32) const;
  /// For Node::saved().
  std::vector<SavedTensor*> tensors() { return {&data_, &order_}; }

 private:
  quant::PackedMatrix matrix_;  // without its tensors
  SavedTensor data_, order_;
};

}  // namespace ingot
