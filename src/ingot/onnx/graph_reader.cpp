#include <algorithm>
#include <deque>
#include <tuple>

#include "onnx.pb.h"
#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include "ingot/base/error.h"
#include "ingot/onnx/graph.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/onnx_file.h"

// From a file's messages to graphs: initializers, attributes, functions of the model's own, the order of
// nodes.

namespace ingot::onnx {

std::set<std::string> reads_of(const Node& node) {
  std::set<std::string> names(node.inputs.begin(), node.inputs.end());
  for (const auto& [name, attribute] : node.attributes) {
    if (attribute.graph != nullptr)
      names.insert(attribute.graph->captured().begin(), attribute.graph->captured().end());
  }
  return names;
}

namespace {

constexpr int kOldestOpset = 1, kNewestOpset = 28;

/// "ai.onnx" is the name of the domain without one.
std::string domain_of(const std::string& name) { return name == "ai.onnx" ? std::string() : name; }

/// Fields that are younger than the description that Debian has: the overload of a function (13) and of a
/// node that calls it (8), the attributes of a function that have a default (11).
template <class Message, class Take>
void each_young_field(const Message& message, int number, const Take& take) {
  const google::protobuf::UnknownFieldSet& fields = message.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      take(field.length_delimited());
  }
}
template <class Message>
std::string overload_of(const Message& message, int number) {
  std::string overload;
  each_young_field(message, number, [&](const std::string& bytes) { overload = bytes; });
  return overload;
}

/// The version of operators without a domain; `otherwise` where a model or function names none.
template <class Sets>
std::int64_t opset_among(const Sets& sets, std::int64_t otherwise, const std::string& path) {
  std::int64_t opset = otherwise;
  for (const auto& set : sets) {
    if (domain_of(set.domain()).empty()) opset = set.version();
  }
  INGOT_CHECK(opset == 0 || (opset >= kOldestOpset && opset <= kNewestOpset),
              NotImplemented(fmt::format("{}: operator set {}; {} to {} are known", path, opset, kOldestOpset,
                                         kNewestOpset)));
  return opset;
}

ValueInfo read_value(const ::onnx::ValueInfoProto& value) {
  ValueInfo info{.name = value.name()};
  const ::onnx::TypeProto* given = &value.type();
  if (!given->has_tensor_type()) {
    info.is_tensor = false;
    info.stored_as = given->has_sequence_type()   ? "sequence"
                     : given->has_optional_type() ? "optional"
                                                  : "no tensor";
    if (given->has_optional_type()) given = &given->optional_type().elem_type();
    info.is_sequence = given->has_sequence_type();
    if (info.is_sequence) given = &given->sequence_type().elem_type();
    if (!given->has_tensor_type()) return info;
  }
  const auto& type = given->tensor_type();
  info.type = stored_type(type.elem_type());
  if (info.is_tensor) info.stored_as = onnx_type_name(type.elem_type());
  for (const auto& dim : type.shape().dim()) {
    info.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    info.axes.push_back(dim.dim_param());
  }
  if (!type.has_shape()) info.axes = {"*"};  // of any rank
  return info;
}

/// Nodes after those that make what they read: some converters append theirs. The order stays where it is
/// right already; nodes that wait for each other stay where they are, and are refused later.
std::vector<Node> in_order(std::vector<Node> nodes) {
  std::map<std::string, std::size_t> makers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].outputs) {
      if (!name.empty()) makers.emplace(name, i);
    }
  }
  std::vector<std::size_t> missing(nodes.size(), 0);
  std::vector<std::vector<std::size_t>> readers(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : reads_of(nodes[i])) {
      const auto maker = makers.find(name);
      if (maker == makers.end()) continue;
      readers[maker->second].push_back(i);
      ++missing[i];
    }
  }
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (missing[i] == 0) ready.insert(i);
  }
  std::vector<Node> ordered;
  ordered.reserve(nodes.size());
  while (!ready.empty()) {
    const std::size_t next = *ready.begin();
    ready.erase(ready.begin());
    for (const std::size_t reader : readers[next]) {
      if (--missing[reader] == 0) ready.insert(reader);
    }
    ordered.push_back(nodes[next]);
  }
  return ordered.size() == nodes.size() ? ordered : nodes;
}

}  // namespace

