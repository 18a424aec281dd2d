#include "ingot/models/adapter/peft_experts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/nn/expert_linear.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::string_view kBaseLayer = ".base_layer";

using Modules = std::map<std::string, ModuleTensors>;

[[noreturn]] void refuse(const std::string& file, const std::string& module, const std::string& what) {
  throw FormatError(file, 0, module, what);
}

const ModuleTensors& pair_in(const std::string& file, const Modules& modules, const std::string& module) {
  const auto found = modules.find(module);
  if (found == modules.end()) refuse(file, module, "is missing, and other experts of its layer are there");
  const ModuleTensors& tensors = found->second;
  if (!tensors.a.defined() || !tensors.b.defined() || tensors.a.rank() != 2 || tensors.b.rank() != 2)
    refuse(file, module, "is of experts; a matrix lora_A and a matrix lora_B were expected");
  if (tensors.magnitude.defined() || tensors.whole.defined())
    refuse(file, module, "is of experts, which have neither DoRA nor modules_to_save");
  return tensors;
}

// A module for each expert.
std::optional<ExpertStacks> from_modules(const std::string& file, const Modules& modules,
                                         const AdaptedExperts& at, const LoraConfig& config,
                                         std::set<std::string>& used) {
  if (!at.is_modules()) return std::nullopt;
  bool any = false;
  for (std::int64_t e = 0; e < at.count(); ++e) any = any || modules.contains(at.module(e));
  if (!any) return std::nullopt;
  std::vector<Tensor> a, b;
  for (std::int64_t e = 0; e < at.count(); ++e) {
    const std::string module = at.module(e);
    const ModuleTensors& tensors = pair_in(file, modules, module);
    if (e > 0 && (tensors.a.shape() != a.front().shape() || tensors.b.shape() != b.front().shape()))
      refuse(file, module,
             fmt::format("has lora_A {} and lora_B {}, and expert 0 {} and {}", to_string(tensors.a.shape()),
                         to_string(tensors.b.shape()), to_string(a.front().shape()),
                         to_string(b.front().shape())));
    a.push_back(tensors.a);
    b.push_back(tensors.b);
    used.insert(module);
  }
  return ExpertStacks{&at, stack(a), stack(b), config.scale_of(at.module(0), a.front().dim(0))};
}

// The rows of a fused stack's B [experts, out, rank] that are this layer's.
Tensor rows_of_layer(const AdaptedExperts& at, const Tensor& b) {
  const std::int64_t out = at.whole_shape()[1];
  const bool halves = at.parameter() == "gate_up_proj" && at.is_gated;
  if (b.dim(1) != (halves ? 2 * out : out)) return {};
  if (!at.is_modules()) {
    WeightRule rows = at.rule;
    rows.transposed = false;
    return import_tensor(rows, [&b](const std::string&) { return b; });
  }
  return halves ? narrow(b, 1, at.ours.ends_with(".up_proj") ? out : 0, out) : b;
}

// Where a file has the wrapper of a layer's parameter: of two parameters that are wrapped, gate_up_proj is
// inside.
std::string wrapper_of(const Modules& modules, const AdaptedExperts& at, const std::string& container) {
  const std::string inner = container + std::string(kBaseLayer);
  const bool two = modules.contains(inner);
  return two && at.parameter() == "gate_up_proj" ? inner : container;
}

std::optional<ExpertStacks> from_parameter(const std::string& file, const Modules& modules,
                                           const AdaptedExperts& at, const LoraConfig& config,
                                           std::set<std::string>& used) {
  for (const std::string& container : {at.container(), at.our_container()}) {
    const std::string target = container + "." + at.parameter(), module = wrapper_of(modules, at, container);
    if (!config.targets_parameter(target) || !modules.contains(module)) continue;
    const ModuleTensors& tensors = pair_in(file, modules, module);
    const std::int64_t experts = at.count(), rows = tensors.a.dim(0);
    if (rows == 0 || rows % experts != 0 || tensors.b.dim(1) != rows)
      refuse(file, module,
             fmt::format(
                 "has lora_A {} and lora_B {}; [rank · {} experts, in] and [out, rank · {}] were expected",
                 to_string(tensors.a.shape()), to_string(tensors.b.shape()), experts, experts));
    const std::int64_t rank = rows / experts;
    used.insert(module);
    const Tensor b = permute(reshape(contiguous(tensors.b), {tensors.b.dim(0), rank, experts}), {2, 0, 1});
    return ExpertStacks{&at, reshape(contiguous(tensors.a), {experts, rank, tensors.a.dim(1)}),
                        rows_of_layer(at, contiguous(b)), config.scale_of(target, rank)};
  }
  return std::nullopt;
}

