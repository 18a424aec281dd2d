#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/base/rng.h"
#include "ingot/core/tensor.h"
#include "ingot/onnx/element.h"
#include "ingot/onnx/value.h"

namespace ingot::onnx {

class Graph;
struct OpRow;

/// An attribute of a node; which member counts is the operator's business.
struct Attribute {
  std::int64_t integer = 0;
  float number = 0;
  std::string text;
  std::vector<std::int64_t> integers;
  std::vector<float> numbers;
  std::vector<std::string> texts;
  Value value;                         ///< a tensor
  std::shared_ptr<const Graph> graph;  ///< what If, Loop and Scan run
};

/// What the nodes of one run share.
struct RunState {
  std::int64_t iterations = 0;  ///< that loops may still take: one need not have an end
  Texts texts;
  std::uint64_t draws = 0;  ///< of nodes that draw random numbers without a seed of their own
};

/// A value of the graph around a node, by its name.
using Scope = FunctionRef<Value(const std::string&)>;

/// A node of a graph, apart from the file's message. An input named "" is left out.
struct Node {
  std::string op, domain, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Attribute, std::less<>> attributes;
  std::shared_ptr<const Graph> function;  ///< what it runs where it calls a function of the model's own
  const OpRow* fused = nullptr;           ///< what it runs where a program made it of nodes of the file

  /// "Conv", "ai.onnx.ml.LabelEncoder".
  std::string full_name() const { return domain.empty() ? op : domain + "." + op; }
};

/// What an operator sees when it runs.
class OpCall {
 public:
  OpCall(const Node& node, std::span<const Value> inputs, int opset, Scope scope, RunState& state)
      : node_(node), inputs_(inputs), opset_(opset), scope_(scope), state_(state) {}

  const Node& node() const { return node_; }
  /// Version of the operator set that the model was written for: meanings changed over time.
  int opset() const { return opset_; }

  std::span<const Value> inputs() const { return inputs_; }
  std::size_t input_count() const { return inputs_.size(); }
  std::size_t output_count() const { return node_.outputs.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  /// FormatError naming the node where it is left out, or is a sequence.
  const Tensor& in(std::size_t i) const;
  /// The same with its element type, or a sequence.
  const Value& value_in(std::size_t i) const;
  /// The values of a sequence; FormatError naming the node for anything else.
  const Values& items_in(std::size_t i) const;
  /// The element type of a tensor.
  StoredType type(std::size_t i) const { return {value_in(i).type, in(i).dtype()}; }
  bool is_of(std::size_t i, ElementType element) const { return value_in(i).type == element; }
  /// The same; DimensionMismatch naming the node unless it has from `least` to `most` axes.
  const Tensor& in(std::size_t i, int least, int most = kMaxRank) const;
  /// Undefined where it is left out.
  Tensor optional(std::size_t i) const { return has(i) ? in(i) : Tensor(); }
  /// An input of whole numbers (axes, sizes), on the host.
  std::vector<std::int64_t> integers_in(std::size_t i) const;
  /// An input that is one number; DimensionMismatch naming the node where it is none or several.
  std::int64_t integer_in(std::size_t i) const;
  double number_in(std::size_t i) const;

  bool has_attribute(std::string_view name) const { return node_.attributes.contains(name); }
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  float number(std::string_view name, float fallback) const;
  std::string text(std::string_view name, const std::string& fallback) const;
  /// A number of TensorProto.DataType; NotImplemented naming the node for a type that Ingot lacks, of dtype()
  /// also for one that it can only hold.
  StoredType stored_type(std::string_view name, std::int64_t fallback) const;
  DType dtype(std::string_view name, std::int64_t fallback) const;
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> fallback = {}) const;
  const Attribute& attribute(std::string_view name) const;
  /// The graph that an attribute holds; FormatError naming the node where there is none.
  const Graph& graph(std::string_view name) const;
  /// One iteration of a loop; Error naming the node where the run has none left.
  void take_iteration() const;
  /// Its outputs, in order, on the host; `inputs` likewise. It may read values of the graph around the node.
  Values run(const Graph& graph, std::span<const Value> inputs) const;
  /// The outputs of the function that the node calls: inputs at the end of its list may be left out.
  Values run_function() const;
  /// The results of another operator with this node's attributes, on inputs of its own.
  Values as(std::string_view op, std::span<const Value> inputs) const;
  /// Axes that were an attribute before operator set `since` and are input `i` from then on.
  std::vector<std::int64_t> axes(std::size_t i, int since) const;
  /// An axis with negatives counted from the end; DimensionMismatch unless it is there.
  int axis(std::string_view name, std::int64_t fallback, int rank) const;
  int axis_of(std::int64_t given, int rank) const;
  std::vector<int> axes_of(const std::vector<std::int64_t>& given, int rank) const;

