#include <algorithm>
#include <cmath>

#include "ingot/onnx/host.h"
#include "ingot/onnx/program.h"
#include "ingot/ops/affine_quantize.h"
#include "ingot/ops/blocked_conv.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

// DequantizeLinear, Conv, Relu and QuantizeLinear as the one QLinearConv that they stand for, where that runs
// in whole numbers (block_layout.cpp); DequantizeLinear of two values, Add, Relu and QuantizeLinear as one
// addition of codes.

namespace ingot::onnx {
namespace {

using NodeInputs = std::vector<std::string>;

bool is_op(const Node* node, std::string_view op) {
  return node != nullptr && node->op == op && is_usual(*node);
}

/// Whether these are one scale in f32 and one zero point of codes.
bool is_one_code_scale(const Value* scale, const Value* zero) {
  const auto is_one = [](const Value* v) {
    return v != nullptr && v->type == ElementType::plain && v->tensor.defined() && v->tensor.numel() == 1;
  };
  return is_one(scale) && scale->tensor.dtype() == DType::f32 && is_one(zero) &&
         (zero->tensor.dtype() == DType::u8 || zero->tensor.dtype() == DType::i8);
}

/// Inputs: codes of a and b, then the scale and zero point of a, of b and of the result.
Values quantized_addition(const OpCall& call) {
  const Tensor &a = call.in(0), &b = call.in(1);
  const auto zero = [&](std::size_t i) { return reshape(call.in(i), {1}); };
  const auto scale = [&](std::size_t i) {
    return AffineScale{static_cast<float>(call.in(i).item()),
                       static_cast<std::int32_t>(call.in(i + 1).item())};
  };
  if (a.shape() == b.shape() && a.dtype() == call.in(3).dtype() && b.dtype() == call.in(5).dtype())
    return {affine_add(a, scale(2), b, scale(4), scale(6), call.in(7).dtype())};
  const auto value = [&](const Tensor& codes, std::size_t i) {
    return affine_dequantize(codes, reshape(call.in(i), {1}), zero(i + 1), DType::f32);
  };
  return {
      affine_quantize(add(value(a, 2), value(b, 4)), reshape(call.in(6), {1}), zero(7), call.in(7).dtype())};
}

class QuantizedFusion {
 public:
  explicit QuantizedFusion(Draft& draft) : draft_(draft), links_(draft.links()) {}
  void run();

 private:
  const Node* maker(const std::string& name) const {
    const auto found = links_.maker.find(name);
    return found == links_.maker.end() ? nullptr : &draft_.nodes[found->second];
  }
  /// Codes, scale and zero point of what a DequantizeLinear makes; nothing for any other value.
  NodeInputs dequantized(const std::string& name) const;
  /// The QuantizeLinear that alone reads a value, perhaps through a Relu that it makes unnecessary; null
  /// where there is none. `gone` takes both.
  const Node* quantizer(const std::string& name, std::vector<const Node*>& gone) const;
  bool fuse(Node& node) { return convolve(node) || add_codes(node); }
  bool convolve(Node& conv);
  bool add_codes(Node& add);
  void clear(const std::vector<const Node*>& gone) {
    for (const Node* node : gone)
      draft_.nodes[static_cast<std::size_t>(node - draft_.nodes.data())].op.clear();
  }
  bool fits_bias(const NodeInputs& bias, const NodeInputs& x, const NodeInputs& weight) const;
  bool starts_at_zero(const Node& quantize) const;
  void drop_unread_codes();