/// Reads the graph of a file, those inside its nodes, and the functions that its nodes call.
class GraphReader {
 public:
  GraphReader(std::shared_ptr<const OnnxFile> file, Device device);
  Graph read_model();

 private:
  using Attributes = std::map<std::string, const ::onnx::AttributeProto*>;
  struct Function {
    const ::onnx::FunctionProto* message = nullptr;
    Attributes defaults;
    std::int64_t size = -1;  ///< see size_of_calls
  };
  /// What surrounds a node that is read.
  struct Position {
    int opset = 0, depth = 0;  ///< depth: of functions that call each other
    Attributes attributes{};   ///< of the call, where the node is in a function
  };

  void find_functions();
  Function* function_of(const ::onnx::NodeProto& node);
  const ::onnx::AttributeProto* given(const ::onnx::AttributeProto& from, const Position& position) const;
  template <class Nodes>
  std::int64_t size_of_calls(const Nodes& nodes, int depth);
  void check_depth(const Function& function, int depth) const;
  Value shared_value(const ::onnx::TensorProto& tensor);
  Attribute read_attribute(const ::onnx::AttributeProto& from, const Position& position);
  Node read_node(const ::onnx::NodeProto& from, const Position& position);
  Graph read_call(const ::onnx::NodeProto& node, const Function& function, const Position& position);
  Graph read_graph(const ::onnx::GraphProto& from, const Position& position, bool inside);
  Graph empty_graph(const Position& position) const;
  template <class Nodes>
  void read_nodes(Graph& graph, const Nodes& nodes, const Position& position, bool inside);

  std::shared_ptr<const OnnxFile> file_;
  Device device_;
  std::shared_ptr<Texts> texts_ = std::make_shared<Texts>();
  std::map<std::tuple<std::string, std::string, std::string>, Function>
      functions_;  ///< domain, name, overload
  std::deque<::onnx::AttributeProto> defaults_;
  std::map<const ::onnx::TensorProto*, Value> values_;  ///< in attributes of functions
};

GraphReader::GraphReader(std::shared_ptr<const OnnxFile> file, Device device)
    : file_(std::move(file)), device_(device) {
  find_functions();
}

void GraphReader::find_functions() {
  for (const auto& function : file_->model().functions()) {
    Function found{.message = &function};
    for (const std::string& name : function.attribute()) found.defaults[name] = nullptr;
    each_young_field(function, 11, [&](const std::string& bytes) {
      ::onnx::AttributeProto& attribute = defaults_.emplace_back();
      INGOT_CHECK(attribute.ParseFromString(bytes),
                  FormatError(file_->path(), -1, function.name(), "has an attribute that is cut short"));
      found.defaults[attribute.name()] = &attribute;
    });
    INGOT_CHECK(
        functions_
            .emplace(std::tuple(domain_of(function.domain()), function.name(), overload_of(function, 13)),
                     std::move(found))
            .second,
        FormatError(file_->path(), -1, function.name(), "is the name of two functions"));
  }
}

GraphReader::Function* GraphReader::function_of(const ::onnx::NodeProto& node) {
  if (functions_.empty()) return nullptr;
  const auto found =
      functions_.find(std::tuple(domain_of(node.domain()), node.op_type(), overload_of(node, 8)));
  return found == functions_.end() ? nullptr : &found->second;
}

/// The attribute itself, or the one of the call that it stands for; null where that is left out.
const ::onnx::AttributeProto* GraphReader::given(const ::onnx::AttributeProto& from,
                                                 const Position& position) const {
  if (from.ref_attr_name().empty()) return &from;
  const auto found = position.attributes.find(from.ref_attr_name());
  INGOT_CHECK(
      found != position.attributes.end(),
      FormatError(file_->path(), -1, from.name(),
                  fmt::format("stands for '{}', which no function around it has", from.ref_attr_name())));
  return found->second;
}

