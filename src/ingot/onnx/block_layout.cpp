#include <algorithm>
#include <array>

#include "ingot/base/error.h"
#include "ingot/onnx/blocked_ops.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/node_error.h"
#include "ingot/onnx/program.h"
#include "ingot/ops/blocked_conv.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

// Which values of a program are images in blocks of channels: what convolutions make, and what is made of
// that element by element, by pools and by putting channels together.

namespace ingot::onnx {
namespace {

constexpr std::array<std::string_view, 7> kByElement{"Relu",        "Sigmoid", "Tanh",     "LeakyRelu",
                                                     "HardSigmoid", "Elu",     "HardSwish"};

std::vector<std::int64_t> integers_of(const Node& node, std::string_view name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? std::vector<std::int64_t>{} : found->second.integers;
}
std::int64_t integer_of(const Node& node, std::string_view name, std::int64_t fallback) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? fallback : found->second.integer;
}

/// A convolution over two axes in one group, of this weight, without negative padding.
bool is_plain_window(const Node& node, const Tensor& weight) {
  const std::vector<std::int64_t> kernel{weight.dim(2), weight.dim(3)},
      declared = integers_of(node, "kernel_shape"), pads = integers_of(node, "pads");
  return integer_of(node, "group", 1) == 1 && (declared.empty() || declared == kernel) &&
         std::ranges::none_of(pads, [](std::int64_t n) { return n < 0; }) && weight.numel() > 0 &&
         weight.dim(0) % channel_block() == 0;
}

/// A transposed convolution over two axes in one group, of this weight, whose strides are its kernel:
/// positions of the result that several inputs reach, or none, there are not.
bool is_spread(const Node& node, const Tensor& weight) {
  const std::vector<std::int64_t> kernel{weight.dim(2), weight.dim(3)},
      declared = integers_of(node, "kernel_shape");
  const auto all_are = [&](std::string_view name, std::int64_t value) {
    return std::ranges::all_of(integers_of(node, name), [&](std::int64_t n) { return n == value; });
  };
  const auto automatic = node.attributes.find("auto_pad");
  return integer_of(node, "group", 1) == 1 && (declared.empty() || declared == kernel) &&
         integers_of(node, "strides") == kernel && all_are("pads", 0) && all_are("dilations", 1) &&
         all_are("output_padding", 0) && !node.attributes.contains("output_shape") &&
         (automatic == node.attributes.end() || automatic->second.text == "NOTSET") && weight.numel() > 0 &&
         weight.dim(0) % channel_block() == 0 && weight.dim(1) % channel_block() == 0;
}

/// Whether Winograd's minimal filtering computes a convolution of this weight.
bool is_minimal(const Node& conv, const Tensor& weight) {
  const auto all_one = [&](std::string_view name) {
    return std::ranges::all_of(integers_of(conv, name), [](std::int64_t n) { return n == 1; });
  };
  return weight.dim(2) == 3 && weight.dim(3) == 3 && all_one("strides") && all_one("dilations") &&
         takes_winograd(weight.dim(1), weight.dim(0));
}

bool is_code(const Value* value) {
  return value != nullptr && value->type == ElementType::plain && value->tensor.defined() &&
         (value->tensor.dtype() == DType::u8 || value->tensor.dtype() == DType::i8);
}
bool is_one_number(const Value* value) {
  return value != nullptr && value->tensor.defined() && value->tensor.numel() == 1;
}
bool is_one_scale(const Value* value) { return is_one_number(value) && value->tensor.dtype() == DType::f32; }

class BlockLayout {
 public:
  explicit BlockLayout(Draft& draft) : draft_(draft), links_(draft.links()) {}
  void run();

 private:
  bool lay_out(Node& node);
  bool convolve(Node& node);
  bool convolve_transposed(Node& node);
  bool convolve_codes(Node& node);
  bool requantize(Node& node);
  bool pool(Node& node);
  bool by_element(Node& node);
  bool concatenate(Node& node);
  /// The weight of a Conv that takes an image in blocks; null for any other node.
  const Tensor* weight_for_blocks(const Node& node) const;
  /// Whether a Concat is for such a Conv alone: its parts are convolved apart and summed, without a copy of
  /// them.
  bool is_for_convolution(const Node& concat, std::int64_t channels) const;
  /// Convolves the parts of an image, each with its own input channels of the weight.
  void convolve_parts(Node conv, const std::vector<std::string>& parts);
  /// A convolution's weight in the layout in which it is fastest. `part`: which channels of it, for its name.
  const std::string& prepacked_weight(const Node& conv, const Tensor& weight, const std::string& part = {});
  /// A constant made of another one, at first use.
  const std::string& prepacked(const std::string& name, const std::string& what, FunctionRef<Tensor()> make);
  /// What follows a convolution and can be a part of it: takes those nodes away. `conv` stands where `node`
  /// stood.
  void fuse_followers(Node& conv, const Node& node);
  /// Whether a convolution instead of `node` may write over a value that it adds: `add` and nodes before
  /// it are all that read it, and no other value has its memory.
  bool may_overwrite(const std::string& name, const Node& node, const Node& add) const;
  const Node* follower(const std::string& name) const;
  Node& node_of(const Node* node) {
    return draft_.nodes[static_cast<std::size_t>(node - draft_.nodes.data())];
  }

