#include "ingot/export/dual_pool_onnx.h"

#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/files.h"
#include "ingot/base/protobuf_writer.h"
#include "ingot/base/version.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::uint64_t kOpset = 18, kIrVersion = 8;  // Mish, and ReduceMean with axes as an input
constexpr std::uint64_t kFloat = 1, kInt64 = 7;       // TensorProto.DataType
constexpr std::uint64_t kAttributeFloat = 1, kAttributeInt = 2, kAttributeInts = 7;

struct OnnxAttribute {
  std::string name;
  std::vector<std::int64_t> ints;  // one that is not a list: see `list`
  bool list = false;
  float number = 0;
  bool is_float = false;
};

OnnxAttribute whole(std::string name, std::int64_t value) {
  return {.name = std::move(name), .ints = {value}};
}
OnnxAttribute list_of(std::string name, std::vector<std::int64_t> values) {
  return {.name = std::move(name), .ints = std::move(values), .list = true};
}
OnnxAttribute real(std::string name, float value) {
  return {.name = std::move(name), .ints = {}, .number = value, .is_float = true};
}

// A graph under construction (onnx.proto3). Values are named; a node's one output is named like the node.
class OnnxGraph {
 public:
  std::string initializer(const std::string& name, const Tensor& values) {
    const std::vector<float> host = to(to(values.detach(), DType::f32), kCpu).to_vector<float>();
    ProtobufMessage tensor;
    for (const std::int64_t size : values.shape().to_vector())
      tensor.varint(1, static_cast<std::uint64_t>(size));
    std::string bytes(host.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), host.data(), bytes.size());
    tensor.varint(2, kFloat).bytes(8, name).bytes(9, bytes);
    graph_.message(5, tensor);
    return name;
  }
  std::string integers(const std::string& name, const std::vector<std::int64_t>& values) {
    ProtobufMessage tensor;
    tensor.varint(1, values.size()).varint(2, kInt64).bytes(8, name);
    std::string bytes;
    for (const std::int64_t value : values) bytes += little_endian(static_cast<std::uint64_t>(value));
    graph_.message(5, tensor.bytes(9, bytes));
    return name;
  }
  std::string node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes = {}) {
    ProtobufMessage node;
    for (const std::string& input : inputs) node.bytes(1, input);
    node.bytes(2, name).bytes(3, name).bytes(4, op);
    for (const OnnxAttribute& attribute : attributes) node.message(5, encoded(attribute));
    graph_.message(1, node);
    return name;
  }
  // The batch is open.
  void input(const std::string& name, const std::vector<std::int64_t>& sizes) {
    graph_.message(11, info(name, sizes));
  }
  void output(const std::string& name, const std::vector<std::int64_t>& sizes) {
    graph_.message(12, info(name, sizes));
  }
  std::string model(const std::string& name) {
    graph_.bytes(2, name);
    ProtobufMessage opset, file;
    opset.varint(2, kOpset);
    file.varint(1, kIrVersion).bytes(2, "ingot").bytes(3, version());
    return file.message(7, graph_).message(8, opset).encoded();
  }

 private:
  static ProtobufMessage encoded(const OnnxAttribute& a) {
    ProtobufMessage message;
    message.bytes(1, a.name);
    if (a.is_float) return message.fixed32(2, a.number).varint(20, kAttributeFloat);
    for (const std::int64_t value : a.ints) message.varint(a.list ? 8 : 3, static_cast<std::uint64_t>(value));
    return message.varint(20, a.list ? kAttributeInts : kAttributeInt);
  }
  static ProtobufMessage info(const std::string& name, const std::vector<std::int64_t>& sizes) {
    ProtobufMessage shape, dimension;
    shape.message(1, dimension.bytes(2, "batch"));
    for (const std::int64_t size : sizes) {
      ProtobufMessage closed;
      shape.message(1, closed.varint(1, static_cast<std::uint64_t>(size)));
    }
    ProtobufMessage tensor, type, value;
    tensor.varint(1, kFloat).message(2, shape);
    return value.bytes(1, name).message(2, type.message(1, tensor));
  }

  ProtobufMessage graph_;
};

// The network's parts as nodes, channels before width as in ONNX.
class DualPoolExport {
 public:
  explicit DualPoolExport(const DualPoolNet& net) : net_(net), c_(net.config) {}

  std::string model() {
    graph_.input("observation", {c_.input_channels, c_.width});
    graph_.input("rank_context", {c_.rank_context});
    // A 0 keeps the size that is there.
    graph_.integers("axis_width", {2});
    graph_.integers("as_groups", {0, c_.norm_groups, -1});
    graph_.integers("as_channels", {0, c_.channels, c_.width});
    graph_.integers("as_gate", {0, c_.channels, 1});
    graph_.integers("as_policy", {0, c_.actions});
    std::string x = conv("stem", net_.stem, "observation", c_.kernel / 2);
    for (std::size_t i = 0; i < net_.blocks.size(); ++i)
      x = block(fmt::format("blocks.{}", i), *net_.blocks[i], x);
    if (net_.norm != nullptr) x = mish_norm("norm", *net_.norm, x);
    heads(x);
    return graph_.model("dual_pool_net");
  }

