#include <algorithm>
#include <cmath>

#include "ingot/base/error.h"
#include "ingot/onnx/attention.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/program.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Scaled dot-product attention as torch's exporter writes it: both sides scaled, MatMul, a mask that masks
// nothing, Softmax, NaN replaced by 0, MatMul.

namespace ingot::onnx {
namespace {

/// softmax(scale q kᵀ) v where the kernel that holds no scores does it; undefined otherwise.
Tensor attended(const OpCall& call, const Tensor& q, const Tensor& keys, const Tensor& v, const Shape& mask) {
  const bool fits = q.rank() == 4 && keys.rank() == 4 && v.rank() == 4 && q.dtype() == DType::f32 &&
                    keys.dtype() == DType::f32 && v.dtype() == DType::f32 && q.numel() > 0 && v.numel() > 0 &&
                    q.dim(0) == keys.dim(0) && q.dim(1) == keys.dim(1) && q.dim(3) == keys.dim(2) &&
                    v.shape() == Shape({q.dim(0), q.dim(1), keys.dim(3), q.dim(3)});
  if (!fits) return {};
  const Shape scores{q.dim(0), q.dim(1), q.dim(2), keys.dim(3)};
  if (mask.rank() > 4 || broadcast_shapes(scores, mask, "Add") != scores) return {};
  const Tensor y = attend(call, q, transpose(keys, 2, 3), v, {.scale = call.number("fused_scale", 1)});
  // Where scores are NaN the graph may have 0.
  return std::isfinite(sum(y).item()) ? contiguous(y) : Tensor();
}

/// Inputs: q, kᵀ, v and the mask of zeros, which may be left out. `fused_guard`: NaN weights are 0.
Values fused_attention(const OpCall& call) {
  const Tensor &q = call.in(0), &keys = call.in(1), &v = call.in(2), mask = call.optional(3);
  if (const Tensor y = attended(call, q, keys, v, mask.defined() ? mask.shape() : Shape{}); y.defined())
    return {y};
  const auto scaled = [&](const Tensor& x, const char* name) {
    const float factor = call.number(name, 1);
    return factor == 1 ? x : scale(x, factor);
  };
  Tensor scores = matmul(scaled(q, "fused_query_scale"), scaled(keys, "fused_key_scale"));
  if (mask.defined()) scores = add(scores, mask);
  Tensor weights = softmax(scores);
  if (call.integer("fused_guard", 0) != 0)
    weights = where(equal(weights, weights), weights, Tensor::zeros({}, weights.dtype()));
  return {matmul(weights, v)};
}
const OpRow kFusedAttention{"Attention", fused_attention};

class AttentionFusion {
 public:
  explicit AttentionFusion(Draft& draft) : draft_(draft), links_(draft.links()) {}
  void run() {
    for (Node& node : draft_.nodes) fuse(node);
    draft_.sweep();
  }

 private:
  /// The node of this op that makes a value that `readers` inputs read, and nothing else.
  Node* maker(const std::string& name, std::string_view op, std::size_t readers = 1) const;
  /// The input of a softmax of the last axis.
  static bool is_softmax_of_last(const Node& node);
  /// Steps over a Mul by one number, which `factor` takes.
  std::string unscaled(const std::string& name, float& factor, std::vector<Node*>& gone) const;
  void fuse(Node& node);

  Draft& draft_;
  Draft::Links links_;
};

Node* AttentionFusion::maker(const std::string& name, std::string_view op, std::size_t readers) const {
  const auto found = links_.maker.find(name);
  const auto read = links_.readers.find(name);
  if (found == links_.maker.end() || read == links_.readers.end() || read->second.size() != readers ||
      draft_.is_kept(name))
    return nullptr;
  Node& node = draft_.nodes[found->second];
  return node.op == op && is_usual(node) ? &node : nullptr;
}

bool AttentionFusion::is_softmax_of_last(const Node& node) {
  const auto axis = node.attributes.find("axis");
  return axis != node.attributes.end() && axis->second.integer == -1;
}

std::string AttentionFusion::unscaled(const std::string& name, float& factor,
                                      std::vector<Node*>& gone) const {
  Node* mul = maker(name, "Mul");
  if (mul == nullptr) return name;
  const Tensor* by = draft_.constant(input_of(*mul, 1), DType::f32, 0);
  if (by == nullptr) return name;
  factor = static_cast<float>(by->item());
  gone.push_back(mul);
  return mul->inputs[0];
}

void AttentionFusion::fuse(Node& node) {
  if (node.op != "MatMul" || !is_usual(node) || draft_.opset() < 13) return;
  std::vector<Node*> gone;
  std::string weights = node.inputs[0];
  Node* guard = maker(weights, "Where");
  if (guard != nullptr) {
    const Node* test = maker(guard->inputs[0], "IsNaN");
    const Tensor* zero = draft_.constant(input_of(*guard, 1), DType::f32, 0);
    if (test == nullptr || zero == nullptr || zero->item() != 0 || test->inputs[0] != input_of(*guard, 2))
      return;
    gone = {guard, maker(guard->inputs[0], "IsNaN")};
    weights = input_of(*guard, 2);
  }
  Node* soft = maker(weights, "Softmax", guard != nullptr ? 2 : 1);
  if (soft == nullptr || !is_softmax_of_last(*soft)) return;
  gone.push_back(soft);
  std::string scores = soft->inputs[0], mask;
  if (Node* add = maker(scores, "Add"); add != nullptr) {
    const Value* given = draft_.constant(input_of(*add, 1));
    if (given == nullptr || !given->tensor.defined() || given->tensor.dtype() != DType::f32) return;
    const std::vector<double> values = as_doubles(given->tensor);
    if (std::ranges::any_of(values, [](double x) { return x != 0; })) return;
    mask = input_of(*add, 1);
    scores = add->inputs[0];
    gone.push_back(add);
  }
  Node* product = maker(scores, "MatMul");
  if (product == nullptr) return;
  gone.push_back(product);
  float query_scale = 1, key_scale = 1;
  Node fused{.op = node.op,  // which messages speak of
             .name = node.name,
             .inputs = {unscaled(product->inputs[0], query_scale, gone),
                        unscaled(input_of(*product, 1), key_scale, gone), input_of(node, 1)},
             .outputs = node.outputs,
             .fused = &kFusedAttention};
  if (!mask.empty()) fused.inputs.push_back(mask);
  fused.attributes["fused_query_scale"].number = query_scale;
  fused.attributes["fused_key_scale"].number = key_scale;
  fused.attributes["fused_scale"].number = query_scale * key_scale;
  fused.attributes["fused_guard"].integer = guard != nullptr ? 1 : 0;
  for (Node* part : gone) part->op.clear();
  node = std::move(fused);
}

}  // namespace

void fuse_attention(Draft& draft) { AttentionFusion(draft).run(); }

}  // namespace ingot::onnx