  bool is_blocked(const std::string& name) const { return channels_.contains(name); }
  const std::string& blocked(const std::string& name) const { return blocks_.at(name); }
  /// The name of a value in blocks; makes it so where it is not, for the reader, which takes so many
  /// channels.
  std::string as_blocks(const std::string& name, std::int64_t channels, const Node& reader);
  void as_plain(const std::string& name);
  void emit(Node node) { made_.push_back(std::move(node)); }
  /// The node's output 0, in blocks from now on.
  void emit_blocked(Node node, std::int64_t channels);

  Draft& draft_;
  Draft::Links links_;
  std::vector<Node> made_;
  std::map<std::string, std::int64_t> channels_;           // of values that are there in blocks
  std::map<std::string, std::string> blocks_;              // what these are called
  std::set<std::string> plain_;                            // those of them that are there plainly, too
  std::map<std::string, std::string> prepacked_;           // weights, by the names of what they were
  std::map<std::string, std::vector<std::string>> parts_;  // of values that are nowhere as a whole
  std::set<std::string> own_memory_;                       // values that convolutions made
};

std::string BlockLayout::as_blocks(const std::string& name, std::int64_t channels, const Node& reader) {
  if (!is_blocked(name)) {
    channels_[name] = channels;
    blocks_[name] = draft_.unused_name(name + " in blocks");
    plain_.insert(name);
    Node node{.op = reader.op,
              .name = reader.name,
              .inputs = {name},
              .outputs = {blocked(name)},
              .fused = &kToChannelBlocks};
    node.attributes["channels"].integer = channels;
    emit(std::move(node));
  }
  return blocked(name);
}

void BlockLayout::as_plain(const std::string& name) {
  if (!is_blocked(name) || !plain_.insert(name).second) return;
  Node node{.op = "FromChannelBlocks",
            .name = name,
            .inputs = {blocked(name)},
            .outputs = {name},
            .fused = &kFromChannelBlocks};
  node.attributes["channels"].integer = channels_[name];
  emit(std::move(node));
}

void BlockLayout::emit_blocked(Node node, std::int64_t channels) {
  const std::string name = node.outputs[0];
  channels_[name] = channels;
  node.outputs[0] = blocks_[name] = draft_.unused_name(name + " in blocks");
  emit(std::move(node));
  if (draft_.is_kept(name)) as_plain(name);
}

/// The one node that reads a value, where it comes behind the one that makes it.
const Node* BlockLayout::follower(const std::string& name) const { return draft_.sole_reader(links_, name); }

bool BlockLayout::may_overwrite(const std::string& name, const Node& node, const Node& add) const {
  const auto index_of = [&](const Node& n) { return static_cast<std::size_t>(&n - draft_.nodes.data()); };
  return own_memory_.contains(name) && !plain_.contains(name) && !draft_.is_kept(name) &&
         std::ranges::all_of(links_.readers.at(name), [&](std::size_t reader) {
           // A Concat may read its parts later, instead of its reader.
           return reader == index_of(add) || (reader < index_of(node) && draft_.nodes[reader].op != "Concat");
         });
}

void BlockLayout::fuse_followers(Node& conv, const Node& node) {
  const std::int64_t channels = draft_.constant(conv.inputs[1])->tensor.dim(0);
  const Node* next = follower(conv.outputs[0]);
  const bool may_add = !parts_.contains(node.inputs[0]);
  if (may_add && next != nullptr && next->op == "Add" && is_usual(*next) && next->inputs.size() == 2) {
    const std::string& other = next->inputs[next->inputs[0] == conv.outputs[0] ? 1 : 0];
    const auto there = channels_.find(other);
    if (there != channels_.end() && there->second == channels) {
      conv.inputs.resize(4);
      conv.inputs[3] = blocked(other);
      conv.attributes["fused_over_residual"].integer = may_overwrite(other, node, *next) ? 1 : 0;
      conv.outputs = next->outputs;
      node_of(next).op.clear();
      next = follower(conv.outputs[0]);
    }
  }
  if (next == nullptr || next->op != "Relu" || !is_usual(*next)) return;
  conv.attributes["fused_relu"].integer = 1;
  conv.outputs = next->outputs;
  node_of(next).op.clear();
}

const Tensor* BlockLayout::weight_for_blocks(const Node& node) const {
  if (node.op != "Conv" || !is_usual(node)) return nullptr;
  const Tensor* weight = draft_.constant(input_of(node, 1), DType::f32, 4);
  // A few channels of many are not worth filling up a block.
  const bool fits = weight != nullptr && is_plain_window(node, *weight) &&
                    !takes_plain_image(weight->dim(1)) && weight->dim(1) % channel_block() == 0;
  return fits ? weight : nullptr;
}

const std::string& BlockLayout::prepacked(const std::string& name, const std::string& what,
                                          FunctionRef<Tensor()> make) {
  auto [packed, is_new] = prepacked_.try_emplace(name + what);
  if (is_new) {
    packed->second = draft_.unused_name(name + what);
    draft_.constants[packed->second] = make();
  }
  return packed->second;
}

const std::string& BlockLayout::prepacked_weight(const Node& conv, const Tensor& weight,
                                                 const std::string& part) {
  if (is_minimal(conv, weight))
    return prepacked(conv.inputs[1], part + " transformed", [&] { return prepack_winograd_weight(weight); });
  return prepacked(conv.inputs[1], part + " prepacked", [&] { return prepack_conv2d_weight(weight); });
}

void BlockLayout::convolve_parts(Node conv, const std::vector<std::string>& parts) {
  const std::string name = conv.inputs[1];
  const Tensor weight = draft_.constant(name)->tensor;
  const Attribute relu_follows = conv.attributes["fused_relu"];
  const std::vector<std::string> outputs = conv.outputs;
  conv.inputs.resize(4);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t channels = channels_.at(parts[i]);
    Node part = conv;
    if (i > 0) {
      part.inputs[2] = {};
      part.inputs[3] = conv.outputs[0];
      part.attributes["fused_onto_part"].integer = 1;
    }
    part.inputs[0] = blocked(parts[i]);
    part.inputs[1] = prepacked_weight(conv, contiguous(narrow(weight, 1, first, channels)),
                                      " from " + std::to_string(first));
    first += channels;
    const bool is_last = i + 1 == parts.size();
    part.attributes["fused_relu"] = is_last ? relu_follows : Attribute{};
    part.outputs = is_last ? outputs : std::vector{draft_.unused_name(outputs[0] + " in part")};
    conv.outputs = part.outputs;
    is_last ? emit_blocked(std::move(part), weight.dim(0)) : emit(std::move(part));
  }
}

