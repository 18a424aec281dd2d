#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// What ONNX Runtime makes of graphs that it optimises or quantizes: its domain com.microsoft. Each is made of
// operators of ai.onnx.

namespace ingot::onnx {
namespace {

Tensor plus_optional(const OpCall& call, const Tensor& x, std::size_t i) {
  return call.has(i) ? add(x, call.in(i)) : x;
}

Values erf_gelu(const OpCall& call) { return {gelu_erf(plus_optional(call, call.in(0), 1))}; }
Values fast_gelu(const OpCall& call) { return {gelu_tanh(plus_optional(call, call.in(0), 1))}; }
Values quick_gelu(const OpCall& call) {
  const Tensor& x = call.in(0);
  return {mul(x, sigmoid(scale(x, call.number("alpha", 1.702F))))};
}

Tensor normalized(const OpCall& call, const Tensor& x, std::size_t gamma, std::size_t beta, float eps) {
  return layer_norm(contiguous(x), call.in(gamma, 1, 1), call.optional(beta), eps);
}

/// Outputs: the norm, two that only training reads, and the sum that was normalised.
Values skip_layer_norm(const OpCall& call) {
  const Tensor sum = plus_optional(call, add(call.in(0), call.in(1)), 4);
  return {normalized(call, sum, 2, 3, call.number("epsilon", 1e-12F)), Value(), Value(), sum};
}
Values skip_rms_norm(const OpCall& call) {
  const Tensor sum = plus_optional(call, add(call.in(0), call.in(1)), 3);
  return {rms_norm(contiguous(sum), call.in(2, 1, 1), call.number("epsilon", 1e-12F)), Value(), Value(), sum};
}
Values simplified_layer_norm(const OpCall& call) {
  return call.as("RMSNormalization", std::array<Value, 2>{call.in(0), call.in(1)});
}

/// Rows of a table by ids of any shape.
Tensor looked_up(const OpCall& call, std::size_t table, const Tensor& ids) {
  return call.as("Gather", std::array<Value, 2>{call.in(table, 2, 2), ids})[0].tensor;
}

/// Embeddings of words, positions and segments, summed and normalised, and how many tokens each row has.
Values embed_layer_norm(const OpCall& call) {
  const Tensor& ids = call.in(0, 2, 2);
  std::vector<std::int64_t> counting(static_cast<std::size_t>(ids.dim(1)));
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<std::int64_t>(i);
  const Tensor positions = call.has(8) ? call.in(8) : Tensor::from(counting, {ids.dim(1)});
  Tensor sum = add(looked_up(call, 2, ids), looked_up(call, 3, positions));
  if (call.has(1) && call.has(4)) sum = add(sum, looked_up(call, 4, call.in(1, 2, 2)));
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(ids.dim(0)), 0);
  if (call.has(7)) {
    const std::vector<std::int64_t> mask = call.integers_in(7);
    INGOT_CHECK(static_cast<std::int64_t>(mask.size()) == ids.numel(),
                DimensionMismatch(call.where() + ": the mask has not the shape of the tokens"));
    for (std::size_t i = 0; i < mask.size(); ++i)
      lengths[i / static_cast<std::size_t>(ids.dim(1))] += mask[i] != 0 ? 1 : 0;
  }
  return {normalized(call, sum, 5, 6, call.number("epsilon", 1e-12F)),
          from_integers(lengths, {ids.dim(0)}, DType::i32), sum};
}

Values fused_matmul(const OpCall& call) {
  if (call.integer("transBatchA", 0) != 0 || call.integer("transBatchB", 0) != 0)
    call.refuse("a transposed batch");
  const auto side = [&](std::size_t i, const char* name) {
    const Tensor& x = call.in(i, 2);
    return call.integer(name, 0) != 0 ? contiguous(transpose(x, x.rank() - 2, x.rank() - 1)) : x;
  };
  const Tensor y = matmul(side(0, "transA"), side(1, "transB"));
  const float alpha = call.number("alpha", 1);
  return {alpha == 1 ? y : scale(y, alpha)};
}

/// The function that a fused convolution or matmul ends with.
Tensor activated(const OpCall& call, const Tensor& x) {
  const std::string name = call.text("activation", "");
  const std::vector<float> list = call.has_attribute("activation_params")
                                      ? call.attribute("activation_params").numbers
                                      : std::vector<float>{};
  const auto parameter = [&](std::size_t i, const char* own, float fallback) {
    return i < list.size() ? list[i] : call.number(own, fallback);
  };
  if (name.empty()) return x;
  if (name == "Relu") return relu(x);
  if (name == "Sigmoid") return sigmoid(x);
  if (name == "Tanh") return tanh(x);
  if (name == "LeakyRelu") return leaky_relu(x, parameter(0, "activation_alpha", 0.01F));
  if (name == "Clip") {
    constexpr float kLargest = std::numeric_limits<float>::max();
    return clamp(x, parameter(0, "activation_min", -kLargest), parameter(1, "activation_max", kLargest));
  }
  if (name == "HardSigmoid") {
    return clamp(scale(x, parameter(0, "activation_alpha", 0.2F), parameter(1, "activation_beta", 0.5F)), 0,
                 1);
  }
  call.refuse("activation " + name);
}

Values fused_convolution(const OpCall& call) {
  const std::array<Value, 3> inputs{call.in(0), call.in(1), call.optional(2)};
  return {activated(call, plus_optional(call, call.as("Conv", inputs)[0].tensor, 3))};
}
Values fused_gemm(const OpCall& call) {
  const std::array<Value, 3> inputs{call.in(0), call.in(1), call.optional(2)};
  return {activated(call, call.as("Gemm", inputs)[0].tensor)};
}

/// Codes with their scale and zero point, which are the inputs behind them.
Tensor dequantized(const OpCall& call, std::size_t i) {
  const std::array<Value, 3> inputs{call.value_in(i), call.in(i + 1),
                                    call.has(i + 2) ? call.value_in(i + 2) : Value()};
  return call.as("DequantizeLinear", inputs)[0].tensor;
}
Values quantized(const OpCall& call, const Tensor& y, std::size_t scale) {
  const std::array<Value, 3> inputs{y, call.in(scale),
                                    call.has(scale + 1) ? call.value_in(scale + 1) : Value()};
  return call.as("QuantizeLinear", inputs);
}

template <Tensor (*op)(const Tensor&, const Tensor&)>
Values quantized_pair(const OpCall& call) {
  return quantized(call, op(dequantized(call, 0), dequantized(call, 3)), 6);
}

/// An operator of one input between codes.
Values quantized_by(const OpCall& call, std::string_view op) {
  if (call.integer("channels_last", 0) != 0) call.refuse("channels_last");
  return quantized(call, call.as(op, std::array<Value, 1>{dequantized(call, 0)})[0].tensor, 3);
}
Values quantized_sigmoid(const OpCall& call) { return quantized_by(call, "Sigmoid"); }
Values quantized_leaky_relu(const OpCall& call) { return quantized_by(call, "LeakyRelu"); }
Values quantized_average_pool(const OpCall& call) { return quantized_by(call, "AveragePool"); }
Values quantized_global_average_pool(const OpCall& call) { return quantized_by(call, "GlobalAveragePool"); }

/// Scale and zero point of the result first, then three inputs for each part.
Values quantized_concat(const OpCall& call) {
  std::vector<Tensor> parts;
  for (std::size_t i = 2; i < call.input_count(); i += 3) parts.push_back(dequantized(call, i));
  INGOT_CHECK(!parts.empty(), FormatError(call.where(), -1, "input", "is missing"));
  return quantized(call, concat(parts, call.axis("axis", 0, parts[0].rank())), 0);
}

/// a b + c in whole numbers; the scale of a row of c is that of both factors.
Values quantized_gemm(const OpCall& call) {
  const auto side = [&](std::size_t i, const char* name) {
    const Tensor x = to(dequantized(call, i), DType::f64);
    return call.integer(name, 0) != 0 ? contiguous(transpose(x, 0, 1)) : x;
  };
  call.in(0, 2, 2), call.in(3, 2, 2);
  Tensor y = matmul(side(0, "transA"), side(3, "transB"));
  if (call.has(6)) {
    y = add(y, mul(to(call.in(6), DType::f64), mul(to(call.in(1), DType::f64), to(call.in(4), DType::f64))));
  }
  y = to(scale(y, call.number("alpha", 1)), DType::f32);
  if (!call.has(7)) return {y};
  return quantized(call, y, 7);
}

/// Codes of both sides, each with a scale; the result is not quantized.
Values integer_matmul_to_float(const OpCall& call) {
  const std::array<Value, 4> inputs{call.value_in(0), call.value_in(1), call.optional(4), call.optional(5)};
  const Tensor sums = to(call.as("MatMulInteger", inputs)[0].tensor, DType::f32);
  return {plus_optional(call, mul(sums, mul(call.in(2), call.in(3))), 6)};
}

/// The left side is quantized as it comes, by one scale.
Values dynamic_quantize_matmul(const OpCall& call) {
  const Values a = call.as("DynamicQuantizeLinear", std::array<Value, 1>{call.in(0)});
  const std::array<Value, 4> inputs{a[0], call.value_in(1), a[2], call.optional(3)};
  const Tensor sums = to(call.as("MatMulInteger", inputs)[0].tensor, DType::f32);
  return {plus_optional(call, mul(sums, mul(a[1].tensor, call.in(2))), 4)};
}

Values same_as_onnx(const OpCall& call) {
  Values inputs;
  for (std::size_t i = 0; i < call.input_count(); ++i)
    inputs.push_back(call.has(i) ? call.value_in(i) : Value());
  return call.as(call.node().op, inputs);
}

constexpr std::array kFusedOps = {
    OpRow{"SimplifiedLayerNormalization", simplified_layer_norm, 2},
    OpRow{"com.microsoft.BiasGelu", erf_gelu, 2},
    OpRow{"com.microsoft.DequantizeLinear", same_as_onnx, 0, kOwnTypes},
    OpRow{"com.microsoft.DynamicQuantizeMatMul", dynamic_quantize_matmul},
    OpRow{"com.microsoft.EmbedLayerNormalization", embed_layer_norm},
    OpRow{"com.microsoft.FastGelu", fast_gelu, 2},
    OpRow{"com.microsoft.FusedConv", fused_convolution, kEveryInput},
    OpRow{"com.microsoft.FusedGemm", fused_gemm, kEveryInput},
    OpRow{"com.microsoft.FusedMatMul", fused_matmul, kEveryInput},
    OpRow{"com.microsoft.Gelu", erf_gelu, 1},
    OpRow{"com.microsoft.MatMulIntegerToFloat", integer_matmul_to_float},
    OpRow{"com.microsoft.QGemm", quantized_gemm, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearAdd", quantized_pair<add>, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearAveragePool", quantized_average_pool, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearConcat", quantized_concat, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearGlobalAveragePool", quantized_global_average_pool, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearLeakyRelu", quantized_leaky_relu, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearMul", quantized_pair<mul>, 0, kOwnTypes},
    OpRow{"com.microsoft.QLinearSigmoid", quantized_sigmoid, 0, kOwnTypes},
    OpRow{"com.microsoft.QuantizeLinear", same_as_onnx, 0, kOwnTypes},
    OpRow{"com.microsoft.QuickGelu", quick_gelu, 1},
    OpRow{"com.microsoft.SkipLayerNormalization", skip_layer_norm, kEveryInput},
    OpRow{"com.microsoft.SkipSimplifiedLayerNormalization", skip_rms_norm, kEveryInput}};

}  // namespace

std::span<const OpRow> fused_ops() { return kFusedOps; }

}  // namespace ingot::onnx
