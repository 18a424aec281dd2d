#include <array>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"

// Steps of optimizers. Inputs: rate, number of the step, then all parameters, all gradients and all states.

namespace ingot::onnx {
namespace {

/// What a step makes of one element; both states where an optimizer has two.
struct Updated {
  double value, first, second = 0;
};

/// Outputs: all parameters, then their states.
template <class F>
Values optimizer_step(const OpCall& call, std::size_t states, F update) {
  const std::size_t given = call.input_count() < 2 ? 0 : call.input_count() - 2, count = given / (2 + states);
  INGOT_CHECK(count > 0 && given == count * (2 + states),
              FormatError(call.where(), -1, "input",
                          fmt::format("{} tensors, expected groups of {}", given, 2 + states)));
  const double rate = call.number_in(0), step = call.number_in(1);
  Values outputs(count * (1 + states));
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& x = call.in(2 + i);
    std::vector<std::vector<double>> columns;
    for (std::size_t k = 0; k < 2 + states; ++k) {
      const Tensor& column = call.in(2 + i + k * count);
      INGOT_CHECK(column.shape() == x.shape(),
                  ShapeMismatch(call.where(), x.shape().to_vector(), column.shape().to_vector()));
      columns.push_back(as_doubles(column));
    }
    for (std::size_t n = 0; n < columns[0].size(); ++n) {
      const Updated result =
          update(rate, step, columns[0][n], columns[1][n], columns[2][n], states > 1 ? columns[3][n] : 0);
      columns[0][n] = result.value;
      columns[2][n] = result.first;
      if (states > 1) columns[3][n] = result.second;
    }
    outputs[i] = from_doubles(columns[0], x.shape(), x.dtype());
    for (std::size_t k = 0; k < states; ++k)
      outputs[i + (k + 1) * count] = from_doubles(columns[2 + k], x.shape(), x.dtype());
  }
  return outputs;
}

Values adagrad(const OpCall& call) {
  const double norm = call.number("norm_coefficient", 0), epsilon = call.number("epsilon", 1e-6F),
               decay = call.number("decay_factor", 0);
  return optimizer_step(call, 1, [=](double rate, double step, double x, double g, double h, double) {
    const double gradient = norm * x + g, sum = h + gradient * gradient;
    return Updated{x - rate / (1 + step * decay) * gradient / (std::sqrt(sum) + epsilon), sum};
  });
}

Values adam(const OpCall& call) {
  const double alpha = call.number("alpha", 0.9F), beta = call.number("beta", 0.999F),
               epsilon = call.number("epsilon", 1e-6F), norm = call.number("norm_coefficient", 0),
               after = call.number("norm_coefficient_post", 0);
  return optimizer_step(call, 2, [=](double rate, double step, double x, double g, double v, double h) {
    const double gradient = norm * x + g, first = alpha * v + (1 - alpha) * gradient,
                 second = beta * h + (1 - beta) * gradient * gradient;
    const double adjusted =
        step > 0 ? rate * std::sqrt(1 - std::pow(beta, step)) / (1 - std::pow(alpha, step)) : rate;
    return Updated{(1 - after) * (x - adjusted * first / (std::sqrt(second) + epsilon)), first, second};
  });
}

Values momentum(const OpCall& call) {
  const double alpha = call.number("alpha", 0), beta = call.number("beta", 1),
               norm = call.number("norm_coefficient", 0);
  const bool nesterov = call.text("mode", "standard") == "nesterov";
  return optimizer_step(call, 1, [=](double rate, double step, double x, double g, double v, double) {
    const double gradient = norm * x + g, velocity = alpha * v + (step > 0 ? beta : 1) * gradient;
    return Updated{x - rate * (nesterov ? gradient + alpha * velocity : velocity), velocity};
  });
}

constexpr std::array kTrainingOps = {OpRow{"ai.onnx.preview.training.Adagrad", adagrad},
                                     OpRow{"ai.onnx.preview.training.Adam", adam},
                                     OpRow{"ai.onnx.preview.training.Momentum", momentum}};

}  // namespace

std::span<const OpRow> training_ops() { return kTrainingOps; }

}  // namespace ingot::onnx