bool BlockLayout::convolve(Node& node) {
  if (node.op != "Conv") return false;
  const Tensor* weight = draft_.constant(input_of(node, 1), DType::f32, 4);
  if (weight == nullptr || !is_plain_window(node, *weight)) return false;
  const bool plain = takes_plain_image(weight->dim(1));
  if (!plain && weight_for_blocks(node) == nullptr) return false;
  const std::string x = node.inputs[0];
  if (is_blocked(x) && channels_[x] != weight->dim(1)) return false;
  const std::int64_t channels = weight->dim(0);
  Node conv = node;
  fuse_followers(conv, node);
  conv.fused = &kBlockedConv;
  const std::string made = conv.outputs[0];
  if (const auto parts = parts_.find(x); parts != parts_.end()) {
    convolve_parts(std::move(conv), parts->second);
  } else {
    if (plain) {
      as_plain(x);
    } else {
      conv.inputs[0] = as_blocks(x, weight->dim(1), node);
    }
    conv.inputs[1] = prepacked_weight(conv, *weight);
    emit_blocked(std::move(conv), channels);
  }
  own_memory_.insert(made);
  return true;
}

bool BlockLayout::convolve_transposed(Node& node) {
  if (node.op != "ConvTranspose") return false;
  const Tensor* weight = draft_.constant(input_of(node, 1), DType::f32, 4);
  if (weight == nullptr || !is_spread(node, *weight)) return false;
  if (is_blocked(node.inputs[0]) && channels_[node.inputs[0]] != weight->dim(0)) return false;
  const std::int64_t channels = weight->dim(1), positions = weight->dim(2) * weight->dim(3);
  Node conv{.op = node.op, .name = node.name, .outputs = node.outputs, .fused = &kBlockedConvTranspose};
  if (const std::string& bias = input_of(node, 2); !bias.empty()) {
    const Tensor* offsets = draft_.constant(bias, DType::f32, 1);
    if (offsets == nullptr || offsets->numel() != channels) return false;
    conv.inputs = {
        {}, {}, prepacked(bias, " for " + std::to_string(positions) + " positions", [&] {
          return reshape(contiguous(broadcast_to(*offsets, {positions, channels})), {positions * channels});
        })};
  }
  conv.inputs.resize(3);
  conv.inputs[0] = as_blocks(node.inputs[0], weight->dim(0), node);
  conv.inputs[1] = prepacked(node.inputs[1], " spread and prepacked",
                             [&] { return prepack_conv2d_weight(spread_conv2d_weight(*weight)); });
  conv.attributes["fused_kernel"].integers = {weight->dim(2), weight->dim(3)};
  emit_blocked(std::move(conv), channels);
  return true;
}

