#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/core/backend.h"
#include "ingot/graph/graph.h"
#include "ingot/kernels/watched_launch.h"

namespace ingot {
namespace {

constexpr std::string_view kBackwardSuffix = " backward";

GraphTensor described(std::string name, const View& view) {
  return {.name = std::move(name),
          .shape = {view.shape.begin(), view.shape.begin() + view.rank},
          .dtype = view.dtype};
}

// Others make indices, which the host and other kernels rely on.
bool makes_only_floats(const kernels::LaunchWork& work) {
  bool floats = false, others = false;
  for (const kernels::LaunchWork::Operand& operand : work.operands())
    if (kernels::is_result(operand.name)) (is_floating_point(operand.view->dtype) ? floats : others) = true;
  return floats && !others;
}

// The node of a module in the tree, made where it is missing.
GraphModule& module_at(GraphModule& root, std::string_view full_name) {
  GraphModule* at = &root;
  std::size_t begin = 0;
  while (begin < full_name.size()) {
    std::size_t end = full_name.find('.', begin);
    if (end == std::string_view::npos) end = full_name.size();
    const std::string_view name = full_name.substr(begin, end - begin);
    auto found = std::ranges::find(at->modules, name, &GraphModule::name);
    if (found == at->modules.end()) {
      at->modules.push_back({.name = std::string(name), .full_name = std::string(full_name.substr(0, end))});
      found = at->modules.end() - 1;
    }
    at = &*found;
    begin = end + 1;
  }
  return *at;
}

// Which op wrote each piece of memory last: memory is used again, so that is who made what is read there.
class Writers {
 public:
  explicit Writers(ModuleRef model) {
    for_each_parameter(model, [&](const std::string&, Parameter& parameter) {
      std::uintptr_t& end = parameters_[address(parameter.value.view())];
      end = std::max(end, address(parameter.value.view()) + extent(parameter.value.view()));
    });
  }
  void wrote(const View& view, std::size_t op) {
    if (is_parameter(view)) return;
    const std::uintptr_t begin = address(view), end = begin + extent(view);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_[begin] = {end, op};
  }
  std::optional<std::size_t> of(const View& view) const {
    auto piece = pieces_.upper_bound(address(view));
    if (piece == pieces_.begin()) return std::nullopt;
    --piece;
    return address(view) < piece->second.end ? std::optional(piece->second.op) : std::nullopt;
  }

 private:
  struct Piece {
    std::uintptr_t end;
    std::size_t op;
  };
  static std::uintptr_t address(const View& view) { return reinterpret_cast<std::uintptr_t>(view.data); }
  static std::uintptr_t extent(const View& view) {
    std::int64_t last = 0;
    for (int axis = 0; axis < view.rank; ++axis) last += (view.dim(axis) - 1) * view.stride(axis);
    return static_cast<std::uintptr_t>(std::max<std::int64_t>(last + 1, 1)) * byte_size(view.dtype);
  }
  // Parameters may share their memory (ShapeSource), and no op made them.
  bool is_parameter(const View& view) const {
    auto after = parameters_.upper_bound(address(view));
    return after != parameters_.begin() && address(view) < std::prev(after)->second;
  }
  std::map<std::uintptr_t, Piece> pieces_;
  std::map<std::uintptr_t, std::uintptr_t> parameters_;  // begin and end
};

std::size_t memory_besides_parameters() {
  const MemoryTracker& memory = backend(kCpu).memory();
  return memory.allocated() - memory.allocated(MemoryTag::parameter) - memory.allocated(MemoryTag::gradient);
}

class Recorder final : public kernels::LaunchObserver {
 public:
  explicit Recorder(ModuleRef model) : writers_(model) {}
  struct Recorded {
    std::string module;
    GraphOp op;
    std::int64_t begin;  // of its scope
  };

  bool launching(const kernels::Launch& launch) override {
    const std::size_t memory = memory_besides_parameters();
    most_memory_ = std::max(most_memory_, memory > memory_before_ ? memory - memory_before_ : 0);
    GraphOp& op = op_of(launch);
    leave_to_parts(op);
    GraphKernel kernel{.name = launch.kernel,
                       .implementation = launch.implementation,
                       .operands = {},
                       .flops = launch.work.flops,
                       .bytes = launch.work.bytes()};
    for (const kernels::LaunchWork::Operand& operand : launch.work.operands()) {
      kernel.operands.push_back(described(operand.name, *operand.view));
      if (kernels::is_result(operand.name)) continue;
      const std::optional<std::size_t> writer = writers_.of(*operand.view);
      if (writer.has_value() && *writer != op.number &&
          std::ranges::find(op.inputs, *writer) == op.inputs.end())
        op.inputs.push_back(*writer);
    }
    for (const kernels::LaunchWork::Operand& operand : launch.work.operands())
      if (kernels::is_result(operand.name)) writers_.wrote(*operand.view, op.number);
    op.kernels.push_back(std::move(kernel));
    return !makes_only_floats(launch.work);
  }

  std::vector<Recorded>& ops() { return ops_; }
  std::size_t most_memory() const { return most_memory_; }

