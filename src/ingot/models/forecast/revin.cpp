#include "ingot/models/forecast/revin.h"

#include <limits>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

namespace ingot {

RevIN RevIN::standard(const Tensor& x) {
  const NoGrad no_grad;
  return {ingot::mean(x, {-1}, true), sqrt(var(x, {-1}, 0, true) + 1e-5)};
}

RevIN RevIN::by_magnitude(const Tensor& x) {
  const NoGrad no_grad;
  return {{}, clamp(ingot::mean(abs(x), {-1}, true), 1e-10, std::numeric_limits<double>::infinity())};
}

Tensor RevIN::apply(const Tensor& x) const {
  const Tensor centred = mean.defined() ? x - mean : x;
  return deviation.defined() ? centred / deviation : centred;
}

Tensor RevIN::undo(const Tensor& y) const {
  const Tensor scaled = deviation.defined() ? y * deviation : y;
  return mean.defined() ? scaled + mean : scaled;
}

}  // namespace ingot
