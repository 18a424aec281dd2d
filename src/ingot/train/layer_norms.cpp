#include "ingot/train/layer_norms.h"

#include <algorithm>
#include <string_view>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/view.h"
#include "ingot/optim/clip.h"

namespace ingot {
namespace {

bool is_number(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

// "model.layers.3.mlp.up_proj.weight" is of "layers.3", "model.embed_tokens.weight" of "embed_tokens".
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

}  // namespace

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

Tensor LayerNorms::measure() const {
  const NoGrad no_grad;
  std::vector<Tensor> norms;
  norms.reserve(layers_.size());
  for (const std::vector<Parameter*>& layer : layers_) norms.push_back(reshape(global_norm(layer), {1}));
  return concat(norms);
}

}  // namespace ingot