// Of A the columns that this rank has of each expert's matrix, of B the rows.
Tensor own_part(const AdaptedExperts& at, const Tensor& x, int axis) {
  if (!at.part.has_value() || at.part->axis != axis) return x;
  return narrow(x, axis, at.part->begin, at.part->end - at.part->begin);
}

void check_shapes(const std::string& file, const ExpertStacks& stacks) {
  const AdaptedExperts& at = *stacks.at;
  const Shape shape = at.whole_shape();
  const bool fits = stacks.a.defined() && stacks.b.defined() && stacks.a.dim(0) == shape[0] &&
                    stacks.a.dim(2) == shape[2] && stacks.b.dim(1) == shape[1];
  if (fits) return;
  throw Error(fmt::format(
      "{}: the adapter of '{}' has lora_A {} and lora_B {}, and the model's stack is {}; is it of "
      "another base model?",
      file, at.ours, to_string(stacks.a.shape()),
      stacks.b.defined() ? to_string(stacks.b.shape()) : "of other rows", to_string(shape)));
}

}  // namespace

std::set<std::string> modules_of_experts(std::span<const AdaptedExperts> experts) {
  std::set<std::string> names;
  for (const AdaptedExperts& at : experts) {
    for (std::int64_t e = 0; at.is_modules() && e < at.count(); ++e) names.insert(at.module(e));
    for (const std::string& container : {at.container(), at.our_container()})
      names.insert({container, container + std::string(kBaseLayer)});
  }
  return names;
}

Tensor value_of(const Parameter& parameter, const std::map<std::string, Tensor>& values) {
  const auto found = values.find(parameter.name);
  return to(found == values.end() ? parameter.value.detach() : found->second, kCpu);
}

std::vector<ExpertStacks> take_expert_stacks(const std::string& file, Modules& modules,
                                             std::span<const AdaptedExperts> experts,
                                             const LoraConfig& config) {
  std::vector<ExpertStacks> all;
  std::set<std::string> used;
  for (const AdaptedExperts& at : experts) {
    std::optional<ExpertStacks> stacks = from_modules(file, modules, at, config, used);
    if (!stacks) stacks = from_parameter(file, modules, at, config, used);
    if (!stacks) continue;
    check_shapes(file, *stacks);
    all.push_back(*std::move(stacks));
  }
  for (const std::string& module : used) modules.erase(module);
  return all;
}

std::unique_ptr<LowRankAdapter> expert_adapter(const ExpertStacks& stacks, const std::string& name,
                                               float weight) {
  const AdaptedExperts& at = *stacks.at;
  const Device device = at.experts->device();
  const auto moved = [device](const Tensor& x) { return clone(contiguous(to(to(x, DType::f32), device))); };
  GivenMatrices given(moved(own_part(at, stacks.a, 2)), moved(own_part(at, stacks.b, 1)));
  auto adapter = std::make_unique<LowRankAdapter>(ParamSource(given).scope(at.ours), name,
                                                  at.experts->shape(), stacks.a.dim(1), stacks.scale);
  adapter->weight = weight;
  return adapter;
}

std::vector<ExpertStacks> expert_stacks(std::span<const AdaptedExperts> experts, const std::string& name,
                                        const std::map<std::string, Tensor>& values) {
  std::vector<ExpertStacks> all;
  for (const AdaptedExperts& at : experts) {
    const LowRankAdapter* adapter = find_adapter(at.experts->adapters, name);
    if (adapter == nullptr) continue;
    all.push_back({.at = &at,
                   .a = to(value_of(adapter->a, values), DType::f32),
                   .b = to(value_of(adapter->b, values), DType::f32),
                   .scale = adapter->scale * adapter->weight});
  }
  return all;
}

