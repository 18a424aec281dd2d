#include "ingot/nn/saved_packed.h"

namespace ingot {

SavedPacked::SavedPacked(const quant::PackedPtr& matrix) {
  if (matrix == nullptr) return;
  matrix_.format = matrix->format;
  matrix_.rows = matrix->rows;
  matrix_.cols = matrix->cols;
  data_ = SavedTensor(matrix->data);
  order_ = SavedTensor(matrix->order);
}

quant::PackedMatrix SavedPacked::matrix() const {
  quant::PackedMatrix whole = matrix_;
  whole.data = data_.get();
  whole.order = order_.get();
  return whole;
}

Tensor SavedPacked::values(DType dtype) const { return quant::values(matrix(), dtype); }

}  // namespace ingot
