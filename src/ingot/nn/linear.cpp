#include "ingot/nn/linear.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

namespace ingot {

void LinearOptions::validate() const {
  INGOT_CHECK(in > 0, InvalidConfig("linear.in", fmt::format("must be positive, got {}", in)));
  INGOT_CHECK(out > 0, InvalidConfig("linear.out", fmt::format("must be positive, got {}", out)));
}

Linear::Linear(const ParamSource& source, const LinearOptions& options)
    : packed(source.take_packed("weight", {validated(options).out, options.in})),
      weight(packed != nullptr ? Parameter()
                               : source.take("weight", {options.out, options.in},
                                             options.weight_init.value_or(init::fan_in_uniform(options.in)))),
      bias(options.bias ? source.take("bias", {options.out},
                                      options.bias_init.value_or(init::fan_in_uniform(options.in)))
                        : Parameter()) {}

Tensor Linear::operator()(const Tensor& x) const { return (*this)(quant::Activations(x)); }

Tensor Linear::operator()(const quant::Activations& x) const { return linear_each(x, {this}).front(); }

std::vector<Tensor> linear_each(const quant::Activations& x, std::initializer_list<const Linear*> layers) {
  const auto is_packed = [](const Linear* layer) { return layer->packed != nullptr; };
  INGOT_CHECK(!grad_enabled() || std::ranges::none_of(layers, is_packed) || !x.x().requires_grad(),
              NotImplemented("gradients through a quantised linear layer"));
  if (std::ranges::all_of(layers, is_packed)) {
    std::vector<quant::WeightAndBias> weights;
    for (const Linear* layer : layers) weights.push_back({*layer->packed, layer->bias.value});
    return quant::linear(x, weights);
  }
  if (layers.size() > 1 && std::ranges::none_of(layers, is_packed)) {
    std::vector<LinearWeights> weights;
    weights.reserve(layers.size());
    for (const Linear* layer : layers) weights.push_back({layer->weight.value, layer->bias.value});
    return linear(x.x(), weights);
  }
  std::vector<Tensor> results;
  for (const Linear* layer : layers) {
    results.push_back(layer->packed != nullptr ? quant::linear(x, *layer->packed, layer->bias.value)
                                               : linear(x.x(), layer->weight.value, layer->bias.value));
  }
  return results;
}

quant::Rounding common_rounding(std::initializer_list<const Linear*> layers, std::int64_t rows) {
  const quant::Rounding first = quant::rounding((*layers.begin())->packed.get(), rows);
  const auto same = [&](const Linear* layer) { return quant::rounding(layer->packed.get(), rows) == first; };
  return !grad_enabled() && std::ranges::all_of(layers, same) ? first : quant::Rounding::none;
}

bool rounds_input(const Linear& layer) {
  return layer.packed != nullptr && !kernels::is_weight_only(layer.packed->format);
}

quant::Activations apply_by_rows(std::initializer_list<Tensor> xs, quant::Rounding rounding,
                                 FunctionRef<Tensor(std::span<const Tensor>)> f) {
  constexpr std::int64_t kFewElements = 16384;  // stay in cache as they are
  const Shape shape = xs.begin()->shape();
  if (rounding == quant::Rounding::none || shape.numel() <= kFewElements) return quant::Activations(f(xs));
  std::vector<Tensor> matrices;
  for (const Tensor& x : xs) matrices.push_back(reshape(x, {-1, shape.back()}));
  return {shape, rounding, [&](std::int64_t begin, std::int64_t end) {
            const NoGrad no_grad;  // of the thread that this runs on
            std::vector<Tensor> rows;
            rows.reserve(matrices.size());
            for (const Tensor& x : matrices) rows.push_back(narrow(x, 0, begin, end - begin));
            return f(rows);
          }};
}

void Linear::visit(ParamVisitor& v) {
  v("weight", weight);
  v("bias", bias);
}

}  // namespace ingot