/// What sums are scaled by, [O].
Tensor sum_scales(const Draft& draft, const Node& node) {
  const auto scale_of = [&](std::size_t i) { return draft.constant(node.inputs[i])->tensor; };
  const Tensor one = mul(reshape(scale_of(4), {scale_of(4).numel()}), reshape(scale_of(1), Shape{}));
  return contiguous(
      broadcast_to(div(one, reshape(scale_of(6), Shape{})), {draft.constant(node.inputs[3])->tensor.dim(0)}));
}

bool BlockLayout::convolve_codes(Node& node) {
  if (node.op != "QLinearConv" || !runs_in_whole_numbers(draft_, node)) return false;
  const Tensor& weight = draft_.constant(node.inputs[3])->tensor;
  if (is_blocked(node.inputs[0]) && channels_[node.inputs[0]] != weight.dim(1)) return false;
  const auto zero_of = [&](std::size_t i) { return as_integers(draft_.constant(node.inputs[i])->tensor)[0]; };
  Node conv{.op = node.op, .name = node.name, .outputs = node.outputs, .attributes = node.attributes};
  conv.attributes["fused_x_zero"].integer = zero_of(2);
  conv.attributes["fused_y_zero"].integer = zero_of(7);
  conv.attributes["fused_x_signed"].integer =
      draft_.constant(node.inputs[2])->tensor.dtype() == DType::i8 ? 1 : 0;
  conv.attributes["fused_signed"].integer =
      draft_.constant(node.inputs[7])->tensor.dtype() == DType::i8 ? 1 : 0;
  const std::string packed = draft_.unused_name(node.inputs[3] + " prepacked"),
                    scales = draft_.unused_name(node.outputs[0] + " scales");
  const Tensor& zero = draft_.constant(node.inputs[5])->tensor;
  draft_.constants[packed] = prepack_quantized_conv2d_weight(weight, reshape(zero, {zero.numel()}));
  draft_.constants[scales] = sum_scales(draft_, node);
  conv.inputs = {as_blocks(node.inputs[0], weight.dim(1), node), packed,
                 node.inputs.size() > 8 ? node.inputs[8] : std::string(), scales};
  conv.fused = &kBlockedQuantizedConv;
  emit_blocked(std::move(conv), weight.dim(0));
  return true;
}

/// Codes with one scale for all.
bool BlockLayout::requantize(Node& node) {
  const bool known = (node.op == "QuantizeLinear" || node.op == "DequantizeLinear") &&
                     node.inputs.size() == 3 && !node.attributes.contains("block_size") &&
                     is_blocked(node.inputs[0]) && is_one_scale(draft_.constant(node.inputs[1])) &&
                     is_code(draft_.constant(node.inputs[2])) &&
                     is_one_number(draft_.constant(node.inputs[2]));
  if (!known) return false;
  const std::int64_t channels = channels_[node.inputs[0]];
  Node moved = node;
  moved.inputs[0] = blocked(node.inputs[0]);
  moved.attributes.erase("axis");
  emit_blocked(std::move(moved), channels);
  return true;
}

