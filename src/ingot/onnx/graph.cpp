#include "ingot/onnx/graph.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "onnx.pb.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
#include "ingot/core/backend.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::onnx {

/// Reads the graph of a file, and the ones inside its nodes.
class GraphReader {
 public:
  GraphReader(std::shared_ptr<const OnnxFile> file, int opset, Device device)
      : file_(std::move(file)), opset_(opset), device_(device), texts_(std::make_shared<Texts>()) {}
  /// `inside` a node: what nothing in it makes is captured.
  Graph read(const ::onnx::GraphProto& from, bool inside) const;

 private:
  Attribute read_attribute(const ::onnx::AttributeProto& from) const;
  Node read_node(const ::onnx::NodeProto& from) const;

  std::shared_ptr<const OnnxFile> file_;
  int opset_;
  Device device_;
  std::shared_ptr<Texts> texts_;
};

namespace {

constexpr int kOldestOpset = 1, kNewestOpset = 28;

ValueInfo read_value(const ::onnx::ValueInfoProto& value) {
  ValueInfo info{.name = value.name()};
  if (!value.type().has_tensor_type()) {
    info.is_tensor = false;
    info.stored_as = value.type().has_sequence_type()   ? "sequence"
                     : value.type().has_optional_type() ? "optional"
                                                        : "no tensor";
    return info;
  }
  const auto& type = value.type().tensor_type();
  info.type = stored_type(type.elem_type());
  info.stored_as = onnx_type_name(type.elem_type());
  for (const auto& dim : type.shape().dim()) {
    info.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    info.axes.push_back(dim.dim_param());
  }
  if (!type.has_shape()) info.axes = {"*"};  // of any rank
  return info;
}

// What a node reads: its inputs, and what the graphs inside it take from around it.
std::set<std::string> reads_of(const Node& node) {
  std::set<std::string> names(node.inputs.begin(), node.inputs.end());
  for (const auto& [name, attribute] : node.attributes) {
    if (attribute.graph != nullptr)
      names.insert(attribute.graph->captured().begin(), attribute.graph->captured().end());
  }
  return names;
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

Attribute GraphReader::read_attribute(const ::onnx::AttributeProto& from) const {
  Attribute attribute;
  attribute.integer = from.i();
  attribute.number = from.f();
  attribute.text = from.s();
  attribute.integers.assign(from.ints().begin(), from.ints().end());
  attribute.numbers.assign(from.floats().begin(), from.floats().end());
  attribute.texts.assign(from.strings().begin(), from.strings().end());
  if (from.has_t() && stored_type(from.t().data_type()))
    attribute.value = load_value(*file_, from.t(), *texts_);
  if (from.has_g()) attribute.graph = std::make_shared<const Graph>(read(from.g(), true));
  return attribute;
}

Node GraphReader::read_node(const ::onnx::NodeProto& from) const {
  Node node{.op = from.op_type(), .domain = from.domain(), .name = from.name()};
  if (node.domain == "ai.onnx") node.domain.clear();
  node.inputs.assign(from.input().begin(), from.input().end());
  node.outputs.assign(from.output().begin(), from.output().end());
  // A function's parameter is read as an empty attribute: files with functions of their own are refused where
  // their nodes are looked up.
  for (const auto& attribute : from.attribute())
    node.attributes[attribute.name()] = read_attribute(attribute);
  return node;
}

Graph GraphReader::read(const ::onnx::GraphProto& from, bool inside) const {
  Graph graph;
  graph.file_ = file_;
  graph.path_ = file_->path();
  graph.opset_ = opset_;
  graph.device_ = device_;
  graph.texts_ = texts_;
  for (const auto& tensor : from.initializer()) {
    INGOT_CHECK(graph.initializers_.emplace(tensor.name(), load_value(*file_, tensor, *texts_)).second,
                FormatError(graph.path_, -1, tensor.name(), "is the name of two initializers"));
  }
  for (const auto& input : from.input()) {
    if (!graph.initializers_.contains(input.name())) graph.inputs_.push_back(read_value(input));
  }
  for (const auto& output : from.output()) graph.outputs_.push_back(read_value(output));
  for (const auto& node : from.node()) graph.nodes_.push_back(read_node(node));
  graph.nodes_ = in_order(std::move(graph.nodes_));
  graph.plan(inside);
  graph.place_initializers();
  return graph;
}

Graph Graph::open(const std::string& path, Device device) { return open(OnnxFile::open(path), device); }

Graph Graph::open(std::shared_ptr<const OnnxFile> file, Device device) {
  const ::onnx::ModelProto& model = file->model();
  std::int64_t opset = model.opset_import_size() == 0 ? 1 : 0;
  for (const auto& set : model.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") opset = set.version();
  }
  INGOT_CHECK(opset == 0 || (opset >= kOldestOpset && opset <= kNewestOpset),
              NotImplemented(fmt::format("{}: operator set {}; {} to {} are known", file->path(), opset,
                                         kOldestOpset, kNewestOpset)));
  Graph graph = GraphReader(file, static_cast<int>(opset), device).read(model.graph(), false);
  graph.producer_ = model.producer_name();
  graph.ir_version_ = model.ir_version();
  return graph;
}

namespace {

// With how many of its inputs a node works on the device: none where no type among them is the device's.
std::size_t inputs_on_device(const OpRow& op, std::span<const Value> inputs, Device device) {
  if (device.is_cpu() || op.on_device <= 0) return 0;
  const std::vector<DType>& dtypes = backend(device).capabilities().dtypes;
  const auto first = inputs.first(std::min(inputs.size(), static_cast<std::size_t>(op.on_device)));
  const bool plain = std::ranges::all_of(
      first, [](const Value& input) { return input.type == ElementType::plain && !input.is_sequence(); });
  const bool fits =
      plain && std::ranges::any_of(first, [&](const Value& input) {
        return input.defined() && std::ranges::find(dtypes, input.tensor.dtype()) != dtypes.end();
      });
  return fits ? first.size() : 0;
}

}  // namespace

namespace {

// Only operators that know of them see element types that Ingot has no dtype for.
void check_types(const OpRow& op, const OpCall& call) {
  if (op.typed != kPlainTypes) return;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.has(i) && !call.is_of(i, ElementType::plain))
      call.refuse("element type " + name_of(call.type(i)));
  }
}

// Its errors name the node.
Values run_node(const OpRow& op, const OpCall& call) {
  try {
    check_types(op, call);
    Values results = op.run(call);
    if (op.typed >= 0 && call.has(static_cast<std::size_t>(op.typed)) && !results.empty())
      results[0].type = call.value_in(static_cast<std::size_t>(op.typed)).type;
    return results;
  } catch (const DimensionMismatch& error) {
    const std::string problem = error.what();
    throw DimensionMismatch(problem.starts_with(call.where()) ? problem : call.where() + ": " + problem);
  } catch (const std::bad_alloc&) {
    throw Error(call.where() + ": needs more memory than there is");
  } catch (const std::length_error&) {  // a vector of more elements than any can have
    throw Error(call.where() + ": needs more memory than there is");
  }
}

}  // namespace

