#include "ingot/nn/linear_weight.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/nn/adapter_launch.h"
#include "ingot/nn/input_observer.h"
#include "ingot/nn/module_scope.h"
#include "ingot/nn/quantized_linear.h"
#include "ingot/nn/recipe/recipe_linear.h"
#include "ingot/nn/with_values.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

thread_local WeightObserver* observer = nullptr;
thread_local bool with_values = false;

Tensor as(const Parameter& parameter, DType dtype) { return to(parameter.value, dtype); }

}  // namespace

LinearWeight::LinearWeight(const ParamSource& source, std::string_view name, const Shape& shape,
                           const Init& init, bool quantizable)
    : split(source.split(name)),
      packed(quantizable ? source.take_quantized(name, split.own(shape)) : nullptr),
      dense(packed != nullptr ? Parameter() : source.take(name, split.own(shape), init)) {
  if (packed != nullptr) dense.name = source.prefix() + std::string(name);  // the name has no other use
}

Shape LinearWeight::shape() const {
  return packed != nullptr ? Shape({packed->rows, packed->cols}) : dense.shape();
}
Device LinearWeight::device() const {
  return packed != nullptr ? packed->data.device() : dense.value.device();
}
std::size_t LinearWeight::nbytes() const {
  return packed != nullptr ? packed->nbytes() : dense.value.nbytes();
}
DType LinearWeight::dtype() const { return packed != nullptr ? DType::f32 : dense.value.dtype(); }

bool LinearWeight::quantizes_input() const {
  return packed != nullptr && recipe == nullptr && !kernels::is_weight_only(packed->format);
}

bool LinearWeight::is_adapted() const {
  return std::ranges::any_of(adapters, [](const auto& adapter) { return adapter->is_on(); });
}

Tensor LinearWeight::operator()(const LinearInput& x, const Tensor& bias) const {
  const ModuleScope scope(*this);
  WeightObserver::tell({.linear = this, .rows = x.rows()});
  InputObserver::tell(dense.name, x);
  if (packed == nullptr || recipe != nullptr || multiplies_with_values())
    return split.whole(add_adapters(*this, base_matmul(x.tensor(), bias), x, bias));
  const LinearWeight* self = this;
  const quant::Rounding rounding = common_rounding({&self, 1}, x.rows());
  return split.whole(add_adapters(*this, quant::linear(x.quantized(rounding), *packed, bias), x, bias));
}

Tensor LinearWeight::base_matmul(const Tensor& x, const Tensor& bias) const {
  if (recipe != nullptr)
    return packed != nullptr ? recipe_linear(x, packed, bias, recipe)
                             : recipe_linear(x, dense.value, bias, recipe);
  return packed != nullptr ? quantized_linear(x, packed, bias) : linear(x, dense.value, bias);
}

Tensor LinearWeight::rows(const Tensor& indices) const {
  if (!split) return rows_here(indices);
  return split.whole_rows(rows_here(split.own_rows(indices)), indices);
}

Tensor LinearWeight::rows_here(const Tensor& indices) const {
  const ModuleScope scope(*this);
  WeightObserver::tell({.linear = this, .rows = indices.numel(), .by_index = true});
  Tensor y;
  if (packed == nullptr) {
    y = embedding(dense.value, indices);
  } else {
    const Tensor ids = reshape(contiguous(to(indices, DType::i64)), {indices.numel()});
    y = reshape(quant::rows(*packed, ids), indices.shape().insert(indices.rank(), packed->cols));
  }
  for (const auto& adapter : adapters) {
    if (!adapter->is_on()) continue;
    const auto change = [&](const Tensor& of) {
      const Tensor inner = embedding(as(adapter->b, y.dtype()), of);
      return linear(inner, transpose(as(adapter->a, y.dtype()), 0, 1)) *
             static_cast<double>(adapter->scale * adapter->weight);
    };
    const std::int64_t count = indices.numel();
    const AdapterRows::Range own = rows_of(*adapter, count);
    if (own.count == count) {
      y = y + change(indices);
    } else if (own.count > 0) {
      const Tensor some = narrow(reshape(y, {count, in()}), 0, own.begin, own.count);
      copy_(some, some + change(narrow(reshape(indices, {count}), 0, own.begin, own.count)));
    }
  }
  return y;
}

Tensor LinearWeight::base_rows(const Tensor& indices) const {
  const NoGrad no_grad;
  return to(packed != nullptr ? quant::rows(*packed, indices) : embedding(dense.value.detach(), indices),
            DType::f32);
}

Tensor LinearWeight::effective(DType dequantized) const {
  WeightObserver::tell({.linear = this});
  const Tensor base = packed != nullptr ? quant::values(*packed, dequantized) : dense.value;
  Tensor w = base;
  for (const auto& adapter : adapters) {
    if (!adapter->is_on()) continue;
    INGOT_CHECK(adapter->rows == nullptr || adapter->rows->is_whole(),
                Error(fmt::format("'{}' is wanted as one matrix, and its adapter '{}' is of some rows alone",
                                  dense.name, adapter->name)));
    Tensor b = as(adapter->b, w.dtype());
    float scale = adapter->scale * adapter->weight;
    if (adapter->magnitude) {
      const DecomposedRows rows = decomposed_rows(*this, *adapter, w.dtype());
      w = w + base * rows.of_base;
      b = rows.b;
      scale = adapter->scale;
    }
    w = w + matmul(b, as(adapter->a, w.dtype())) * static_cast<double>(scale);
  }
  return w;
}

LowRankAdapter& LinearWeight::add_adapter(const ParamSource& source, std::string name, std::int64_t rank,
                                          float scale) {
  return add_adapter(std::make_unique<LowRankAdapter>(source, std::move(name), shape(), rank, scale));
}

LowRankAdapter& LinearWeight::add_adapter(std::unique_ptr<LowRankAdapter> adapter) {
  return ingot::add_adapter(adapters, std::move(adapter));
}

LowRankAdapter* LinearWeight::find_adapter(std::string_view name) {
  return ingot::find_adapter(adapters, name);
}

bool multiplies_with_values() { return grad_enabled() || recorded_later() || with_values; }

WithValues::WithValues(bool on) : previous_(with_values) { with_values = previous_ || on; }
WithValues::~WithValues() { with_values = previous_; }

quant::Rounding common_rounding(std::span<const LinearWeight* const> weights, std::int64_t rows) {
  const auto of = [rows](const LinearWeight* weight) {
    return weight->is_adapted() || weight->recipe != nullptr ? quant::Rounding::none
                                                             : quant::rounding(weight->packed.get(), rows);
  };
  const quant::Rounding first = of(weights.front());
  const bool same =
      std::ranges::all_of(weights, [&](const LinearWeight* weight) { return of(weight) == first; });
  return !multiplies_with_values() && same ? first : quant::Rounding::none;
}

WeightObserver::WeightObserver(std::function<void(const WeightUse&)> f) : f_(std::move(f)), outer_(observer) {
  observer = this;
}
WeightObserver::~WeightObserver() { observer = outer_; }

void WeightObserver::tell(const WeightUse& use) {
  if (observer != nullptr) observer->f_(use);
}

}  // namespace ingot
