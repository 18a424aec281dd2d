#include "ingot/nn/adapter_launch.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/kernels/kernel_traits.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/low_rank.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {

AdapterRows::Range rows_of(const LowRankAdapter& adapter, std::int64_t rows) {
  return adapter.rows == nullptr ? AdapterRows::Range{.begin = 0, .count = rows} : adapter.rows->of(rows);
}

DecomposedRows decomposed_rows(const LinearWeight& weight, const LowRankAdapter& adapter, DType dtype) {
  const auto share = static_cast<double>(adapter.weight);
  const Tensor gain = reshape(adapter.row_gain(weight), {weight.out(), 1});
  return {to(to(adapter.b.value, DType::f32) * (gain * share), dtype), to((gain - 1.0) * share, dtype)};
}

namespace {

// y + (gain − 1) · x·Wᵀ, without the bias that `base` has. What is dropped of x is dropped for W, too.
Tensor add_decomposed_base(const LinearWeight& weight, const Tensor& y, const Tensor& base,
                           const Tensor& dropped, const Tensor& bias, const Tensor& of_base) {
  Tensor product = base;
  if (dropped.defined())
    product = weight.base_matmul(dropped);
  else if (bias.defined())
    product = base - to(bias, base.dtype());
  return y + product * reshape(of_base, {weight.out()});
}

// What one adapter adds to y, as many rows as x has. `base`: x·Wᵀ + bias, where the adapter is decomposed.
Tensor add_one(const LinearWeight& weight, const LowRankAdapter& adapter, Tensor y, const Tensor& x,
               const Tensor& base, const Tensor& bias) {
  const DType dtype = y.dtype();
  Tensor input = to(x, dtype), b = to(adapter.b.value, dtype);
  float scale = adapter.scale * adapter.weight;
  if (adapter.drops()) input = dropout(input, adapter.dropout);
  if (adapter.magnitude) {
    const DecomposedRows rows = decomposed_rows(weight, adapter, dtype);
    y = add_decomposed_base(weight, y, base, adapter.drops() ? input : Tensor{}, bias, rows.of_base);
    b = rows.b;
    scale = adapter.scale;
  }
  return add_low_rank(std::move(y), input, to(adapter.a.value, dtype), b, scale);
}

// A matrix of an adapter as a launch reads it beside y.
Tensor beside(const Tensor& y, const Parameter& matrix) {
  const DType dtype = matrix.value.dtype();
  const bool narrower = y.dtype() == DType::f32 && (is_half_precision(dtype) || dtype == DType::i8);
  return narrower ? matrix.value : to(matrix.value, y.dtype());
}

// The adapters of one layer, by operations of their own where these are recorded or decomposed; what is left
// is put to `updates`, as of result number `of`.
void add_adapters_of(LayerResult& result, std::size_t of, const LinearInput& x,
                     std::vector<RowUpdate>& updates) {
  const LinearWeight& weight = result.weight;
  const bool decomposed = std::ranges::any_of(
      weight.adapters, [](const auto& adapter) { return adapter->is_on() && adapter->magnitude; });
  const Tensor base = decomposed ? result.y : Tensor{};  // y itself may be written into
  const bool recorded = grad_enabled() || recorded_later();
  Tensor& y = result.y;
  for (const auto& adapter : weight.adapters) {
    if (!adapter->is_on()) continue;
    const AdapterRows::Range own = rows_of(*adapter, x.rows());
    if (own.count == 0) continue;
    if (!adapter->magnitude && (!recorded || own.count < x.rows())) {
      updates.push_back({.of = of,
                         .begin = own.begin,
                         .count = own.count,
                         .a = beside(y, adapter->a),
                         .b = beside(y, adapter->b),
                         .scale = adapter->scale * adapter->weight});
    } else if (own.count == x.rows()) {
      y = add_one(weight, *adapter, std::move(y), x.tensor(), base, result.bias);
    } else {
      const auto some = [&](const Tensor& t) {
        return narrow(reshape(t, {x.rows(), t.dim(-1)}), 0, own.begin, own.count);
      };
      if (y.storage() == base.storage()) y = clone(y);
      copy_(some(y), add_one(weight, *adapter, some(y), some(x.tensor()), some(base), result.bias));
    }
  }
}

}  // namespace

