#include "ingot/train/moved_tensors.h"

#include <functional>
#include <memory>
#include <unordered_set>
#include <utility>

#include "ingot/nn/expert_linear.h"
#include "ingot/nn/linear_weight.h"

namespace ingot {
namespace {

// A depthwise convolution's [channels, 1, width] takes little, and is applied as a view, by which a graph
// would keep the memory of the whole block.
bool is_moved(const Shape& shape) { return shape.rank() > 1 && !(shape.rank() == 3 && shape[1] == 1); }

}  // namespace

std::vector<Parameter*> moved_parameters(ModuleRef block) {
  std::unordered_set<const Parameter*> of_adapters;
  const auto leave_out = [&of_adapters](const AdapterList& adapters) {
    for (const auto& adapter : adapters) of_adapters.insert({&adapter->a, &adapter->b});
  };
  for (const auto& [name, weight] : named_weights(block)) leave_out(weight->adapters);
  for (const auto& [name, experts] : named_experts(block)) leave_out(experts->adapters);
  std::vector<Parameter*> all = parameters(block);
  std::erase_if(all, [&](const Parameter* parameter) {
    return !is_moved(parameter->shape()) || of_adapters.contains(parameter);
  });
  return all;
}

Tensor without_memory(const Tensor& of, Device device) {
  return {std::make_shared<Storage>(nullptr, 0, device, std::function<void()>{}),
          contiguous_view(nullptr, of.shape(), of.dtype(), device)};
}

void put_value(Tensor& place, Tensor value) {
  value.set_autograd_meta(place.autograd_meta());
  place = std::move(value);
}

}  // namespace ingot