  Draft& draft_;
  Draft::Links links_;
};

NodeInputs QuantizedFusion::dequantized(const std::string& name) const {
  const Node* node = maker(name);
  const bool known = is_op(node, "DequantizeLinear") && node->inputs.size() == 3 &&
                     !node->inputs[2].empty() && !node->attributes.contains("block_size");
  return known ? node->inputs : NodeInputs{};
}

/// Whether the bias' codes are sums of products of the others' codes.
bool QuantizedFusion::fits_bias(const NodeInputs& bias, const NodeInputs& x, const NodeInputs& weight) const {
  const Tensor* codes = draft_.constant(bias[0], DType::i32, 1);
  const Value *scale = draft_.constant(bias[1]), *zero = draft_.constant(bias[2]);
  if (codes == nullptr || scale == nullptr || zero == nullptr) return false;
  const std::vector<double> scales = as_doubles(scale->tensor), zeros = as_doubles(zero->tensor),
                            xs = as_doubles(draft_.constant(x[1])->tensor),
                            ws = as_doubles(draft_.constant(weight[1])->tensor);
  if (scales.size() != ws.size() || std::ranges::any_of(zeros, [](double z) { return z != 0; })) return false;
  constexpr double kNear = 1e-5;
  for (std::size_t i = 0; i < ws.size(); ++i) {
    if (std::abs(scales[i] - xs[0] * ws[i]) > kNear * std::abs(scales[i])) return false;
  }
  return true;
}

/// Whether the least code stands for 0, so that a Relu in front changes nothing.
bool QuantizedFusion::starts_at_zero(const Node& quantize) const {
  const Value* zero = draft_.constant(quantize.inputs[2]);
  if (zero == nullptr || zero->tensor.numel() != 1) return false;
  return as_doubles(zero->tensor)[0] == (zero->tensor.dtype() == DType::i8 ? -128 : 0);
}

const Node* QuantizedFusion::quantizer(const std::string& name, std::vector<const Node*>& gone) const {
  const Node *relu = nullptr, *next = draft_.sole_reader(links_, name);
  if (is_op(next, "Relu")) relu = next, next = draft_.sole_reader(links_, relu->outputs[0]);
  const bool fits = is_op(next, "QuantizeLinear") && next->inputs.size() == 3 &&
                    !next->attributes.contains("block_size") && (relu == nullptr || starts_at_zero(*next));
  if (!fits) return nullptr;
  gone = {next};
  if (relu != nullptr) gone.push_back(relu);
  return next;
}

bool QuantizedFusion::convolve(Node& conv) {
  if (!is_op(&conv, "Conv") || conv.inputs.size() < 2) return false;
  const NodeInputs x = dequantized(conv.inputs[0]), weight = dequantized(conv.inputs[1]);
  std::vector<const Node*> gone;
  const Node* next = quantizer(conv.outputs[0], gone);
  if (x.empty() || weight.empty() || next == nullptr) return false;
  Node fused{.op = "QLinearConv",
             .name = conv.name,
             .inputs = {x[0], x[1], x[2], weight[0], weight[1], weight[2], next->inputs[1], next->inputs[2]},
             .outputs = next->outputs,
             .attributes = conv.attributes};
  if (!runs_in_whole_numbers(draft_, fused)) return false;
  if (conv.inputs.size() > 2 && !conv.inputs[2].empty()) {
    const NodeInputs bias = dequantized(conv.inputs[2]);
    if (bias.empty() || !fits_bias(bias, x, weight)) return false;
    fused.inputs.push_back(bias[0]);
  }
  // It stands where the conv stood; what reads the codes comes behind.
  clear(gone);
  conv = std::move(fused);
  return true;
}

bool QuantizedFusion::add_codes(Node& add) {
  if (!is_op(&add, "Add") || add.inputs.size() != 2) return false;
  const NodeInputs a = dequantized(add.inputs[0]), b = dequantized(add.inputs[1]);
  std::vector<const Node*> gone;
  const Node* next = quantizer(add.outputs[0], gone);
  if (a.empty() || b.empty() || next == nullptr) return false;
  const NodeInputs scales{a[1], a[2], b[1], b[2], next->inputs[1], next->inputs[2]};
  for (std::size_t i = 0; i < scales.size(); i += 2) {
    if (!is_one_code_scale(draft_.constant(scales[i]), draft_.constant(scales[i + 1]))) return false;
  }
  Node fused{.op = add.op, .name = add.name, .inputs = {a[0], b[0]}, .outputs = next->outputs};
  fused.inputs.insert(fused.inputs.end(), scales.begin(), scales.end());
  fused.fused = &kQuantizedAdd;
  clear(gone);
  add = std::move(fused);
  return true;
}

/// What only fused nodes read.
void QuantizedFusion::drop_unread_codes() {
  draft_.sweep();
  const Draft::Links links = draft_.links();
  for (Node& node : draft_.nodes) {
    if (is_op(&node, "DequantizeLinear") && !links.readers.contains(node.outputs[0]) &&
        !draft_.is_kept(node.outputs[0]))
      node.op.clear();
  }
  draft_.sweep();
}

void QuantizedFusion::run() {
  bool any = false;
  for (Node& node : draft_.nodes) any = fuse(node) || any;
  if (any) drop_unread_codes();
}

}  // namespace

const OpRow kQuantizedAdd{"Add", quantized_addition};

void fuse_quantized(Draft& draft) { QuantizedFusion(draft).run(); }

}  // namespace ingot::onnx
