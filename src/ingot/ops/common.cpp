#include "ingot/ops/common.h"

#include <string>

#include "ingot/base/error.h"

namespace ingot {

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

}  // namespace ingot