/// Nodes of functions, once for each call, and elements of their attributes. Functions that call each other
/// twice, again and again, come to more than any machine holds.
template <class Nodes>
std::int64_t GraphReader::size_of_calls(const Nodes& nodes, int depth) {
  constexpr std::int64_t kMost = std::int64_t{1} << 18;
  std::int64_t total = 0;
  for (const auto& node : nodes) {
    total += depth > 0 ? 1 : 0;
    for (const auto& attribute : node.attribute()) {
      if (depth > 0) {
        total += attribute.ints_size() + attribute.floats_size() + attribute.strings_size() +
                 static_cast<std::int64_t>(attribute.s().size() / sizeof(float));
      }
      if (attribute.has_g()) total += size_of_calls(attribute.g().node(), depth);
    }
    if (Function* function = function_of(node)) {
      check_depth(*function, depth);
      if (function->size < 0) function->size = size_of_calls(function->message->node(), depth + 1);
      total += function->size;
    }
    INGOT_CHECK(total <= kMost,
                FormatError(file_->path(), -1, "functions",
                            fmt::format("come to more than {} nodes, counted once for each call", kMost)));
  }
  return total;
}

void GraphReader::check_depth(const Function& function, int depth) const {
  constexpr int kDeepest = 100;
  INGOT_CHECK(
      depth < kDeepest,
      FormatError(file_->path(), -1, function.message->name(),
                  fmt::format("is a function more than {} calls deep; does it call itself?", kDeepest)));
}

/// Of a function: once for all its calls. A copy, since a default is not a part of the file's message, in
/// whose memory its values would stay.
Value GraphReader::shared_value(const ::onnx::TensorProto& tensor) {
  const auto [entry, is_new] = values_.try_emplace(&tensor);
  if (is_new) {
    entry->second = load_value(*file_, tensor, *texts_);
    entry->second.tensor = clone(entry->second.tensor);
  }
  return entry->second;
}

Attribute GraphReader::read_attribute(const ::onnx::AttributeProto& from, const Position& position) {
  Attribute attribute;
  attribute.integer = from.i();
  attribute.number = from.f();
  attribute.text = from.s();
  attribute.integers.assign(from.ints().begin(), from.ints().end());
  attribute.numbers.assign(from.floats().begin(), from.floats().end());
  attribute.texts.assign(from.strings().begin(), from.strings().end());
  if (from.has_t() && stored_type(from.t().data_type())) {
    attribute.value = position.depth == 0 ? load_value(*file_, from.t(), *texts_) : shared_value(from.t());
  }
  if (from.has_g()) attribute.graph = std::make_shared<const Graph>(read_graph(from.g(), position, true));
  return attribute;
}

Node GraphReader::read_node(const ::onnx::NodeProto& from, const Position& position) {
  Node node{.op = from.op_type(), .domain = domain_of(from.domain()), .name = from.name()};
  node.inputs.assign(from.input().begin(), from.input().end());
  node.outputs.assign(from.output().begin(), from.output().end());
  if (const Function* function = function_of(from)) {
    node.function = std::make_shared<const Graph>(read_call(from, *function, position));
    return node;
  }
  for (const auto& attribute : from.attribute()) {
    if (const ::onnx::AttributeProto* value = given(attribute, position))
      node.attributes[attribute.name()] = read_attribute(*value, position);
  }
  return node;
}

/// What a node of the model's function runs: the function with the node's attributes in place.
Graph GraphReader::read_call(const ::onnx::NodeProto& node, const Function& function,
                             const Position& position) {
  const ::onnx::FunctionProto& message = *function.message;
  check_depth(function, position.depth);
  INGOT_CHECK(node.input_size() <= message.input_size() && node.output_size() <= message.output_size(),
              FormatError(file_->path(), -1, message.name(),
                          fmt::format("is a function of {} inputs and {} outputs; node '{}' has {} and {}",
                                      message.input_size(), message.output_size(), node.name(),
                                      node.input_size(), node.output_size())));
  Position within{
      .opset = static_cast<int>(opset_among(message.opset_import(), position.opset, file_->path())),
      .depth = position.depth + 1,
      .attributes = function.defaults};
  for (const auto& attribute : node.attribute()) {
    if (const ::onnx::AttributeProto* value = given(attribute, position))
      within.attributes[attribute.name()] = value;
  }
  Graph graph = empty_graph(within);
  for (const std::string& name : message.input()) graph.inputs_.push_back({.name = name});
  for (const std::string& name : message.output()) graph.outputs_.push_back({.name = name});
  read_nodes(graph, message.node(), within, false);
  return graph;
}