  Texts& texts() const { return state_.texts; }
  /// Where the numbers come from that the node draws: from its attribute `seed`, else anew in each call.
  RngKey random_key() const;

  /// The node in messages: "Conv 'features.0'".
  std::string where() const;
  /// An input in messages: "1 ('weight')".
  std::string input_label(std::size_t i) const;
  [[noreturn]] void refuse(std::string_view what) const;  // NotImplemented, naming the node

 private:
  void check_single(std::size_t i) const;

  const Node& node_;
  std::span<const Value> inputs_;
  int opset_;
  Scope scope_;
  RunState& state_;
};

using OpFunction = Values (*)(const OpCall&);

/// How many of an operator's first inputs it takes on a device: see OpRow.
inline constexpr int kEveryInput = 1 << 20, kOnlyShapes = -1;

struct OpRow {
  std::string_view name;
  OpFunction run = nullptr;
  /// With how many of its first inputs it works on another device than the CPU, where one of them is of a
  /// type that the device computes in; all other inputs are given to it on the host. 0: it works on the host.
  /// kOnlyShapes: it reads no values, so its inputs may be anywhere. Results may be on either.
  int on_device = 0;
  /// What it makes of element types that Ingot has no dtype for: kPlainTypes: it refuses them; kOwnTypes: it
  /// says of each output what it is; else the first output has the type of the input of this number.
  int typed = -1;
};
inline constexpr int kPlainTypes = -1, kOwnTypes = -2;

// The families, each in a file of its own. A new operator is a function and a row there.
std::span<const OpRow> math_ops();
std::span<const OpRow> logic_ops();
std::span<const OpRow> reduce_ops();
std::span<const OpRow> shape_ops();
std::span<const OpRow> index_ops();
std::span<const OpRow> create_ops();
std::span<const OpRow> layer_ops();
std::span<const OpRow> pool_ops();
std::span<const OpRow> resize_ops();
std::span<const OpRow> loss_ops();
std::span<const OpRow> quantize_ops();
std::span<const OpRow> recurrent_ops();
std::span<const OpRow> einsum_ops();
std::span<const OpRow> control_ops();
std::span<const OpRow> vision_ops();
std::span<const OpRow> signal_ops();
std::span<const OpRow> attention_ops();
std::span<const OpRow> linear_attention_ops();
std::span<const OpRow> bit_ops();
std::span<const OpRow> sequence_ops();
std::span<const OpRow> text_ops();
std::span<const OpRow> random_ops();
std::span<const OpRow> roi_ops();
std::span<const OpRow> tabular_ops();
std::span<const OpRow> training_ops();
std::span<const OpRow> fused_ops();
std::span<const OpRow> fused_attention_ops();
std::span<const OpRow> fused_quantized_ops();

/// How a function of the model's own is run.
const OpRow& function_call();
/// An operator by its name, behind its domain and a dot unless that is "ai.onnx"; null for one that Ingot
/// lacks.
const OpRow* find_op(std::string_view name);
const OpRow* find_op(const Node& node);
/// Runs a node on arguments that are where the operator wants them. Its errors name the node.
Values run_node(const OpRow& op, const OpCall& call);
/// What a node reads: its inputs, and what the graphs inside it take from around it.
std::set<std::string> reads_of(const Node& node);
/// All names, sorted.
std::vector<std::string_view> op_names();

}  // namespace ingot::onnx
