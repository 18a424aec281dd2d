#include "ingot/nn/projection_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/contiguous_rows.h"
#include "ingot/kernels/copy.h"
#include "ingot/nn/adapter_launch.h"
#include "ingot/nn/input_observer.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/matmul.h"

namespace ingot {
namespace {

// Whether the parameters of all layers can be moved to one block, each to where an allocation might begin.
bool can_concatenate(std::span<Parameter* const> parameters) {
  constexpr std::size_t kAlignment = 64;
  const Tensor& first = parameters.front()->value;
  return std::ranges::all_of(parameters, [&](const Parameter* parameter) {
    const Tensor& value = parameter->value;
    return parameter->trainable() && value.is_contiguous() && value.dtype() == first.dtype() &&
           value.device() == first.device() && value.nbytes() % kAlignment == 0;
  });
}

// Piece by piece, so that little more than the block is held besides.
void concatenate(std::span<Parameter* const> parameters) {
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

// The full name of several layers as one module: "layers.0.self_attn.q_proj+k_proj+v_proj".
std::string name_together(const LinearWeight& first, std::span<const std::string> names) {
  if (!scopes_watched()) return {};
  const std::string_view around = ModuleScope::above(first.dense.name, 2);
  return fmt::format("{}{}{}", around, around.empty() ? "" : ".", fmt::join(names, "+"));
}

}  // namespace

ProjectionGroup::ProjectionGroup(const ParamSource& source, std::vector<Layer> layers) {
  for (Layer& layer : layers) {
    layers_.push_back(std::make_unique<Linear>(source.scope(layer.name), layer.options));
    names_.push_back(std::move(layer.name));
  }
  if (backend(layers_.front()->device()).capabilities().fuses_projections) concatenate_weights();
}

void ProjectionGroup::concatenate_weights() {
  std::vector<Parameter*> weights, biases;
  for (const auto& layer : layers_) {
    if (layer->weight.is_quantized()) return;
    weights.push_back(&layer->weight.dense);
    if (layer->bias) biases.push_back(&layer->bias);
  }
  if (weights.size() < 2 || !can_concatenate(weights)) return;
  if (!biases.empty() && (biases.size() != weights.size() || !can_concatenate(biases))) return;
  concatenate(weights);
  if (!biases.empty()) concatenate(biases);
}

bool ProjectionGroup::is_plain() const {
  return std::ranges::all_of(layers_, [](const auto& layer) { return layer->weight.is_plain(); });
}

bool ProjectionGroup::is_fused() const {
  if ((!grad_enabled() && !recorded_later()) || !is_plain()) return false;
  std::vector<Tensor> weights;
  for (const auto& layer : layers_) weights.push_back(layer->weight.dense.value);
  return weights.size() > 1 && contiguous_rows(weights).defined();
}

Projections ProjectionGroup::operator()(const LinearInput& x) const {
  if (is_fused()) return {.fused = fused(x.tensor()), .each = {}};
  return {.fused = {}, .each = each(x)};
}

Tensor ProjectionGroup::fused(const Tensor& x) const {
  const std::string name = name_together(layers_.front()->weight, names_);
  const Scope scope(ScopeKind::module, name);
  std::vector<LinearWeights> weights;
  for (const auto& layer : layers_) {
    WeightObserver::tell({.linear = &layer->weight, .rows = x.numel() / x.dim(-1)});
    InputObserver::tell(layer->weight.dense.name, x);
    weights.push_back({layer->weight.dense.value, layer->bias.value});
  }
  return fused_linear(x, weights);
}

std::vector<Tensor> ProjectionGroup::each(const LinearInput& x) const {
  std::vector<Tensor> results = together(x);
  if (results.empty()) {
    const bool quantized_at_once = rounding(x) != quant::Rounding::none;
    if (!quantized_at_once) static_cast<void>(x.tensor());  // layers that differ read it so
    for (const auto& layer : layers_) results.push_back((*layer)(x));
    return results;
  }
  std::vector<LayerResult> layers;
  layers.reserve(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const LinearWeight& weight = layers_[i]->weight;
    WeightObserver::tell({.linear = &weight, .rows = x.rows()});
    InputObserver::tell(weight.dense.name, x);
    layers.push_back({.weight = weight, .bias = layers_[i]->bias.value, .y = std::move(results[i])});
  }
  add_adapters(layers, x);
  for (std::size_t i = 0; i < results.size(); ++i) results[i] = std::move(layers[i].y);
  return results;
}

// Empty where they have to go one by one.
std::vector<Tensor> ProjectionGroup::together(const LinearInput& x) const {
  const auto is_quantized = [](const auto& layer) { return layer->weight.is_quantized(); };
  const auto has_recipe = [](const auto& layer) { return layer->weight.recipe != nullptr; };
  if (layers_.size() < 2 || std::ranges::any_of(layers_, has_recipe)) return {};
  const std::string name = name_together(layers_.front()->weight, names_);
  if (std::ranges::none_of(layers_, is_quantized)) {
    std::vector<LinearWeights> weights;
    for (const auto& layer : layers_) weights.push_back({layer->weight.dense.value, layer->bias.value});
    const Tensor& input = x.tensor();  // which may be made here, by the module before
    const Scope scope(ScopeKind::module, name);
    return linear(input, weights);
  }
  if (!std::ranges::all_of(layers_, is_quantized) || multiplies_with_values()) return {};
  std::vector<quant::WeightAndBias> weights;
  for (const auto& layer : layers_) weights.push_back({*layer->weight.packed, layer->bias.value});
  const auto& input = x.quantized(rounding(x));
  const Scope scope(ScopeKind::module, name);
  return quant::linear(input, weights);
}

quant::Rounding ProjectionGroup::rounding(const LinearInput& x) const {
  std::vector<const LinearWeight*> weights;
  for (const auto& layer : layers_) weights.push_back(&layer->weight);
  return common_rounding(weights, x.rows());
}

const Linear& ProjectionGroup::layer(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  INGOT_CHECK(found != names_.end(), Error(fmt::format("there is no layer '{}' in this group, but {}", name,
                                                       fmt::join(names_, ", "))));
  return *layers_[static_cast<std::size_t>(found - names_.begin())];
}

void ProjectionGroup::visit(ParamVisitor& v) {
  for (std::size_t i = 0; i < layers_.size(); ++i) v(names_[i], *layers_[i]);
}

Qkv split_heads(Projections projections, std::int64_t heads, std::int64_t kv_heads) {
  if (projections.fused.defined()) {
    const Tensor fused = std::move(projections.fused);  // gone on return, so that RoPE may rotate in place
    return {split_heads(fused, heads + 2 * kv_heads), heads, kv_heads};
  }
  return {split_heads(projections.each[0], heads), split_heads(projections.each[1], kv_heads),
          split_heads(projections.each[2], kv_heads)};
}

}  // namespace ingot
