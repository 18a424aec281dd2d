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
      : file_(std::move(file)), opset_(opset), device_(device) {}
  /// `inside` a node: what nothing in it makes is captured.
  Graph read(const ::onnx::GraphProto& from, bool inside) const;

 private:
  Attribute read_attribute(const ::onnx::AttributeProto& from) const;
  Node read_node(const ::onnx::NodeProto& from) const;

  std::shared_ptr<const OnnxFile> file_;
  int opset_;
  Device device_;
};

namespace {

constexpr int kOldestOpset = 1, kNewestOpset = 24;

ValueInfo read_value(const ::onnx::ValueInfoProto& value) {
  ValueInfo info{.name = value.name()};
  if (!value.type().has_tensor_type()) {
    info.stored_as = value.type().has_sequence_type() ? "sequence" : "no tensor";
    return info;
  }
  const auto& type = value.type().tensor_type();
  info.dtype = onnx_dtype(type.elem_type());
  info.stored_as = onnx_type_name(type.elem_type());
  for (const auto& dim : type.shape().dim()) {
    info.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    info.axes.push_back(dim.dim_param());
  }
  if (!type.has_shape()) info.axes = {"*"};  // of any rank
  return info;
}

std::string full_name(const Node& node) {
  return node.domain.empty() ? node.op : node.domain + "." + node.op;
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
  if (from.has_t() && onnx_dtype(from.t().data_type())) attribute.tensor = file_->load(from.t());
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
  for (const auto& tensor : from.initializer()) {
    INGOT_CHECK(graph.initializers_.emplace(tensor.name(), file_->load(tensor)).second,
                FormatError(graph.path_, -1, tensor.name(), "is the name of two initializers"));
  }
  for (const auto& input : from.input()) {
    if (!graph.initializers_.contains(input.name())) graph.inputs_.push_back(read_value(input));
  }
  for (const auto& output : from.output()) graph.outputs_.push_back(read_value(output));
  for (const auto& node : from.node()) graph.nodes_.push_back(read_node(node));
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

// What a node reads: its inputs, and what the graphs inside it take from around it.
std::set<std::string> reads_of(const Node& node) {
  std::set<std::string> names(node.inputs.begin(), node.inputs.end());
  for (const auto& [name, attribute] : node.attributes) {
    if (attribute.graph != nullptr)
      names.insert(attribute.graph->captured().begin(), attribute.graph->captured().end());
  }
  return names;
}

// With how many of its inputs a node works on the device: none where no type among them is the device's.
std::size_t inputs_on_device(const OpRow& op, std::span<const Tensor> inputs, Device device) {
  if (device.is_cpu() || op.on_device <= 0) return 0;
  const std::vector<DType>& dtypes = backend(device).capabilities().dtypes;
  const auto first = inputs.first(std::min(inputs.size(), static_cast<std::size_t>(op.on_device)));
  const bool fits = std::ranges::any_of(first, [&](const Tensor& input) {
    return input.defined() && std::ranges::find(dtypes, input.dtype()) != dtypes.end();
  });
  return fits ? first.size() : 0;
}

}  // namespace

namespace {

// Its errors name the node.
std::vector<Tensor> run_node(const OpRow& op, const OpCall& call) {
  try {
    return op.run(call);
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
    const OpRow* op = find_op(node.op);
    if (op == nullptr) continue;
    for (std::size_t i = 0; i < node.inputs.size() && static_cast<int>(i) < op->on_device; ++i) {
      const auto stored = initializers_.find(node.inputs[i]);
      if (stored != initializers_.end() && inputs_on_device(*op, {&stored->second, 1}, device_) > 0)
        stored->second = to(stored->second, device_);
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
    if (!node.domain.empty() || find_op(node.op) == nullptr) names.insert(full_name(node));
    for (const auto& [name, attribute] : node.attributes) {
      if (attribute.graph != nullptr) names.merge(attribute.graph->unsupported());
    }
  }
  return names;
}

void Graph::check_inputs(const std::map<std::string, Tensor>& inputs) const {
  std::vector<std::string> names;
  for (const ValueInfo& input : inputs_) {
    names.push_back(input.name);
    const auto found = inputs.find(input.name);
    INGOT_CHECK(found != inputs.end(),
                InvalidConfig(input.name, fmt::format("is an input of {} and is not given", path_)));
    const Tensor& given = found->second;
    INGOT_CHECK(input.dtype && given.dtype() == *input.dtype,
                InvalidConfig(input.name, fmt::format("takes {}, but {} is given", input.stored_as,
                                                      name(given.dtype()))));
    if (input.shape.empty() && !input.axes.empty()) continue;
    bool fits = static_cast<std::size_t>(given.rank()) == input.shape.size();
    for (int i = 0; fits && i < given.rank(); ++i) {
      const std::int64_t size = input.shape[static_cast<std::size_t>(i)];
      fits = size == -1 || size == given.dim(i);
    }
    INGOT_CHECK(fits,
                ShapeMismatch(input.name, input.shape, given.shape().to_vector(), "-1 stands for any size"));
  }
  for (const auto& [name, tensor] : inputs) {
    INGOT_CHECK(
        std::ranges::find(names, name) != names.end(),
        InvalidConfig(name, fmt::format("is no input of {}; it has: {}", path_, fmt::join(names, ", "))));
  }
}

std::vector<Tensor> Graph::run(const std::map<std::string, Tensor>& inputs,
                               std::int64_t max_iterations) const {
  const std::set<std::string> missing = unsupported();
  INGOT_CHECK(missing.empty(),
              NotImplemented(fmt::format("{}: operators {}", path_, fmt::join(missing, ", "))));
  check_inputs(inputs);
  const NoGrad no_grad;
  const auto nothing_around = [](const std::string&) { return Tensor(); };
  RunBudget budget{max_iterations};
  std::vector<Tensor> results = run_nodes(inputs, nothing_around, budget);
  for (Tensor& result : results) result = to(result, kCpu);
  return results;
}

std::vector<Tensor> Graph::run_inside(std::span<const Tensor> inputs, Scope around, RunBudget& budget) const {
  std::map<std::string, Tensor> values;
  for (std::size_t i = 0; i < inputs_.size(); ++i) values[inputs_[i].name] = inputs[i];
  return run_nodes(std::move(values), around, budget);
}

std::vector<Tensor> Graph::run_nodes(std::map<std::string, Tensor> values, Scope around,
                                     RunBudget& budget) const {
  const auto value = [&](const std::string& name) {
    if (name.empty()) return Tensor();
    if (const auto made = values.find(name); made != values.end()) return made->second;
    const auto stored = initializers_.find(name);
    return stored != initializers_.end() ? stored->second : around(name);
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const OpRow& op = *find_op(node.op);
    std::vector<Tensor> arguments;
    for (const std::string& name : node.inputs) arguments.push_back(value(name));
    const std::size_t there = inputs_on_device(op, arguments, device_);
    for (std::size_t k = 0; k < arguments.size() && op.on_device != kOnlyShapes; ++k) {
      const Device place = k < there ? device_ : kCpu;
      if (!arguments[k].defined() || arguments[k].device() == place) continue;
      arguments[k] = to(arguments[k], place);
      // Whoever reads it next most likely wants it there, too.
      if (const auto made = values.find(node.inputs[k]); made != values.end()) made->second = arguments[k];
    }
    const OpCall call(node, arguments, opset_, value, budget);
    const std::vector<Tensor> results = run_node(op, call);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].empty()) continue;
      if (k >= results.size()) call.refuse(fmt::format("output {}", k));
      values[node.outputs[k]] = results[k];
    }
    for (const std::string& name : last_uses_[i]) values.erase(name);
  }
  std::vector<Tensor> results;
  for (const ValueInfo& output : outputs_) results.push_back(value(output.name));
  return results;
}

}  // namespace ingot::onnx
