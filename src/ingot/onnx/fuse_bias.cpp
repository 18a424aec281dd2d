#include <array>

#include "ingot/onnx/program.h"
#include "ingot/onnx/weight_matrix.h"
#include "ingot/ops/view.h"

// MatMul with a constant matrix, and the Add of a constant vector behind it, as one linear layer: the bias is
// added where the sums are, and the result is written once.

namespace ingot::onnx {
namespace {

Values linear_layer(const OpCall& call) {
  const Tensor &x = call.in(0), &matrix = call.in(1, 2, 2);
  const bool fits = x.rank() >= 1 && x.dim(-1) == matrix.dim(0) && x.dtype() == matrix.dtype();
  if (!fits && !call.has(2)) return call.as("MatMul", std::array<Value, 2>{x, matrix});
  return {WeightMatrix(transpose(matrix, 0, 1), call.optional(kFirstTiles)).apply(x, call.optional(2))};
}

}  // namespace

const OpRow kLinear{"MatMul", linear_layer};

void fuse_bias(Draft& draft) {
  const Draft::Links links = draft.links();
  for (Node& node : draft.nodes) {
    if (node.op != "MatMul" || !is_usual(node) || node.inputs.size() != 2) continue;
    const Tensor* weight = draft.constant(node.inputs[1], DType::f32, 2);
    const Node* next = draft.sole_reader(links, node.outputs[0]);
    const bool fits = weight != nullptr && next != nullptr && next->op == "Add" && is_usual(*next) &&
                      next->inputs.size() == 2 && draft.constant(node.inputs[0]) == nullptr;
    if (!fits) continue;
    const std::string other = next->inputs[next->inputs[0] == node.outputs[0] ? 1 : 0];
    const Tensor* bias = draft.constant(other, DType::f32, 1);
    if (bias == nullptr || bias->numel() != weight->dim(1)) continue;
    node.inputs.push_back(other);
    node.outputs = next->outputs;
    node.fused = &kLinear;
    draft.nodes[static_cast<std::size_t>(next - draft.nodes.data())].op.clear();
  }
  draft.sweep();
}

}  // namespace ingot::onnx
