#include "ingot/ops/scan_state.h"

#include <algorithm>
#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {

void check_scan_shape(const char* op, const char* what, const Tensor& x, const Shape& expected,
                      const char* advice) {
  if (!x.defined() || x.shape() == expected) return;
  throw ShapeMismatch(std::string(op) + " (" + what + ")", expected.to_vector(), x.shape().to_vector(),
                      advice);
}

void ScanOperands::check(const Tensor& state) const {
  const std::string name = std::string(op) + ": ";
  INGOT_CHECK(x.rank() == 4,
              DimensionMismatch(name + "x is [batch, steps, heads, size], got " + to_string(x.shape())));
  INGOT_CHECK(keys.rank() == 4, DimensionMismatch(name + "keys are [batch, steps, groups, width], got " +
                                                  to_string(keys.shape())));
  const std::int64_t batch = x.dim(0), steps = x.dim(1), heads = x.dim(2), groups = keys.dim(2),
                     width = keys.dim(3);
  INGOT_CHECK(groups > 0 && heads % groups == 0,
              DimensionMismatch(name + std::to_string(groups) + " groups of keys do not divide " +
                                std::to_string(heads) + " heads"));
  check_scan_shape(op, "decay", decay, {batch, steps, heads}, "one for each step and head of x");
  check_scan_shape(op, "keys", keys, {batch, steps, groups, width}, "as many steps as x");
  check_scan_shape(op, "queries", queries, {batch, steps, groups, width}, "as keys");
  check_scan_shape(op, "starts", starts, {batch, steps}, "a step of each step's document");
  check_scan_shape(op, "state", state, {batch, heads, x.dim(3), width}, "a matrix for each head");
  INGOT_CHECK(!starts.defined() || starts.dtype() == DType::i32,
              DimensionMismatch(name + "starts are i32, got " + std::string(ingot::name(starts.dtype()))));
}

Tensor ScanOperands::state(const Tensor& given, std::initializer_list<const Tensor*> inputs) const {
  if (!given.defined())
    return Tensor::zeros({x.dim(0), x.dim(2), x.dim(3), keys.dim(3)}, wide_dtype(), x.device());
  const bool recorded =
      grad_enabled() && std::ranges::any_of(inputs, [](const Tensor* t) { return t->requires_grad(); });
  INGOT_CHECK(!recorded && given.is_contiguous() && given.dtype() == wide_dtype(),
              Error(std::string(op) + ": a state is contiguous, of the dtype that is computed in, and has no "
                                      "gradient; put the call in a NoGrad scope"));
  return given;
}

Tensor scan_operand(const Tensor& x, DType dtype) { return contiguous(to(x, dtype)); }

Tensor sum_of_groups(const Tensor& of_heads, std::int64_t groups) {
  const NoGrad no_grad;
  const std::int64_t heads = of_heads.dim(2);
  if (groups == heads) return of_heads;
  return sum(reshape(of_heads, {of_heads.dim(0), of_heads.dim(1), groups, heads / groups, of_heads.dim(3)}),
             {3});
}

}  // namespace ingot
