#include "ingot/nn/expert_linear.h"

#include <string>

#include "ingot/nn/input_observer.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/nn/module_scope.h"
#include "ingot/nn/quantized_linear.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"
#include "ingot/quant/linear.h"

namespace ingot {

ExpertLinear::ExpertLinear(const ParamSource& source, std::string_view name, const Shape& shape,
                           const Init& init, bool has_bias)
    : packed(source.take_quantized_stack(name, shape)),
      dense(packed.empty() ? source.take(name, shape, init) : Parameter{}),
      bias(has_bias ? source.take(std::string(name) + "_bias", {shape[0], shape[1]}, init::kZeros,
                                  {.decay = false})
                    : Parameter{}) {}

Tensor ExpertLinear::operator()(const Tensor& x, const ExpertRouting& routing) const {
  const ModuleScope scope(dense, 0);
  WeightObserver::tell({.experts = this, .rows = x.dim(0)});
  InputObserver::tell(dense.name, x, routing.offsets);
  const Tensor y = multiplied(x, routing.offsets);
  return bias.value.defined() ? y + to(embedding(bias.value, routing.experts), y.dtype()) : y;
}

Tensor ExpertLinear::multiplied(const Tensor& x, const Tensor& offsets) const {
  if (packed.empty()) return grouped_linear(x, dense.value, offsets);
  const Tensor host_offsets = to(offsets, kCpu);
  const auto* begins = host_offsets.data<std::int64_t>();
  std::vector<Tensor> results;
  for (std::size_t e = 0; e < packed.size(); ++e) {
    const std::int64_t first = begins[e], rows = begins[e + 1] - first;
    if (rows == 0) continue;
    const Tensor mine = contiguous(narrow(x, 0, first, rows));
    results.push_back(multiplies_with_values() ? quantized_linear(mine, packed[e])
                                               : quant::linear(mine, *packed[e]));
  }
  if (results.empty()) return Tensor::empty({0, packed.front()->rows}, DType::f32, x.device());
  return results.size() == 1 ? results.front() : concat(results, 0);
}

void ExpertLinear::keep(std::int64_t first, std::int64_t count) {
  const auto keep_of = [&](Parameter& stack) {
    if (stack) stack.replace(clone(narrow(stack.value.detach(), 0, first, count)));
  };
  keep_of(dense);
  keep_of(bias);
  if (packed.empty()) return;
  packed.erase(packed.begin(), packed.begin() + first);
  packed.resize(static_cast<std::size_t>(count));
}

void ExpertLinear::visit(ParamVisitor& v, std::string_view name) {
  v(name, dense);
  v(std::string(name) + "_bias", bias);
}

}  // namespace ingot
