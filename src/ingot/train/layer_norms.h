#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"
#include "ingot/nn/parameter.h"

namespace ingot {

/// What a parameter is of: "model.layers.3.mlp.up_proj.weight" of "layers.3", "model.embed_tokens.weight" of
/// "embed_tokens".
std::string layer_of(std::string_view parameter);

/// The norm of the gradients of each layer, for those who watch a run.
class LayerNorms {
 public:
  /// The parameters belong together by the first number in their names ("model.layers.3"), and those without
  /// one by their module. They have to outlive this.
  explicit LayerNorms(const std::vector<Parameter*>& parameters);

  /// "layers.3", "embed_tokens", in the order of the parameters.
  const std::vector<std::string>& names() const { return names_; }
  /// f32 [layers] on the parameters' device; 0 where there is no gradient. Waits for nothing. `norm`: of the
  /// gradients of some parameters.
  Tensor measure(FunctionRef<Tensor(std::span<Parameter* const>)> norm) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<Parameter*>> layers_;
};

}  // namespace ingot