namespace {

double alpha_of(const LoraConfig& config, std::int64_t rank, float scale) {
  const auto of = static_cast<double>(rank);
  return static_cast<double>(scale) * (config.use_rslora ? std::sqrt(of) : of);
}

// Rules of ranks and scales for what is called `module`, by `pattern`, where the common ones give others.
void put_patterns(LoraConfig& config, const std::string& module, const std::string& pattern,
                  std::int64_t rank, float scale) {
  if (config.rank_of(module) != rank) config.rank_pattern[pattern] = rank;
  if (config.scale_of(module, rank) != scale) config.alpha_pattern[pattern] = alpha_of(config, rank, scale);
}

// "model.layers.0.mlp.experts.3.gate_proj" with any number for the 3, as PEFT's patterns have it.
std::string any_expert(const AdaptedExperts& at) {
  const std::string first = at.module(0);
  const std::size_t leaf = at.container().size() + 1;
  return first.substr(0, leaf) + R"(\d+)" + first.substr(first.find('.', leaf));
}

void put_modules(const ExpertStacks& part, LoraConfig& config, Modules& modules) {
  const AdaptedExperts& at = *part.at;
  for (std::int64_t e = 0; e < part.count(); ++e) {
    ModuleTensors& one = modules[at.module(e)];
    one.a = clone(select(part.a, 0, e));
    one.b = clone(select(part.b, 0, e));
  }
  put_patterns(config, at.pattern_name(), any_expert(at), part.a.dim(1), part.scale);
}

// The layers that are fused in one parameter, as one adapter of the sum of their ranks. Parts without an
// adapter get zeros, and where parts have other scales than the first that is not 0, b makes up for it.
void put_parameter(const WeightMap& map, std::span<const AdaptedExperts> experts,
                   const std::vector<ExpertStacks>& fused, bool inside, LoraConfig& config,
                   Modules& modules) {
  const AdaptedExperts& at = *fused.front().at;
  const std::int64_t count = fused.front().count();
  std::int64_t rank = 0, first = 0;
  float scale = 0;
  for (const ExpertStacks& part : fused) {
    rank += part.a.dim(1);
    if (scale == 0) scale = part.scale;
  }
  std::vector<Tensor> as;
  std::map<std::string, Tensor> bs;
  for (const ExpertStacks& part : fused) {
    const Tensor block = Tensor::zeros({count, part.b.dim(1), rank});
    const bool same = part.scale == scale;
    copy_(narrow(block, 2, first, part.b.dim(2)),
          same ? part.b : part.b * (static_cast<double>(part.scale) / static_cast<double>(scale)));
    first += part.b.dim(2);
    as.push_back(part.a);
    bs[part.at->ours] = block;
  }
  for (const AdaptedExperts& part : experts)
    if (part.stacked_name() == at.stacked_name() && !bs.contains(part.ours))
      bs[part.ours] = Tensor::zeros({count, part.whole_shape()[1], rank});
  Tensor b = export_tensors(map, bs).begin()->second;
  if (at.rule.transposed) b = transpose(b, 1, 2);
  const Tensor a = as.size() == 1 ? as.front() : concat(as, 1);
  ModuleTensors& one = modules[at.container() + (inside ? std::string(kBaseLayer) : "")];
  one.a = clone(reshape(contiguous(a), {count * rank, a.dim(2)}));
  one.b = clone(reshape(contiguous(permute(b, {1, 2, 0})), {b.dim(1), rank * count}));
  config.target_parameters.push_back(at.stacked_name());
  put_patterns(config, at.pattern_name(), at.stacked_name(), rank, scale);
}

// Names of what every layer of experts has, or else of each.
void target_modules(std::span<const AdaptedExperts> experts, const std::vector<ExpertStacks>& parts,
                    LoraConfig& config) {
  std::map<std::string, std::vector<const ExpertStacks*>> leaves;  // "gate_proj": layers with an adapter
  std::map<std::string, std::size_t> all;
  const auto leaf = [](const AdaptedExperts& at) { return at.ours.substr(at.ours.rfind('.') + 1); };
  for (const AdaptedExperts& at : experts) ++all[leaf(at)];
  for (const ExpertStacks& part : parts) leaves[leaf(*part.at)].push_back(&part);
  for (const auto& [name, layers] : leaves) {
    for (const ExpertStacks* part : layers) {
      const bool everywhere = layers.size() == all[name];
      if (everywhere && part != layers.front()) break;
      const std::size_t skipped = everywhere ? part->at->container().rfind('.') + 1 : 0;
      for (std::int64_t e = 0; e < part->count(); ++e)
        config.target_modules.push_back(part->at->module(e).substr(skipped));
    }
  }
}

}  // namespace

void put_expert_stacks(const WeightMap& map, std::span<const AdaptedExperts> experts,
                       const std::vector<ExpertStacks>& stacks, LoraConfig& config, Modules& modules) {
  if (stacks.empty()) return;
  // PEFT refuses to open stacks with dropout, which is of training alone.
  config.lora_dropout = 0;
  std::vector<ExpertStacks> of_modules;
  std::map<std::string, std::map<std::string, std::vector<ExpertStacks>>> containers;
  for (const ExpertStacks& part : stacks) {
    if (part.at->is_modules()) {
      put_modules(part, config, modules);
      of_modules.push_back(part);
    } else {
      containers[part.at->container()][part.at->parameter()].push_back(part);
    }
  }
  target_modules(experts, of_modules, config);
  for (auto& [container, parameters] : containers) {
    for (auto& [parameter, fused] : parameters) {
      std::ranges::sort(fused, {}, [](const ExpertStacks& part) { return part.at->rule.first; });
      const bool inside = parameters.size() == 2 && parameter == "gate_up_proj";
      put_parameter(map, experts, fused, inside, config, modules);
    }
  }
}

}  // namespace ingot
