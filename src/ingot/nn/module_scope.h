#pragma once

#include <string_view>

#include "ingot/base/scope.h"
#include "ingot/nn/linear_weight.h"

namespace ingot {

/// The Scope of a module, whose name is told by one of its parameters: "layers.0.mlp.up_proj.weight" without
/// the last `below` parts.
class ModuleScope {
 public:
  explicit ModuleScope(const Parameter& parameter, int below = 1)
      : scope_(ScopeKind::module, scopes_watched() ? above(parameter.name, below) : std::string_view{}) {}

  explicit ModuleScope(const LinearWeight& weight, int below = 1) : ModuleScope(weight.dense, below) {}

  static std::string_view above(std::string_view name, int below) {
    for (; below > 0; --below) {
      const std::size_t dot = name.rfind('.');
      name = dot == std::string_view::npos ? std::string_view{} : name.substr(0, dot);
    }
    return name;
  }

 private:
  Scope scope_;
};

}  // namespace ingot
