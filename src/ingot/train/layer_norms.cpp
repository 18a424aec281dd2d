#include "ingot/train/layer_norms.h"

#include <algorithm>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

bool is_number(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string layer_of(std::string_view name) {
  std::string_view before, rest = name;
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    if (is_number(part)) return std::string(before) + "." + std::string(part);
    if (dot == std::string_view::npos) return std::string(before.empty() ? part : before);
    before = part;
    rest.remove_prefix(dot + 1);
  }
}

LayerNorms::LayerNorms(const std::vector<Parameter*>& parameters) {
  for (Parameter* parameter : parameters) {
    const std::string layer = layer_of(parameter->name);
    const auto found = std::ranges::find(names_, layer);
    const auto at = static_cast<std::size_t>(found - names_.begin());
    if (found == names_.end()) {
      names_.push_back(layer);
      layers_.emplace_back();
    }
    layers_[at].push_back(parameter);
  }
}

Tensor LayerNorms::measure(FunctionRef<Tensor(std::span<Parameter* const>)> norm) const {
  const NoGrad no_grad;
  std::vector<Tensor> norms;
  norms.reserve(layers_.size());
  for (const std::vector<Parameter*>& layer : layers_) norms.push_back(reshape(norm(layer), {1}));
  return concat(norms);
}

}  // namespace ingot