void add_adapters(std::span<LayerResult> results, const LinearInput& x) {
  std::vector<RowUpdate> updates;
  std::size_t most = 0;
  for (const LayerResult& result : results) most += result.weight.adapters.size();
  updates.reserve(most);
  for (std::size_t i = 0; i < results.size(); ++i) add_adapters_of(results[i], i, x, updates);
  if (updates.empty()) return;
  std::vector<Tensor> ys;
  ys.reserve(results.size());
  for (LayerResult& result : results) ys.push_back(std::move(result.y));
  const Tensor input = to(x.tensor(), ys.front().dtype());
  ys = add_low_rank_rows(std::move(ys), input, updates);
  for (std::size_t i = 0; i < results.size(); ++i) results[i].y = std::move(ys[i]);
}

Tensor add_adapters(const LinearWeight& weight, Tensor y, const LinearInput& x, const Tensor& bias) {
  LayerResult result{.weight = weight, .bias = bias, .y = std::move(y)};
  add_adapters({&result, 1}, x);
  return std::move(result.y);
}

namespace {

float largest(const Tensor& x) { return to(max(abs(x)), kCpu).data<float>()[0]; }

// x · factor in another dtype; `scale` takes the factor up.
Tensor rounded(const Tensor& x, double factor, DType dtype, float& scale) {
  scale = static_cast<float>(scale / factor);
  return to(dtype == DType::i8 ? round(x * factor) : x * factor, dtype);
}

// With the largest element near 1, so that small ones keep their digits in f16.
Tensor as_f16(const Tensor& x, float& scale) {
  constexpr int kMostShift = 60;
  const float most = largest(x);
  if (!(most > 0) || !std::isfinite(most)) return to(x, DType::f16);
  const int shift = std::clamp(-std::ilogb(most), -kMostShift, kMostShift);
  return rounded(x, std::ldexp(1.0, shift), DType::f16, scale);
}

Tensor as_i8(const Tensor& x, float& scale) {
  const float most = largest(x);
  return rounded(x, most > 0 ? 127 / static_cast<double>(most) : 1, DType::i8, scale);
}

// What a row of A is larger than the others goes to its column of B, whose error then counts as much as the
// row does: each row uses all codes.
void balance(Tensor& a, Tensor& b) {
  const Tensor most = clamp(max(abs(a), {1}, /*keepdim=*/true), 1e-30, 1e30);
  a = a / most;
  b = b * reshape(most, {1, most.numel()});
}

bool is_finite(const Tensor& x) { return std::isfinite(largest(x)); }

}  // namespace

void prepare_for_inference(LowRankAdapter& adapter, const LinearWeight& of) {
  if (adapter.magnitude || !adapter.tokens.empty() || of.dense.embedding) return;
  const NoGrad no_grad;
  Tensor a = adapter.a.value.detach(), b = adapter.b.value.detach();
  const DType dtype = of.is_quantized() ? DType::f16 : of.dtype();
  if (of.is_quantized() && kernels::kernel_traits(of.device()).int8_low_rank && is_finite(a) &&
      is_finite(b)) {
    a = to(a, DType::f32), b = to(b, DType::f32);
    balance(a, b);
    a = as_i8(a, adapter.scale), b = as_i8(b, adapter.scale);
  } else if (dtype == DType::f16) {
    a = as_f16(to(a, DType::f32), adapter.scale), b = as_f16(to(b, DType::f32), adapter.scale);
  } else {
    a = to(a, dtype), b = to(b, dtype);
  }
  for (Parameter* parameter : {&adapter.a, &adapter.b}) parameter->set_trainable(false);
  adapter.a.replace(contiguous(a));
  adapter.b.replace(transpose(contiguous(transpose(b, 0, 1)), 0, 1));
}

}  // namespace ingot
