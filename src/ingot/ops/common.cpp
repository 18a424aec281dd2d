#include "ingot/ops/common.h"

#include <string>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

// Whether the rows or the columns of the last two axes are adjacent, without overlap.
bool is_matrix(const Tensor& x) {
  if (x.rank() < 2) return x.is_contiguous();
  const std::int64_t rows = x.dim(-2), cols = x.dim(-1), row = x.stride(-2), col = x.stride(-1);
  return ((cols == 1 || col == 1) && (rows == 1 || row >= cols)) ||
         ((rows == 1 || row == 1) && (cols == 1 || col >= rows));
}

}  // namespace

void check_defined(const char* op, std::initializer_list<const Tensor*> tensors, bool same_dtype) {
  const Tensor& first = **tensors.begin();
  int position = 0;
  for (const Tensor* tensor : tensors) {
    INGOT_CHECK(tensor->defined(),
                Error(std::string(op) + ": operand " + std::to_string(position) + " is undefined"));
    INGOT_CHECK(tensor->device() == first.device(),
                DeviceMismatch(op, to_string(first.device()), to_string(tensor->device())));
    INGOT_CHECK(!same_dtype || tensor->dtype() == first.dtype(),
                KernelError(op, "operands have dtypes " + std::string(name(first.dtype())) + " and " +
                                    std::string(name(tensor->dtype())) + "; convert one with to(dtype)"));
    ++position;
  }
}

Tensor as_matrix(const Tensor& x) { return is_matrix(x) ? x : contiguous(x); }

View heads_of(View view, std::int64_t begin, std::int64_t count) {
  view.data = view.as<char>() + begin * view.stride(2) * static_cast<std::int64_t>(byte_size(view.dtype));
  view.shape[2] = count;
  return view;
}

}  // namespace ingot
