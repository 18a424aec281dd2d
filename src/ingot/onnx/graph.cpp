#include "ingot/onnx/graph.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/scope.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/onnx/node_error.h"
#include "ingot/onnx/program.h"
#include "ingot/ops/cast.h"

namespace ingot::onnx {
namespace {

// With how many of its inputs a node works on the device: none where no type among them is the device's.
std::size_t inputs_on_device(const OpRow& op, std::span<const Value> inputs, Device device) {
  if (has_host_memory(device) || op.on_device <= 0) return 0;
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

// Operators that move, choose or compare strings for equality, or know what they are. To all others the
// numbers that stand for strings would be numbers. In order.
constexpr std::array<std::string_view, 56> kOpsOfStrings{"",
                                                         "Cast",
                                                         "CastLike",
                                                         "CenterCropPad",
                                                         "Compress",
                                                         "Concat",
                                                         "ConcatFromSequence",
                                                         "DepthToSpace",
                                                         "Equal",
                                                         "Expand",
                                                         "Flatten",
                                                         "Gather",
                                                         "GatherElements",
                                                         "GatherND",
                                                         "Identity",
                                                         "If",
                                                         "Loop",
                                                         "OneHot",
                                                         "Optional",
                                                         "OptionalGetElement",
                                                         "OptionalHasElement",
                                                         "Pad",
                                                         "RegexFullMatch",
                                                         "Reshape",
                                                         "ReverseSequence",
                                                         "Scan",
                                                         "Scatter",
                                                         "ScatterElements",
                                                         "ScatterND",
                                                         "SequenceAt",
                                                         "SequenceConstruct",
                                                         "SequenceErase",
                                                         "SequenceInsert",
                                                         "SequenceLength",
                                                         "SequenceMap",
                                                         "Shape",
                                                         "Size",
                                                         "Slice",
                                                         "SpaceToDepth",
                                                         "Split",
                                                         "SplitToSequence",
                                                         "Squeeze",
                                                         "StringConcat",
                                                         "StringNormalizer",
                                                         "StringSplit",
                                                         "TfIdfVectorizer",
                                                         "Tile",
                                                         "Transpose",
                                                         "Trilu",
                                                         "Unique",
                                                         "Unsqueeze",
                                                         "Where",
                                                         "ai.onnx.ml.ArrayFeatureExtractor",
                                                         "ai.onnx.ml.LabelEncoder",
                                                         "com.microsoft.GatherND",
                                                         "com.microsoft.Trilu"};
static_assert(std::ranges::is_sorted(kOpsOfStrings));

void check_strings(const OpRow& op, const OpCall& call) {
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.has(i) && call.is_of(i, ElementType::text) &&
        !std::ranges::binary_search(kOpsOfStrings, op.name))
      call.refuse(fmt::format("input {} of strings", call.input_label(i)));
  }
}

// Only operators that know of them see element types that Ingot has no dtype for.
void check_types(const OpRow& op, const OpCall& call) {
  check_strings(op, call);
  if (op.typed != kPlainTypes) return;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.has(i) && !call.is_of(i, ElementType::plain))
      call.refuse(fmt::format("input {} of element type {}", call.input_label(i), name_of(call.type(i))));
  }
}

}  // namespace

Values run_node(const OpRow& op, const OpCall& call) {
  return naming_errors(call.node(), call.inputs(), [&] {
    check_types(op, call);
    Values results = op.run(call);
    if (op.typed >= 0 && call.has(static_cast<std::size_t>(op.typed)) && !results.empty())
      results[0].type = call.value_in(static_cast<std::size_t>(op.typed)).type;
    return results;
  });
}

namespace {

/// A value with every element in memory, on the host.
Value settled(Value value) {
  if (value.tensor.defined()) value.tensor = contiguous(to(value.tensor, kCpu));
  if (!value.is_sequence()) return value;
  Values items;
  items.reserve(value.items->size());
  for (const Value& item : *value.items) {
    INGOT_CHECK(!item.is_sequence(), NotImplemented("an output that is a sequence of sequences"));
    items.push_back(settled(item));
  }
  value.items = std::make_shared<const Values>(std::move(items));
  return value;
}

}  // namespace