 private:
  void heads(const std::string& x) {
    const std::string hidden =
        graph_.node("Mish", "policy_mish", {conv("policy_conv", net_.policy_conv, x, 0)});
    graph_.node("Reshape", "policy", {conv("policy_output", net_.policy_output, hidden, 0), "as_policy"});
    const std::string pooled = pool("ReduceMean", "pooled", x);
    mlp("value", net_.value_head, pooled);
    mlp("rank", net_.rank_head,
        graph_.node("Concat", "ranked", {pooled, "rank_context"}, {whole("axis", 1)}));
    mlp("tenpai", net_.tenpai_head, pooled);
    conv("danger", net_.danger_conv, x, 0);
    graph_.output("policy", {c_.actions});
    graph_.output("value", {1});
    graph_.output("rank", {net_.rank_head.layers.back()->weight.out()});
    graph_.output("tenpai", {net_.tenpai_head.layers.back()->weight.out()});
    graph_.output("danger", {net_.danger_conv.weight.value.dim(0), c_.width});
  }

  std::string conv(const std::string& name, const Conv1d& conv, const std::string& x, std::int64_t padding) {
    std::vector<std::string> inputs{x, graph_.initializer(name + ".weight", conv.weight.value)};
    if (conv.bias.value.defined()) inputs.push_back(graph_.initializer(name + ".bias", conv.bias.value));
    return graph_.node("Conv", name, inputs, {list_of("pads", {padding, padding})});
  }

  std::string dense(const std::string& name, const std::string& weights, const std::string& x) {
    return graph_.node("Gemm", name, {x, weights + ".weight", weights + ".bias"}, {whole("transB", 1)});
  }
  void dense_weights(const std::string& name, const Linear& layer) {
    graph_.initializer(name + ".weight", layer.weight.effective());
    graph_.initializer(name + ".bias", layer.bias.value);
  }

  // The last layer's value is called like the head.
  void mlp(const std::string& name, const ReluMlp& head, std::string x) {
    for (std::size_t i = 0; i < head.layers.size(); ++i) {
      const std::string layer = fmt::format("{}_head.{}", name, i);
      dense_weights(layer, *head.layers[i]);
      const bool last = i + 1 == head.layers.size();
      x = dense(last ? name : layer, layer, x);
      if (!last) x = graph_.node("Relu", layer + ".relu", {x});
    }
  }

  // Over the width, [batch, channels].
  std::string pool(const char* op, const std::string& name, const std::string& x) {
    return graph_.node(op, name, {x, "axis_width"}, {whole("keepdims", 0)});
  }

  // Groups are the channels of an instance norm; every runtime has that.
  std::string mish_norm(const std::string& name, const GroupNorm& norm, const std::string& x) {
    graph_.initializer(name + ".weight", reshape(norm.weight.value.detach(), {c_.channels, 1}));
    graph_.initializer(name + ".bias", reshape(norm.bias.value.detach(), {c_.channels, 1}));
    const Tensor zeros = Tensor::zeros({c_.norm_groups});
    const Tensor ones =
        Tensor::from(std::vector<float>(static_cast<std::size_t>(c_.norm_groups), 1.0F), {c_.norm_groups});
    const std::string groups = graph_.node("Reshape", name + ".groups", {x, "as_groups"});
    const std::string whitened = graph_.node(
        "InstanceNormalization", name + ".whitened",
        {groups, graph_.initializer(name + ".ones", ones), graph_.initializer(name + ".zeros", zeros)},
        {real("epsilon", static_cast<float>(norm.options.eps))});
    const std::string channels = graph_.node("Reshape", name + ".channels", {whitened, "as_channels"});
    const std::string scaled = graph_.node("Mul", name + ".scaled", {channels, name + ".weight"});
    const std::string shifted = graph_.node("Add", name + ".shifted", {scaled, name + ".bias"});
    return graph_.node("Mish", name + ".mish", {shifted});
  }

  std::string block(const std::string& name, const DualPoolBlock& block, const std::string& x) {
    const std::string first =
        conv(name + ".conv1", block.conv1, mish_norm(name + ".norm1", block.norm1, x), c_.kernel / 2);
    const std::string h =
        conv(name + ".conv2", block.conv2, mish_norm(name + ".norm2", block.norm2, first), c_.kernel / 2);
    dense_weights(name + ".squeeze", block.squeeze);
    dense_weights(name + ".excite", block.excite);
    const auto squeezed = [&](const char* op, const std::string& of) {
      const std::string pooled = pool(op, of, h);
      const std::string hidden =
          graph_.node("Relu", of + ".relu", {dense(of + ".squeezed", name + ".squeeze", pooled)});
      return dense(of + ".excited", name + ".excite", hidden);
    };
    const std::string both =
        graph_.node("Add", name + ".both",
                    {squeezed("ReduceMean", name + ".mean"), squeezed("ReduceMax", name + ".max")});
    const std::string gate = graph_.node("Reshape", name + ".gate",
                                         {graph_.node("Sigmoid", name + ".sigmoid", {both}), "as_gate"});
    return graph_.node("Add", name, {x, graph_.node("Mul", name + ".gated", {h, gate})});
  }

  const DualPoolNet& net_;
  const DualPoolNetConfig& c_;
  OnnxGraph graph_;
};

}  // namespace

std::uint64_t write_dual_pool_onnx(const std::string& path, const DualPoolNet& net) {
  const std::string model = DualPoolExport(net).model();
  write_file_atomically(path, model);
  return model.size();
}

}  // namespace ingot