 private:
  // A kernel that launches others counts through them.
  static void leave_to_parts(GraphOp& op) {
    const Scope* scope = Scope::innermost();
    if (scope == nullptr || scope->kind() != ScopeKind::kernel || op.kernels.empty()) return;
    const auto around =
        std::ranges::find(op.kernels.rbegin(), op.kernels.rend(), scope->name(), &GraphKernel::name);
    if (around != op.kernels.rend()) around->flops = around->bytes = 0;
  }
  // The one whose scope is innermost; a kernel outside of any stands for an op itself.
  GraphOp& op_of(const kernels::Launch& launch) {
    const Scope* scope = Scope::innermost();
    while (scope != nullptr && scope->kind() != ScopeKind::op) scope = scope->outer();
    if (scope != nullptr && !ops_.empty() && ops_.back().begin == scope->begin()) return ops_.back().op;
    std::string_view name = scope != nullptr ? scope->name() : launch.kernel;
    bool backward = false;
    for (const Scope* around = Scope::innermost(); around != nullptr; around = around->outer())
      backward = backward || around->name() == "backward";
    if (name.ends_with(kBackwardSuffix)) name.remove_suffix(kBackwardSuffix.size());
    ops_.push_back({.module = std::string(current_module()),
                    .op = {.name = std::string(name),
                           .backward = backward,
                           .kernels = {},
                           .inputs = {},
                           .number = ops_.size()},
                    .begin = scope != nullptr ? scope->begin() : 0});
    return ops_.back().op;
  }

  std::vector<Recorded> ops_;
  Writers writers_;
  std::size_t memory_before_ = memory_besides_parameters(), most_memory_ = 0;
};

void sort_by_first_op(GraphModule& module) {
  for (GraphModule& inside : module.modules) sort_by_first_op(inside);
  std::ranges::stable_sort(module.modules, {}, &GraphModule::first_op);
}

void add_parameters(GraphModule& root, ModuleRef model) {
  for_each_parameter(model, [&](const std::string& name, Parameter& parameter) {
    const std::size_t dot = name.rfind('.');
    const bool own = dot == std::string::npos;
    GraphModule& module = module_at(root, own ? std::string_view{} : std::string_view(name).substr(0, dot));
    module.parameters.push_back(described(own ? name : name.substr(dot + 1), parameter.value.view()));
  });
}

}  // namespace

Tensor ShapeSource::provide(const ParamRequest& request) {
  const std::size_t bytes = std::max<std::size_t>(1, estimate_tensor_bytes(request.shape, dtype_));
  if (memory_ == nullptr || memory_->bytes() < bytes) memory_ = std::make_shared<Storage>(bytes, kCpu);
  // Each has a storage of its own: what changes one in place (a running mean) changes no other.
  return Tensor::wrap(memory_->data(), request.shape, dtype_, kCpu, [memory = memory_] {});
}

double GraphOp::flops() const {
  double sum = 0;
  for (const GraphKernel& kernel : kernels) sum += kernel.flops;
  return sum;
}
double GraphOp::bytes() const {
  double sum = 0;
  for (const GraphKernel& kernel : kernels) sum += kernel.bytes;
  return sum;
}
std::string GraphOp::result() const {
  for (auto kernel = kernels.rbegin(); kernel != kernels.rend(); ++kernel)
    for (const GraphTensor& operand : kernel->operands)
      if (kernels::is_result(operand.name.c_str())) return operand.type();
  return "";
}

std::string GraphTensor::type() const {
  return fmt::format("{}[{}]", ingot::name(dtype), fmt::join(shape, ","));
}
std::int64_t GraphTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t GraphModule::parameter_count() const {
  std::int64_t sum = 0;
  for (const GraphTensor& parameter : parameters) sum += parameter.elements();
  for (const GraphModule& inside : modules) sum += inside.parameter_count();
  return sum;
}
double GraphModule::flops(bool backward) const {
  double sum = 0;
  for (const GraphOp& op : ops) sum += op.backward == backward ? op.flops() : 0;
  for (const GraphModule& inside : modules) sum += inside.flops(backward);
  return sum;
}
double GraphModule::bytes() const {
  double sum = 0;
  for (const GraphOp& op : ops) sum += op.bytes();
  for (const GraphModule& inside : modules) sum += inside.bytes();
  return sum;
}
// Modules without any come last.
std::size_t GraphModule::first_op() const {
  std::size_t first = ops.empty() ? std::numeric_limits<std::size_t>::max() : ops.front().number;
  for (const GraphModule& inside : modules) first = std::min(first, inside.first_op());
  return first;
}

ModelGraph record_graph(ModuleRef model, const std::function<void()>& run) {
  ModelGraph graph;
  Recorder recorder(model);
  run();
  graph.activation_bytes = recorder.most_memory();
  for (Recorder::Recorded& recorded : recorder.ops())
    module_at(graph.model, recorded.module).ops.push_back(std::move(recorded.op));
  add_parameters(graph.model, model);
  sort_by_first_op(graph.model);
  return graph;
}

}  // namespace ingot
