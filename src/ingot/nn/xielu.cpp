#include "ingot/nn/xielu.h"

#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/pointwise.h"

namespace ingot {
namespace {

// The paper's: p is 0.8 and n is 0.8 at first, before softplus.
constexpr double kAlphaP = 0.2033823208, kAlphaN = -1.0502256128, kBeta = 0.5, kEps = -1e-6;

Parameter xielu_number(const ParamSource& source, const char* name, double value, bool trainable) {
  return source.take(name, {1}, init::Constant{value}, {.decay = false, .trainable = trainable});
}

}  // namespace

Xielu::Xielu(const ParamSource& source)
    : alpha_p(xielu_number(source, "alpha_p", kAlphaP, true)),
      alpha_n(xielu_number(source, "alpha_n", kAlphaN, true)),
      beta(xielu_number(source, "beta", kBeta, false)),
      eps(xielu_number(source, "eps", kEps, false)) {}

Tensor Xielu::operator()(const Tensor& x) const {
  const auto as_x = [&x](const Tensor& number) { return to(number, x.dtype()); };
  const Tensor p = as_x(softplus(alpha_p.value)), n = as_x(beta.value + softplus(alpha_n.value));
  const Tensor parabola = pointwise([](const auto& v) { return square(relu(v)); }, x);
  const Tensor exponential = pointwise(
      [](const auto& v, const auto& low) {
        const auto positive = relu(v);  // of which nothing is left here
        return (elu(low, 1) - (v - positive)) * (1.0 - sign(positive));
      },
      x, minimum(x, as_x(eps.value)));
  return parabola * p + exponential * n + x * as_x(beta.value);
}

void Xielu::visit(ParamVisitor& v) {
  v("alpha_p", alpha_p);
  v("alpha_n", alpha_n);
  v("beta", beta);
  v("eps", eps);
}

}  // namespace ingot
