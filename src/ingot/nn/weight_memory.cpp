#include "ingot/nn/weight_memory.h"

#include <memory>

namespace ingot {
namespace {

void take(quant::PackedPtr& matrix, std::vector<Tensor*>& all) {
  const auto own = std::make_shared<quant::PackedMatrix>(*matrix);
  matrix = own;
  all.push_back(&own->data);
  if (own->order.defined()) all.push_back(&own->order);
}

}  // namespace

std::vector<Tensor*> quantized_memory(LinearWeight& weight) {
  std::vector<Tensor*> all;
  if (weight.packed != nullptr) take(weight.packed, all);
  return all;
}

std::vector<Tensor*> quantized_memory(ExpertLinear& experts) {
  std::vector<Tensor*> all;
  for (quant::PackedPtr& matrix : experts.packed) take(matrix, all);
  return all;
}

}  // namespace ingot
