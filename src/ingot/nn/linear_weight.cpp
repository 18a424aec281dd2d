#include "ingot/nn/linear_weight.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/nn/module_scope.h"
#include "ingot/nn/quantized_linear.h"
#include "ingot/nn/with_values.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/low_rank.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

thread_local WeightObserver* observer = nullptr;
thread_local bool with_values = false;

std::int64_t checked_rank(std::int64_t rank) {
  INGOT_CHECK(rank > 0, InvalidConfig("adapter.rank", fmt::format("must be positive, got {}", rank)));
  return rank;
}

Tensor as(const Parameter& parameter, DType dtype) { return to(parameter.value, dtype); }

}  // namespace

LowRankAdapter::LowRankAdapter(const ParamSource& source, std::string name_, const Shape& weight,
                               std::int64_t rank, float scale_)
    : name(std::move(name_)),
      a(source.scope(name).take("lora_A", {checked_rank(rank), weight[1]}, init::fan_in_uniform(weight[1]))),
      b(source.scope(name).take("lora_B", {weight[0], rank}, init::kZeros)),
      scale(scale_) {}

LinearWeight::LinearWeight(const ParamSource& source, std::string_view name, const Shape& shape,
                           const Init& init, bool quantizable)
    : packed(quantizable ? source.take_quantized(name, shape) : nullptr),
      dense(packed != nullptr ? Parameter() : source.take(name, shape, init)) {
  if (packed != nullptr) dense.name = source.prefix() + std::string(name);  // it has no other place for it
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
  return packed != nullptr && !kernels::is_weight_only(packed->format);
}

bool LinearWeight::is_adapted() const {
  return std::ranges::any_of(adapters, [](const auto& adapter) { return adapter->enabled; });
}

Tensor LinearWeight::operator()(const LinearInput& x, const Tensor& bias) const {
  const ModuleScope scope(*this);
  WeightObserver::tell(*this);
  if (packed == nullptr) return add_adapters(*this, linear(x.tensor(), dense.value, bias), x);
  if (multiplies_with_values()) return add_adapters(*this, quantized_linear(x.tensor(), packed, bias), x);
  const LinearWeight* self = this;
  const quant::Rounding rounding = common_rounding({&self, 1}, x.rows());
  return add_adapters(*this, quant::linear(x.quantized(rounding), *packed, bias), x);
}

Tensor LinearWeight::rows(const Tensor& indices) const {
  const ModuleScope scope(*this);
  WeightObserver::tell(*this);
  Tensor y;
  if (packed == nullptr) {
    y = embedding(dense.value, indices);
  } else {
    const Tensor ids = reshape(contiguous(to(indices, DType::i64)), {indices.numel()});
    y = reshape(quant::rows(*packed, ids), indices.shape().insert(indices.rank(), packed->cols));
  }
  for (const auto& adapter : adapters) {
    if (!adapter->enabled) continue;
    const Tensor inner = embedding(as(adapter->b, y.dtype()), indices);
    y = y + linear(inner, transpose(as(adapter->a, y.dtype()), 0, 1)) * static_cast<double>(adapter->scale);
  }
  return y;
}

Tensor LinearWeight::effective(DType dequantized) const {
  WeightObserver::tell(*this);
  Tensor w = packed != nullptr ? quant::values(*packed, dequantized) : dense.value;
  for (const auto& adapter : adapters) {
    if (!adapter->enabled) continue;
    w = w +
        matmul(as(adapter->b, w.dtype()), as(adapter->a, w.dtype())) * static_cast<double>(adapter->scale);
  }
  return w;
}

LowRankAdapter& LinearWeight::add_adapter(const ParamSource& source, std::string name, std::int64_t rank,
                                          float scale) {
  INGOT_CHECK(find_adapter(name) == nullptr, Error(fmt::format("there is an adapter '{}' already", name)));
  return *adapters.emplace_back(
      std::make_unique<LowRankAdapter>(source, std::move(name), shape(), rank, scale));
}

LowRankAdapter* LinearWeight::find_adapter(std::string_view name) {
  const auto found = std::ranges::find(adapters, name, [](const auto& adapter) { return adapter->name; });
  return found == adapters.end() ? nullptr : found->get();
}

bool multiplies_with_values() { return grad_enabled() || recorded_later() || with_values; }

WithValues::WithValues(bool on) : previous_(with_values) { with_values = previous_ || on; }
WithValues::~WithValues() { with_values = previous_; }

quant::Rounding common_rounding(std::span<const LinearWeight* const> weights, std::int64_t rows) {
  const auto of = [rows](const LinearWeight* weight) {
    return weight->is_adapted() ? quant::Rounding::none : quant::rounding(weight->packed.get(), rows);
  };
  const quant::Rounding first = of(weights.front());
  const bool same =
      std::ranges::all_of(weights, [&](const LinearWeight* weight) { return of(weight) == first; });
  return !multiplies_with_values() && same ? first : quant::Rounding::none;
}

Tensor add_adapters(const LinearWeight& weight, Tensor y, const LinearInput& x) {
  const DType dtype = y.dtype();
  for (const auto& adapter : weight.adapters) {
    if (!adapter->enabled) continue;
    Tensor input = to(x.tensor(), dtype);
    if (adapter->dropout > 0 && (grad_enabled() || recorded_later()))
      input = dropout(input, adapter->dropout);
    y = add_low_rank(std::move(y), input, as(adapter->a, dtype), as(adapter->b, dtype), adapter->scale);
  }
  return y;
}

WeightObserver::WeightObserver(std::function<void(const LinearWeight&)> f)
    : f_(std::move(f)), outer_(observer) {
  observer = this;
}
WeightObserver::~WeightObserver() { observer = outer_; }

void WeightObserver::tell(const LinearWeight& weight) {
  if (observer != nullptr) observer->f_(weight);
}

}  // namespace ingot
