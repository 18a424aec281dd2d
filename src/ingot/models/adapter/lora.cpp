#include "ingot/models/adapter/lora.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/models/adapter/token_rows.h"
#include "ingot/nn/expert_linear.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/nn/merge_adapters.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

void refuse_no_target(const AdaptedParts& parts, const LoraConfig& config) {
  std::set<std::string> last;  // what a list of targets would name
  for (const AdaptedWeight& weight : parts.weights) last.insert(last_part(weight.module));
  for (const AdaptedExperts& at : parts.experts)
    if (at.is_modules()) last.insert(last_part(at.module(0)));
  if (config.target_modules.empty() && config.target_regex.empty()) {
    std::set<std::string> stacks;
    for (const AdaptedExperts& at : parts.experts)
      stacks.insert(last_part(at.container()) + "." + at.parameter());
    throw InvalidConfig(
        "target_parameters",
        fmt::format("'{}' matches no stack of experts of this model; there {}",
                    fmt::join(config.target_parameters, ", "),
                    stacks.empty() ? "is none" : fmt::format("are: {}", fmt::join(stacks, ", "))));
  }
  const std::string asked = config.target_regex.empty()
                                ? fmt::format("{}", fmt::join(config.target_modules, ", "))
                                : config.target_regex;
  throw InvalidConfig("target_modules", fmt::format("'{}' matches no module of this model; there are: {} (or "
                                                    "all-linear)",
                                                    asked, fmt::join(last, ", ")));
}

}  // namespace

std::vector<std::string> add_lora(AdaptedModel model, const LoraConfig& config, const ParamSource& source,
                                  const std::string& name) {
  config.validate();
  const AdaptedParts parts(model);
  std::vector<std::string> modules;
  for (const AdaptedWeight& at : parts.weights) {
    if (!config.targets(at.module, at.is_head)) continue;
    const std::int64_t rank = config.rank_of(at.module);
    LowRankAdapter& adapter =
        at.weight->add_adapter(source.scope(at.ours), name, rank, config.scale_of(at.module, rank));
    if (config.use_dora) adapter.decompose(*at.weight);
    modules.push_back(at.module);
  }
  for (const AdaptedWeight& at : parts.weights) {
    const std::vector<std::int64_t> tokens = config.token_rows(at.module, at.ours == "model.embed_tokens");
    if (tokens.empty() || !has_token_rows(at)) continue;
    at.weight->add_adapter(token_row_adapter(at, token_rows_name(name), tokens));
  }
  for (const AdaptedExperts& at : parts.experts) {
    if (!targets(config, at)) continue;
    INGOT_CHECK(
        !config.use_dora,
        InvalidConfig("use_dora", fmt::format("DoRA of experts ('{}') is not available; write them into "
                                              "exclude_modules",
                                              last_part(at.container()))));
    const std::int64_t rank = rank_of(config, at);
    add_adapter(at.experts->adapters,
                std::make_unique<LowRankAdapter>(source.scope(at.ours), name, at.experts->shape(), rank,
                                                 scale_of(config, at, rank)));
    modules.push_back(at.pattern_name());
  }
  if (modules.empty()) refuse_no_target(parts, config);
  return modules;
}

namespace {

void train(LowRankAdapter* adapter) {
  if (adapter == nullptr) return;
  for (Parameter* parameter : {&adapter->a, &adapter->b, &adapter->magnitude}) {
    const bool says_which = parameter == &adapter->b && !adapter->tokens.empty();
    if (!*parameter || says_which) continue;
    if (parameter->value.dtype() != DType::f32) parameter->replace(to(parameter->value.detach(), DType::f32));
    parameter->set_trainable(true);
  }
}

}  // namespace

std::vector<LowRankAdapter*> adapters_of(ModuleRef model) {
  std::vector<LowRankAdapter*> all;
  const auto add = [&all](const AdapterList& list) {
    for (const auto& adapter : list) all.push_back(adapter.get());
  };
  for (const auto& [path, weight] : named_weights(model)) add(weight->adapters);
  for (const auto& [path, experts] : named_experts(model)) add(experts->adapters);
  return all;
}

void train_adapter_only(AdaptedModel model, const LoraConfig& config, std::string_view name) {
  for_each_parameter(model.module,
                     [](const std::string&, Parameter& parameter) { parameter.set_trainable(false); });
  for (const AdaptedWeight& at : adapted_weights(model)) {
    if (config.saves(at.module)) {
      INGOT_CHECK(
          !at.weight->is_quantized(),
          InvalidConfig("modules_to_save",
                        fmt::format("'{}' is quantized, so it cannot be trained as a whole", at.module)));
      at.weight->dense.set_trainable(true);
    }
  }
  for (LowRankAdapter* adapter : adapters_of(model.module))
    if (belongs_to(*adapter, name)) train(adapter);
}

void merge_adapters(ModuleRef model) {
  const NoGrad no_grad;
  for (const auto& [name, weight] : named_weights(model)) merge_adapters_into(name, *weight);
  for (const auto& [name, experts] : named_experts(model)) merge_adapters_into(name, *experts);
}

void remove_adapter(ModuleRef model, std::string_view name) {
  const auto remove_from = [name](AdapterList& list) {
    std::erase_if(list, [name](const auto& adapter) { return belongs_to(*adapter, name); });
  };
  for (const auto& [path, weight] : named_weights(model)) remove_from(weight->adapters);
  for (const auto& [path, experts] : named_experts(model)) remove_from(experts->adapters);
}

void enable_adapter(ModuleRef model, std::string_view name, bool enabled) {
  for (LowRankAdapter* adapter : adapters_of(model))
    if (belongs_to(*adapter, name)) adapter->enabled = enabled;
}

}  // namespace ingot
