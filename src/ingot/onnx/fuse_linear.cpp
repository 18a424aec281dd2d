#include <algorithm>

#include "ingot/onnx/program.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/quant/linear.h"

// MatMul and Gemm by a constant matrix, with the bias that is added behind: prepacked weights, which a
// product of many rows reads without rearranging them first.

namespace ingot::onnx {
namespace {

/// Inputs: x [..., in], the prepacked matrix [`fused_rows`, `fused_cols`] and a bias, which may be left out.
Values packed_linear(const OpCall& call) {
  const quant::PackedMatrix weight{.format = kernels::PackedFormat::f32,
                                   .rows = call.integer("fused_rows", 0),
                                   .cols = call.integer("fused_cols", 0),
                                   .data = call.in(1)};
  return {quant::linear(contiguous(call.in(0, 1)), weight, call.optional(2))};
}
const OpRow kPackedLinear{"MatMul", packed_linear};

bool is_plain_gemm(const Node& node) {
  const auto is = [&](const char* name, float value, float fallback) {
    const auto found = node.attributes.find(name);
    return (found == node.attributes.end() ? fallback : found->second.number) == value;
  };
  const auto transposed = node.attributes.find("transA");
  return (transposed == node.attributes.end() || transposed->second.integer == 0) && is("alpha", 1, 1) &&
         is("beta", 1, 1);
}

class LinearFusion {
 public:
  explicit LinearFusion(Draft& draft) : draft_(draft), links_(draft.links()) {}
  void run() {
    for (Node& node : draft_.nodes) fuse(node);
    draft_.sweep();
  }

 private:
  void fuse(Node& node);
  /// [n] f32, or null.
  const Tensor* bias(const std::string& name, std::int64_t n) const {
    const Tensor* found = draft_.constant(name, DType::f32, 1);
    return found != nullptr && found->numel() == n ? found : nullptr;
  }
  /// The bias that an Add behind the node adds, and the Add.
  std::pair<const Node*, std::string> added_bias(const Node& node, std::int64_t n) const;

  Draft& draft_;
  Draft::Links links_;
};

std::pair<const Node*, std::string> LinearFusion::added_bias(const Node& node, std::int64_t n) const {
  const Node* next = draft_.sole_reader(links_, node.outputs[0]);
  if (next == nullptr || next->op != "Add" || !next->domain.empty()) return {};
  const std::string& other = next->inputs[next->inputs[0] == node.outputs[0] ? 1 : 0];
  if (bias(other, n) == nullptr) return {};
  return {next, other};
}

void LinearFusion::fuse(Node& node) {
  // Smaller ones fit into cache while they are rearranged.
  constexpr std::int64_t kLeast = 16384;
  const bool gemm = node.op == "Gemm" && is_plain_gemm(node);
  if ((node.op != "MatMul" && !gemm) || !node.domain.empty() || node.inputs.size() < 2) return;
  const Tensor* given = draft_.constant(node.inputs[1], DType::f32, 2);
  if (given == nullptr || given->numel() < kLeast) return;
  const auto side = node.attributes.find("transB");
  const bool rows_first = gemm && side != node.attributes.end() && side->second.integer != 0;
  const Tensor weight = contiguous(rows_first ? *given : transpose(*given, 0, 1));  // [out, in]
  Node linear{.op = node.op,
              .name = node.name,
              .inputs = {node.inputs[0]},
              .outputs = node.outputs,
              .fused = &kPackedLinear};
  std::string offset = node.inputs.size() > 2 ? node.inputs[2] : std::string();
  if (!offset.empty() && bias(offset, weight.dim(0)) == nullptr) return;
  if (offset.empty()) {
    const auto [add, name] = added_bias(node, weight.dim(0));
    if (add != nullptr) {
      offset = name;
      linear.outputs = add->outputs;
      draft_.nodes[static_cast<std::size_t>(add - draft_.nodes.data())].op.clear();
    }
  }
  const std::string packed = draft_.unused_name(node.inputs[1] + " prepacked");
  draft_.constants[packed] = quant::pack_f32(weight)->data;
  linear.inputs.push_back(packed);
  if (!offset.empty()) linear.inputs.push_back(offset);
  linear.attributes["fused_rows"].integer = weight.dim(0);
  linear.attributes["fused_cols"].integer = weight.dim(1);
  node = std::move(linear);
}

}  // namespace

void fuse_linear(Draft& draft) { LinearFusion(draft).run(); }

}  // namespace ingot::onnx
