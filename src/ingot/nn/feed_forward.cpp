#include "ingot/nn/feed_forward.h"

#include <span>
#include <utility>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/nn/input_observer.h"
#include "ingot/nn/module_scope.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/pointwise.h"

namespace ingot {
namespace {

// A plain layer's weights, for an op that applies them.
LinearWeights applied(const Linear& layer, const LinearInput& x) {
  WeightObserver::tell({.linear = &layer.weight, .rows = x.rows()});
  return {layer.weight.dense.value, layer.bias.value};
}

}  // namespace

Tensor activate(MlpKind kind, std::span<const Tensor> projected) {
  switch (kind) {
    case MlpKind::swiglu:
      return silu_mul(projected[0], projected[1]);
    case MlpKind::gelu:
      return gelu_tanh(projected[0]);
    case MlpKind::gelu_erf:
      return gelu_erf(projected[0]);
    case MlpKind::geglu:
      return pointwise([](const auto& gate, const auto& up) { return gelu_tanh(gate) * up; }, projected[0],
                       projected[1]);
    case MlpKind::relu2:
      return pointwise([](const auto& up) { return relu(up) * relu(up); }, projected[0]);
    case MlpKind::relu:
      return pointwise([](const auto& up) { return relu(up); }, projected[0]);
    case MlpKind::xielu:
      break;
  }
  throw Error("activate() has no xIELU: the MLP that has its parameters applies it");
}

Tensor feed_forward(const LinearInput& x, const ProjectionGroup& in, MlpKind kind, const Linear& down) {
  const ModuleScope scope(down.weight, 2);
  if (in.is_plain() && down.weight.is_plain() && !InputObserver::is_on()) {
    if (kind == MlpKind::gelu) return gelu_mlp(x.tensor(), applied(in[0], x), applied(down, x));
    if (kind == MlpKind::swiglu && in.is_fused())
      return swiglu_linear(in.fused(x.tensor()), applied(down, x));
    if (kind == MlpKind::swiglu) return down(swiglu(x.tensor(), applied(in[0], x), applied(in[1], x)));
  }
  return down(LinearInput(in.each(x), [kind](std::span<const Tensor> rows) { return activate(kind, rows); }));
}

}  // namespace ingot