// Weights go to the device once, if it has operators for them.
void Graph::place_initializers() {
  for (const Node& node : nodes_) {
    const OpRow* op = find_op(node);
    if (op == nullptr) continue;
    for (std::size_t i = 0; i < node.inputs.size() && static_cast<int>(i) < op->on_device; ++i) {
      const auto stored = initializers_.find(node.inputs[i]);
      if (stored != initializers_.end() && inputs_on_device(*op, {&stored->second, 1}, device_) > 0)
        stored->second.tensor = to(stored->second.tensor, device_);
    }
  }
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

std::set<std::string> Graph::unsupported() const {
  std::set<std::string> names;
  for (const Node& node : nodes_) {
    if (find_op(node) == nullptr) names.insert(node.full_name());
    for (const auto& [name, attribute] : node.attributes) {
      if (attribute.graph != nullptr) names.merge(attribute.graph->unsupported());
    }
  }
  return names;
}

void Graph::check_input(const ValueInfo& input, const Value& given) const {
  if (!input.is_tensor || !given.tensor.defined()) {
    INGOT_CHECK(!input.is_tensor,
                InvalidConfig(input.name, "is a tensor, and a sequence or nothing is given"));
    return;
  }
  INGOT_CHECK(input.type && type_of(given) == *input.type,
              InvalidConfig(input.name, fmt::format("takes {}, but {} is given", input.stored_as,
                                                    name_of(type_of(given)))));
  if (input.shape.empty() && !input.axes.empty()) return;
  const Tensor& x = given.tensor;
  bool fits = static_cast<std::size_t>(x.rank()) == input.shape.size();
  for (int i = 0; fits && i < x.rank(); ++i) {
    const std::int64_t size = input.shape[static_cast<std::size_t>(i)];
    fits = size == -1 || size == x.dim(i);
  }
  INGOT_CHECK(fits, ShapeMismatch(input.name, input.shape, x.shape().to_vector(), "-1 stands for any size"));
}

void Graph::check_inputs(const std::map<std::string, Value>& inputs) const {
  std::vector<std::string> names;
  for (const ValueInfo& input : inputs_) {
    names.push_back(input.name);
    const auto found = inputs.find(input.name);
    INGOT_CHECK(found != inputs.end(),
                InvalidConfig(input.name, fmt::format("is an input of {} and is not given", path_)));
    check_input(input, found->second);
  }
  for (const auto& [name, value] : inputs) {
    INGOT_CHECK(
        std::ranges::find(names, name) != names.end(),
        InvalidConfig(name, fmt::format("is not an input of {}; it has: {}", path_, fmt::join(names, ", "))));
  }
}

std::vector<Tensor> Graph::run(const std::map<std::string, Tensor>& inputs,
                               std::int64_t max_iterations) const {
  const std::map<std::string, Value> values(inputs.begin(), inputs.end());
  Texts texts = *texts_;
  std::vector<Tensor> tensors;
  for (const Value& result : run_values(values, texts, max_iterations)) {
    INGOT_CHECK(result.tensor.defined() && result.type != ElementType::text,
                NotImplemented(path_ + ": outputs that are sequences or strings"));
    tensors.push_back(result.tensor);
  }
  return tensors;
}

Values Graph::run_values(const std::map<std::string, Value>& inputs, Texts& texts,
                         std::int64_t max_iterations) const {
  const std::set<std::string> missing = unsupported();
  INGOT_CHECK(missing.empty(),
              NotImplemented(fmt::format("{}: operators {}", path_, fmt::join(missing, ", "))));
  std::map<std::string, Value> typed = inputs;
  for (const ValueInfo& input : inputs_) {
    const auto given = typed.find(input.name);
    const bool carried = given != typed.end() && given->second.type == ElementType::plain && input.type &&
                         given->second.tensor.defined() && input.type->element != ElementType::text &&
                         input.type->dtype == given->second.tensor.dtype();
    if (carried)
      given->second.type = input.type->element;  // in the dtype that carries what has none of its own
  }
  check_inputs(typed);
  const NoGrad no_grad;
  const auto nothing_around = [](const std::string&) { return Value(); };
  RunState state{.iterations = max_iterations, .texts = std::move(texts)};
  Values results = run_nodes(std::move(typed), nothing_around, state);
  for (Value& result : results) {
    if (result.tensor.defined()) result.tensor = to(result.tensor, kCpu);
  }
  texts = std::move(state.texts);
  return results;
}

Values Graph::run_inside(std::span<const Value> inputs, Scope around, RunState& state) const {
  std::map<std::string, Value> values;
  for (std::size_t i = 0; i < inputs_.size(); ++i) values[inputs_[i].name] = inputs[i];
  return run_nodes(std::move(values), around, state);
}

Values Graph::run_nodes(std::map<std::string, Value> values, Scope around, RunState& state) const {
  const auto value = [&](const std::string& name) {
    if (name.empty()) return Value();
    if (const auto made = values.find(name); made != values.end()) return made->second;
    const auto stored = initializers_.find(name);
    return stored != initializers_.end() ? stored->second : around(name);
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const OpRow& op = *find_op(node);
    Values arguments;
    for (const std::string& name : node.inputs) arguments.push_back(value(name));
    const std::size_t there = inputs_on_device(op, arguments, device_);
    for (std::size_t k = 0; k < arguments.size() && op.on_device != kOnlyShapes; ++k) {
      const Device place = k < there ? device_ : kCpu;
      Tensor& tensor = arguments[k].tensor;
      if (!tensor.defined() || tensor.device() == place) continue;
      tensor = to(tensor, place);
      // Whoever reads it next most likely wants it there, too.
      if (const auto made = values.find(node.inputs[k]); made != values.end()) made->second = arguments[k];
    }
    const OpCall call(node, arguments, opset_, value, state);
    const Values results = run_node(op, call);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].empty()) continue;
      if (k >= results.size()) call.refuse(fmt::format("output {}", k));
      values[node.outputs[k]] = results[k];
    }
    for (const std::string& name : last_uses_[i]) values.erase(name);
  }
  Values results;
  results.reserve(outputs_.size());
  for (const ValueInfo& output : outputs_) results.push_back(value(output.name));
  return results;
}

}  // namespace ingot::onnx
