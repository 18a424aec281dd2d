#include "ingot/models/adapter/lora.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

void refuse_no_target(const std::vector<AdaptedWeight>& weights, const LoraConfig& config) {
  std::set<std::string> last;  // what a list of targets would name
  for (const AdaptedWeight& weight : weights) last.insert(weight.module.substr(weight.module.rfind('.') + 1));
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
  const std::vector<AdaptedWeight> weights = adapted_weights(model);
  std::vector<std::string> modules;
  for (const AdaptedWeight& at : weights) {
    if (!config.targets(at.module, at.is_head)) continue;
    const std::int64_t rank = config.rank_of(at.module);
    LowRankAdapter& adapter =
        at.weight->add_adapter(source.scope(at.ours), name, rank, config.scale_of(at.module, rank));
    if (config.use_dora) adapter.decompose(*at.weight);
    modules.push_back(at.module);
  }
  if (modules.empty()) refuse_no_target(weights, config);
  return modules;
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
    LowRankAdapter* adapter = at.weight->find_adapter(name);
    if (adapter == nullptr) continue;
    for (Parameter* parameter : {&adapter->a, &adapter->b, &adapter->magnitude}) {
      if (!*parameter) continue;
      if (parameter->value.dtype() != DType::f32)
        parameter->replace(to(parameter->value.detach(), DType::f32));
      parameter->set_trainable(true);
    }
  }
}

void merge_adapters(ModuleRef model) {
  const NoGrad no_grad;
  for (const auto& [name, weight] : named_weights(model)) {
    if (weight->is_adapted()) {
      INGOT_CHECK(
          !weight->is_quantized(),
          Error(fmt::format("{} is quantized: an update cannot be merged into it; load the values of the "
                            "base model, merge, and quantize again",
                            name)));
      const DType dtype = weight->dense.value.dtype();
      const bool trainable = weight->dense.trainable();
      weight->dense.replace(to(weight->dense.value, DType::f32));
      weight->dense.replace(to(weight->effective(), dtype));
      weight->dense.set_trainable(trainable);
    }
    weight->adapters.clear();
  }
}

void remove_adapter(ModuleRef model, std::string_view name) {
  for (const auto& [path, weight] : named_weights(model))
    std::erase_if(weight->adapters, [name](const auto& adapter) { return adapter->name == name; });
}

void enable_adapter(ModuleRef model, std::string_view name, bool enabled) {
  for (const auto& [path, weight] : named_weights(model))
    if (LowRankAdapter* adapter = weight->find_adapter(name)) adapter->enabled = enabled;
}

}  // namespace ingot
