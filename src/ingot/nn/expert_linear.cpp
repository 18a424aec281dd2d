#include "ingot/nn/expert_linear.h"

#include <string>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/nn/input_observer.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/nn/module_scope.h"
#include "ingot/nn/quantized_linear.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/quant/linear.h"

namespace ingot {

ExpertLinear::ExpertLinear(const ParamSource& source, std::string_view name, const Shape& shape,
                           const Init& init, bool has_bias)
    : packed(source.take_quantized_stack(name, shape)),
      dense(packed.empty() ? source.take(name, shape, init) : Parameter{}),
      bias(has_bias ? source.take(std::string(name) + "_bias", {shape[0], shape[1]}, init::kZeros,
                                  {.decay = false})
                    : Parameter{}) {
  if (is_quantized()) dense.name = source.prefix() + std::string(name);  // the name has no other use
}

Shape ExpertLinear::shape() const {
  if (!is_quantized()) return dense.shape();
  return {static_cast<std::int64_t>(packed.size()), packed.front()->rows, packed.front()->cols};
}
Device ExpertLinear::device() const {
  return is_quantized() ? packed.front()->data.device() : dense.value.device();
}

Tensor ExpertLinear::operator()(const Tensor& x, const ExpertRouting& routing) const {
  const ModuleScope scope(dense, 0);
  WeightObserver::tell({.experts = this, .rows = x.dim(0)});
  InputObserver::tell(dense.name, x, routing.offsets);
  const Tensor y = add_adapters(multiplied(x, routing.offsets), x, routing.offsets);
  return bias.value.defined() ? y + to(embedding(of_call(bias.value), routing.experts), y.dtype()) : y;
}

Tensor ExpertLinear::multiplied(const Tensor& x, const Tensor& offsets) const {
  if (packed.empty()) return grouped_linear(x, of_call(dense.value), offsets);
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
  if (results.empty())  // of x all the same, whose gradient other ranks wait for
    return sum(to(x, DType::f32), {1}, true) *
           Tensor::zeros({1, packed.front()->rows}, DType::f32, x.device());
  return results.size() == 1 ? results.front() : concat(results, 0);
}

// The pairs of a batch are in the order of experts, so adapters are of all of them.
Tensor ExpertLinear::add_adapters(Tensor y, const Tensor& x, const Tensor& offsets) const {
  for (const auto& adapter : adapters) {
    if (!adapter->is_on()) continue;
    INGOT_CHECK(adapter->rows == nullptr || adapter->rows->is_whole(),
                Error(fmt::format("the adapter '{}' of the experts '{}' is of some rows alone", adapter->name,
                                  dense.name)));
    const DType dtype = y.dtype();
    Tensor input = to(x, dtype);
    if (adapter->drops()) input = dropout(input, adapter->dropout);
    const Tensor inner = grouped_linear(input, of_call(to(adapter->a.value, dtype)), offsets);
    y = y + grouped_linear(inner, of_call(to(adapter->b.value, dtype)), offsets) *
                static_cast<double>(adapter->scale * adapter->weight);
  }
  return y;
}

Tensor ExpertLinear::effective() const {
  Tensor w = dense.value;
  for (const auto& adapter : adapters) {
    if (!adapter->is_on()) continue;
    const DType dtype = w.dtype();
    w = w + matmul(to(adapter->b.value, dtype), to(adapter->a.value, dtype)) *
                static_cast<double>(adapter->scale * adapter->weight);
  }
  return w;
}

// What a call gives for the gradient is made by itself, and then added.
Tensor ExpertLinear::of_call(const Tensor& stack) const {
  return adds_by_call ? reshape(stack, stack.shape()) : stack;
}

std::vector<Parameter*> ExpertLinear::stacks() {
  std::vector<Parameter*> all{&dense, &bias};
  for (const auto& adapter : adapters) all.insert(all.end(), {&adapter->a, &adapter->b});
  return all;
}

void ExpertLinear::keep(std::int64_t first, std::int64_t count) {
  const auto keep_of = [&](Parameter& stack) {
    if (stack) stack.replace(clone(narrow(stack.value.detach(), 0, first, count)));
  };
  for (Parameter* stack : stacks()) keep_of(*stack);
  if (packed.empty()) return;
  packed.erase(packed.begin(), packed.begin() + first);
  packed.resize(static_cast<std::size_t>(count));
}

}  // namespace ingot
