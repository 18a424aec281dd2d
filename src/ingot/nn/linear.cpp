#include "ingot/nn/linear.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/core/backend.h"
#include "ingot/core/joined_rows.h"
#include "ingot/kernels/copy.h"
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

Tensor linear_side_by_side(const Tensor& x, std::initializer_list<const Linear*> layers) {
  std::vector<LinearWeights> weights;
  for (const Linear* layer : layers) weights.push_back({layer->weight.value, layer->bias.value});
  return linear_side_by_side(x, weights);
}

namespace {

// Whether the parameters of all layers can be moved to one block, each to where an allocation might begin.
bool can_join(std::span<const Parameter* const> parameters) {
  constexpr std::size_t kAlignment = 64;
  const Tensor& first = parameters.front()->value;
  return std::ranges::all_of(parameters, [&](const Parameter* parameter) {
    const Tensor& value = parameter->value;
    return parameter->trainable() && value.is_contiguous() && value.dtype() == first.dtype() &&
           value.device() == first.device() && value.nbytes() % kAlignment == 0;
  });
}

// Piece by piece, so that little more than the block is held besides.
void join(std::span<Parameter* const> parameters) {
  std::vector<std::int64_t> rows;
  for (const Parameter* parameter : parameters) rows.push_back(parameter->value.dim(0));
  const Tensor& first = parameters.front()->value;
  const Shape shape = first.shape().with(0, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
  const Device device = first.device();
  const MemoryTagScope tag(MemoryTag::parameter);
  const Tensor block = Tensor::empty(shape, first.dtype(), device);
  const std::vector<Tensor> pieces = split_rows(block, rows);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    kernels::launch(kernels::copy, current_stream(device),
                    {.x = parameters[i]->value.view(), .y = pieces[i].view()});
    parameters[i]->replace(pieces[i]);
  }
  constexpr std::size_t kLarge = std::size_t{1} << 20;
  if (block.nbytes() >= kLarge) backend(device).trim();  // of what the copies leave
}

}  // namespace

void lay_side_by_side(std::initializer_list<Linear*> layers) {
  std::vector<Parameter*> weights, biases;
  for (Linear* layer : layers) {
    weights.push_back(&layer->weight);
    if (layer->bias) biases.push_back(&layer->bias);
  }
  if (!can_join(weights)) return;
  if (!biases.empty() && (biases.size() != weights.size() || !can_join(biases))) return;
  join(weights);
  if (!biases.empty()) join(biases);
}

bool train_as_one(std::initializer_list<const Linear*> layers) {
  if (!grad_enabled() && !recorded_later()) return false;
  std::vector<Tensor> weights;
  for (const Linear* layer : layers) weights.push_back(layer->weight.value);
  return joined_rows(weights).defined();
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
