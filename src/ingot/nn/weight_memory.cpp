#include "ingot/nn/weight_memory.h"

#include <memory>

namespace ingot {

std::vector<Tensor*> quantized_memory(LinearWeight& weight) {
  if (weight.packed == nullptr) return {};
  const auto own = std::make_shared<quant::PackedMatrix>(*weight.packed);
  weight.packed = own;
  if (!own->order.defined()) return {&own->data};
  return {&own->data, &own->order};
}

}  // namespace ingot