Value Graph::output_value(const ValueInfo& output, const Value& value) const {
  const auto maker = std::ranges::find_if(nodes_, [&](const Node& node) {
    return std::ranges::find(node.outputs, output.name) != node.outputs.end();
  });
  if (maker == nodes_.end()) return settled(value);
  return naming_errors(*maker, {}, [&] { return settled(value); });
}

// Weights go to the device once, if it has operators for them.
void Graph::position_initializers() {
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

std::set<std::string> Graph::unsupported() const {
  std::set<std::string> names;
  for (const Node& node : nodes_) {
    if (find_op(node) == nullptr) names.insert(node.full_name());
    if (node.function != nullptr) names.merge(node.function->unsupported());
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

std::map<std::string, Value> Graph::typed_inputs(std::map<std::string, Value> given) const {
  std::vector<std::string> names;
  for (const ValueInfo& input : inputs_) {
    names.push_back(input.name);
    const auto found = given.find(input.name);
    if (found == given.end()) continue;
    Value& value = found->second;
    const bool carried = value.type == ElementType::plain && input.type && value.tensor.defined() &&
                         input.type->element != ElementType::text &&
                         input.type->dtype == value.tensor.dtype();
    if (carried) value.type = input.type->element;  // in the dtype that holds what has none of its own
    check_input(input, value);
  }
  for (const auto& [name, value] : given) {
    INGOT_CHECK(
        std::ranges::find(names, name) != names.end(),
        InvalidConfig(name, fmt::format("is not an input of {}; it has: {}", path_, fmt::join(names, ", "))));
  }
  return given;
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
  for (const ValueInfo& input : inputs_) {
    INGOT_CHECK(inputs.contains(input.name),
                InvalidConfig(input.name, fmt::format("is an input of {} and is not given", path_)));
  }
  std::map<std::string, Value> typed = typed_inputs(inputs);
  const NoGrad no_grad;
  const auto nothing_around = [](const std::string&) { return Value(); };
  RunState state{.iterations = max_iterations, .texts = std::move(texts)};
  Values results = run_nodes(std::move(typed), nothing_around, state);
  for (std::size_t i = 0; i < results.size(); ++i) results[i] = output_value(outputs_[i], results[i]);
  texts = std::move(state.texts);
  return results;
}

Values Graph::run_inside(std::span<const Value> inputs, Scope around, RunState& state) const {
  std::map<std::string, Value> values;
  for (std::size_t i = 0; i < inputs_.size(); ++i) values[inputs_[i].name] = inputs[i];
  return run_nodes(std::move(values), around, state);
}

Values Graph::run_nodes(std::map<std::string, Value> values, Scope around, RunState& state) const {
  const Program& program = this->program();
  const auto value = [&](const std::string& name) {
    if (name.empty()) return Value();
    if (const auto made = values.find(name); made != values.end()) return made->second;
    if (const auto made = program.constants.find(name); made != program.constants.end()) return made->second;
    const auto stored = initializers_.find(name);
    return stored != initializers_.end() ? stored->second : around(name);
  };
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    const OpRow* known = find_op(node);
    INGOT_CHECK(known != nullptr, NotImplemented("operator " + node.full_name()));
    const OpRow& op = *known;
    Values arguments;
    for (const std::string& name : node.inputs) arguments.push_back(value(name));
    const std::size_t there = inputs_on_device(op, arguments, device_);
    for (std::size_t k = 0; k < arguments.size() && op.on_device != kOnlyShapes; ++k) {
      const Device position = k < there ? device_ : kCpu;
      Tensor& tensor = arguments[k].tensor;
      if (!tensor.defined() || tensor.device() == position) continue;
      tensor = to(tensor, position);
      // Whoever reads it next most likely wants it there, too.
      if (const auto made = values.find(node.inputs[k]); made != values.end()) made->second = arguments[k];
    }
    const ingot::Scope module(ScopeKind::module, node.name), scope(ScopeKind::op, node.op);
    const OpCall call(node, arguments, opset_, value, state);
    const Values results = run_node(op, call);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].empty()) continue;
      if (k >= results.size()) call.refuse(fmt::format("output {}", k));
      values[node.outputs[k]] = results[k];
    }
    for (const std::string& name : program.last_uses[i]) values.erase(name);
  }
  Values results;
  results.reserve(outputs_.size());
  for (const ValueInfo& output : outputs_) results.push_back(value(output.name));
  return results;
}

}  // namespace ingot::onnx