Graph GraphReader::empty_graph(const Position& position) const {
  Graph graph;
  graph.file_ = file_;
  graph.path_ = file_->path();
  graph.opset_ = position.opset;
  graph.device_ = device_;
  graph.texts_ = texts_;
  return graph;
}

template <class Nodes>
void GraphReader::read_nodes(Graph& graph, const Nodes& nodes, const Position& position, bool inside) {
  for (const auto& node : nodes) graph.nodes_.push_back(read_node(node, position));
  graph.nodes_ = in_order(std::move(graph.nodes_));
  graph.plan(inside);
  graph.position_initializers();
  graph.start_program();
}

/// `inside` a node: what nothing in it makes is captured.
Graph GraphReader::read_graph(const ::onnx::GraphProto& from, const Position& position, bool inside) {
  Graph graph = empty_graph(position);
  for (const auto& tensor : from.initializer()) {
    INGOT_CHECK(graph.initializers_.emplace(tensor.name(), load_value(*file_, tensor, *texts_)).second,
                FormatError(graph.path_, -1, tensor.name(), "is the name of two initializers"));
  }
  for (const auto& input : from.input()) {
    if (!graph.initializers_.contains(input.name())) graph.inputs_.push_back(read_value(input));
  }
  for (const auto& output : from.output()) {
    graph.outputs_.push_back(read_value(output));
    graph.declared_[output.name()] = graph.outputs_.back();
  }
  for (const auto& value : from.value_info()) graph.declared_[value.name()] = read_value(value);
  read_nodes(graph, from.node(), position, inside);
  return graph;
}

Graph GraphReader::read_model() {
  const ::onnx::ModelProto& model = file_->model();
  const std::int64_t opset =
      opset_among(model.opset_import(), model.opset_import_size() == 0 ? 1 : 0, file_->path());
  size_of_calls(model.graph().node(), 0);
  Graph graph = read_graph(model.graph(), {.opset = static_cast<int>(opset)}, false);
  graph.producer_ = model.producer_name();
  graph.ir_version_ = model.ir_version();
  return graph;
}

Graph Graph::open(const std::string& path, Device device) { return open(OnnxFile::open(path), device); }

Graph Graph::open(std::shared_ptr<const OnnxFile> file, Device device) {
  return GraphReader(std::move(file), device).read_model();
}

void Graph::plan(bool inside) {
  std::set<std::string> known{""};
  for (const auto& [name, tensor] : initializers_) known.insert(name);
  for (const ValueInfo& input : inputs_) {
    INGOT_CHECK(known.insert(input.name).second,
                FormatError(path_, -1, input.name, "is the name of two inputs"));
  }
  const auto captures = [&](const std::string& name) { return inside && captured_.insert(name).second; };
  std::map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    for (const std::string& name : reads_of(node)) {
      INGOT_CHECK(known.contains(name) || captured_.contains(name) || captures(name),
                  FormatError(path_, -1, name,
                              fmt::format("is read by node {} ({} '{}'), but nothing before makes it", i,
                                          node.op, node.name)));
      last[name] = i;
    }
    for (const std::string& name : node.outputs) {
      INGOT_CHECK(name.empty() || (!captured_.contains(name) && known.insert(name).second),
                  FormatError(path_, -1, name, "is made by two nodes, or after it was read"));
      if (!name.empty()) last[name] = i;
    }
  }
  for (const ValueInfo& output : outputs_) {
    INGOT_CHECK(known.contains(output.name) || captured_.contains(output.name) || captures(output.name),
                FormatError(path_, -1, output.name, "is an output that no node makes"));
    last.erase(output.name);
  }
  last_uses_.resize(nodes_.size());
  for (const auto& [name, node] : last) {
    if (!initializers_.contains(name) && !captured_.contains(name)) last_uses_[node].push_back(name);
  }
}

}  // namespace ingot::onnx
