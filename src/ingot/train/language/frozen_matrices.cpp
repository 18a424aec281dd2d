#include "ingot/train/language/frozen_matrices.h"

#include <unordered_set>

#include "ingot/nn/weight_memory.h"
#include "ingot/train/moved_tensors.h"

namespace ingot {
namespace {

void add(std::vector<Tensor*>& all, const std::vector<Tensor*>& some) {
  all.insert(all.end(), some.begin(), some.end());
}

std::vector<Tensor*> matrices_of(DecoderLayer& layer) {
  std::vector<Tensor*> all;
  const bool are_shared_out = layer.experts != nullptr && layer.experts->expert_ranks != nullptr;
  std::unordered_set<const Parameter*> of_experts;
  if (are_shared_out)
    for (ExpertLinear* experts : layer.experts->stacks())
      for (const Parameter* stack : experts->stacks()) of_experts.insert(stack);
  for (Parameter* parameter : moved_parameters(layer))
    if (!parameter->trainable() && !of_experts.contains(parameter)) all.push_back(&parameter->value);
  for (const auto& [name, weight] : named_weights(layer)) add(all, quantized_memory(*weight));
  if (layer.experts == nullptr || are_shared_out) return all;
  for (ExpertLinear* experts : layer.experts->stacks()) add(all, quantized_memory(*experts));
  return all;
}

}  // namespace

std::vector<std::vector<Tensor*>> frozen_matrices(LanguageModel& model) {
  std::vector<std::vector<Tensor*>> all;
  all.reserve(model.layers.size());
  for (const auto& layer : model.layers) all.push_back(matrices_of(*layer));
  return all;
}

}  // namespace ingot
