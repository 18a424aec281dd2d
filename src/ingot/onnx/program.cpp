#include "ingot/onnx/program.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "ingot/base/error.h"
#include "ingot/core/host_memory.h"
#include "ingot/onnx/graph.h"

namespace ingot::onnx {

Draft::Draft(std::vector<Node> nodes_, const std::map<std::string, Value>& initializers,
             std::set<std::string> outputs, int opset)
    : nodes(std::move(nodes_)),
      initializers_(initializers),
      outputs_(outputs),
      kept_(std::move(outputs)),
      opset_(opset) {
  for (const auto& [name, value] : initializers) names_.insert(name);
  for (const Node& node : nodes) {
    names_.insert(node.inputs.begin(), node.inputs.end());
    names_.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const Node& node : nodes) {  // graphs inside nodes look values up by their names
    for (const std::string& name : reads_of(node)) {
      if (std::ranges::find(node.inputs, name) == node.inputs.end()) kept_.insert(name);
    }
  }
}

const Value* Draft::constant(const std::string& name) const {
  if (name.empty()) return nullptr;
  if (const auto made = constants.find(name); made != constants.end()) return &made->second;
  const auto stored = initializers_.find(name);
  return stored == initializers_.end() ? nullptr : &stored->second;
}

const Tensor* Draft::constant(const std::string& name, DType dtype, int rank) const {
  const Value* value = constant(name);
  const bool fits = value != nullptr && value->type == ElementType::plain && value->tensor.defined() &&
                    value->tensor.dtype() == dtype && value->tensor.rank() == rank;
  return fits ? &value->tensor : nullptr;
}

Draft::Links Draft::links() const {
  Links links;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].inputs) links.readers[name].push_back(i);
    for (const std::string& name : nodes[i].outputs) links.maker[name] = i;
  }
  links.readers.erase("");
  links.maker.erase("");
  return links;
}

std::string Draft::unused_name(std::string name) {
  while (!names_.insert(name).second) name += '\'';
  return name;
}

const Node* Draft::sole_reader(const Links& links, const std::string& name) const {
  const auto readers = links.readers.find(name);
  if (is_kept(name) || readers == links.readers.end() || readers->second.size() != 1) return nullptr;
  return &nodes[readers->second.front()];
}

void Draft::sweep() {
  std::erase_if(nodes, [](const Node& node) { return node.op.empty(); });
}

bool is_usual(const Node& node) {
  return node.domain.empty() && node.function == nullptr && node.fused == nullptr && !node.inputs.empty() &&
         node.outputs.size() == 1 && !node.outputs[0].empty();
}

const std::string& input_of(const Node& node, std::size_t i) {
  static const std::string kNone;
  return i < node.inputs.size() ? node.inputs[i] : kNone;
}

namespace {

/// Operators that make no more of their inputs than these hold, or little.
constexpr std::array<std::string_view, 26> kFoldable{
    "Add",    "Cast",    "Concat", "Constant",  "DequantizeLinear",
    "Div",    "Flatten", "Gather", "Gemm",      "Identity",
    "MatMul", "Mul",     "Neg",    "Not",       "Pow",
    "Range",  "Reshape", "Shape",  "Slice",     "Split",
    "Sqrt",   "Squeeze", "Sub",    "Transpose", "Unsqueeze",
    "Where"};

bool is_foldable(const Draft& draft, const Node& node) {
  return node.domain.empty() && node.function == nullptr &&
         std::ranges::find(kFoldable, node.op) != kFoldable.end() &&
         std::ranges::all_of(node.inputs, [&](const std::string& name) {
           const Value* value = draft.constant(name);
           return name.empty() || (value != nullptr && value->tensor.defined());
         });
}

std::size_t bytes_of(const Values& values) {
  std::size_t total = 0;
  for (const Value& value : values) total += value.tensor.defined() ? value.tensor.nbytes() : 0;
  return total;
}

}  // namespace

void fold_constants(Draft& draft, const Texts& texts) {
  constexpr std::size_t kSmall = 65536;
  RunState state{.texts = texts};
  for (Node& node : draft.nodes) {
    if (!is_foldable(draft, node)) continue;
    Values inputs;
    inputs.reserve(node.inputs.size());
    for (const std::string& name : node.inputs)
      inputs.push_back(name.empty() ? Value() : *draft.constant(name));
    try {
      const Values results = run_node(*find_op(node), OpCall(
                                                          node, inputs, draft.opset(),
                                                          [](const std::string&) { return Value(); }, state));
      const bool small = node.op == "Constant" || bytes_of(results) <= 4 * bytes_of(inputs) + kSmall;
      const bool fits =
          small && results.size() >= node.outputs.size() && std::ranges::none_of(results, [](const Value& v) {
            return v.is_sequence() || v.type == ElementType::text;
          });
      if (!fits) continue;
      for (std::size_t k = 0; k < node.outputs.size(); ++k) draft.constants[node.outputs[k]] = results[k];
      node.op.clear();
    } catch (const Error&) {  // which the run then meets, too
      continue;
    }
  }
  draft.sweep();
}

namespace {

/// For each node the values that nothing behind it reads.
std::vector<std::vector<std::string>> last_uses_of(const Draft& draft) {
  std::map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < draft.nodes.size(); ++i) {
    for (const std::string& name : draft.nodes[i].outputs) last[name] = i;
    for (const std::string& name : reads_of(draft.nodes[i])) last[name] = i;
  }
  std::vector<std::vector<std::string>> uses(draft.nodes.size());
  for (const auto& [name, node] : last) {
    if (!draft.is_output(name)) uses[node].push_back(name);
  }
  return uses;
}

}  // namespace

struct Graph::LazyProgram {
  std::once_flag once;
  Program program;
};

const Program& Graph::program() const {
  std::call_once(program_->once, [&] {
    std::set<std::string> outputs;
    for (const ValueInfo& output : outputs_) outputs.insert(output.name);
    Draft draft(nodes_, initializers_, std::move(outputs), opset_);
    if (has_host_memory(device_)) {
      fuse_quantized(draft);
      fold_constants(draft, *texts_);
      fuse_attention(draft);
      fuse_bias(draft);
      prepack_weights(draft);
      lay_out_in_blocks(draft);
    }
    std::vector<std::vector<std::string>> last_uses = last_uses_of(draft);
    program_->program = {std::move(draft.nodes), std::move(draft.constants), std::move(last_uses)};
  });
  return program_->program;
}

void Graph::start_program() { program_ = std::make_shared<LazyProgram>(); }

}  // namespace ingot::onnx