bool BlockLayout::pool(Node& node) {
  const bool known =
      (node.op == "MaxPool" || node.op == "AveragePool") && integers_of(node, "kernel_shape").size() == 2;
  if (!known || !is_blocked(node.inputs[0])) return false;
  const std::int64_t channels = channels_[node.inputs[0]];
  Node pool = node;
  pool.inputs[0] = blocked(node.inputs[0]);
  pool.fused = &kBlockedPool;
  emit_blocked(std::move(pool), channels);
  return true;
}

bool BlockLayout::by_element(Node& node) {
  const bool one = std::ranges::find(kByElement, node.op) != kByElement.end() && node.inputs.size() == 1,
             two = node.fused == &kQuantizedAdd ||
                   ((node.op == "Add" || node.op == "Mul" || node.op == "Sub") && node.inputs.size() == 2);
  if (!one && !two) return false;
  const std::span images = std::span(node.inputs).first(two ? 2 : 1);  // the others are scales
  const std::int64_t channels = is_blocked(node.inputs[0]) ? channels_[node.inputs[0]] : 0;
  for (const std::string& name : images) {
    if (!is_blocked(name) || channels_[name] != channels) return false;
  }
  Node moved = node;
  for (std::string& name : std::span(moved.inputs).first(images.size())) name = blocked(name);
  emit_blocked(std::move(moved), channels);
  return true;
}

bool BlockLayout::is_for_convolution(const Node& concat, std::int64_t channels) const {
  const Node* reader = follower(concat.outputs[0]);
  if (reader == nullptr || reader->inputs.empty() || reader->inputs[0] != concat.outputs[0]) return false;
  const Tensor* weight = weight_for_blocks(*reader);
  return weight != nullptr && weight->dim(1) == channels;
}

bool BlockLayout::concatenate(Node& node) {
  if (node.op != "Concat" || node.inputs.size() < 2 || integer_of(node, "axis", 0) != 1) return false;
  std::int64_t channels = 0;
  for (const std::string& name : node.inputs) {
    if (!is_blocked(name) || channels_[name] % channel_block() != 0) return false;
    channels += channels_[name];
  }
  if (is_for_convolution(node, channels)) {
    parts_[node.outputs[0]] = node.inputs;
    return true;
  }
  Node moved = node;
  for (std::string& name : moved.inputs) name = blocked(name);
  emit_blocked(std::move(moved), channels);
  return true;
}

bool BlockLayout::lay_out(Node& node) {
  if (node.fused == &kQuantizedAdd) return by_element(node);
  if (!is_usual(node)) return false;
  return convolve(node) || convolve_transposed(node) || convolve_codes(node) || requantize(node) ||
         pool(node) || by_element(node) || concatenate(node);
}

void BlockLayout::run() {
  for (Node& node : draft_.nodes) {
    if (node.op.empty()) continue;
    try {
      if (lay_out(node)) continue;
    } catch (const Error& error) {  // no memory for prepacked weights
      rethrow_for_node(error, node, {});
    }
    for (const std::string& name : reads_of(node)) as_plain(name);
    emit(std::move(node));
  }
  draft_.nodes = std::move(made_);
}

}  // namespace

void lay_out_in_blocks(Draft& draft) { BlockLayout(draft).run(); }

bool runs_in_whole_numbers(const Draft& draft, const Node& node) {
  const auto at = [&](std::size_t i) { return draft.constant(node.inputs[i]); };
  if (node.inputs.size() < 8) return false;
  const Value *weight = at(3), *scale = at(4), *zero = at(5);
  if (!is_code(weight) || weight->tensor.rank() != 4 || !is_plain_window(node, weight->tensor)) return false;
  const std::int64_t outputs = weight->tensor.dim(0);
  const auto fits = [&](const Value* value) {
    return value != nullptr && value->tensor.defined() && value->tensor.rank() <= 1 &&
           (value->tensor.numel() == 1 || value->tensor.numel() == outputs);
  };
  if (!fits(scale) || !fits(zero) || !is_code(zero) || scale->tensor.dtype() != DType::f32 ||
      zero->tensor.dtype() != weight->tensor.dtype())
    return false;
  const Tensor* bias = node.inputs.size() > 8 ? draft.constant(node.inputs[8], DType::i32, 1) : nullptr;
  const bool biased = node.inputs.size() > 8 && !node.inputs[8].empty();
  return (!biased || (bias != nullptr && bias->numel() == outputs)) && is_one_scale(at(1)) &&
         is_one_scale(at(6)) && is_code(at(2)) && is_one_number(at(2)) && is_code(at(7)) &&
         is_one_number(at(7)) && takes_quantized_depth(weight->tensor.numel() / outputs);
}

}  // namespace ingot::onnx
