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
#include "ingot/ops/group_norm.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// What ONNX Runtime makes of graphs that it optimizes or quantizes: its domain com.microsoft. Each is made of
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

/// Outputs: the norm, two that only training reads, and the sum that was normalized.
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

/// Embeddings of words, positions and segments, summed and normalized, and how many tokens each row has.
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
  // Rows may lie in front of the batch; then each side is a matrix of them.
  const auto side = [&](std::size_t i, const char* batch, const char* name) {
    Tensor x = call.in(i, 2);
    if (call.integer(batch, 0) != 0) {
      std::vector<int> order(static_cast<std::size_t>(x.rank()));
      for (int k = 0; k < x.rank(); ++k) order[static_cast<std::size_t>(k)] = k < x.rank() - 2 ? k + 1 : k;
      order[order.size() - 2] = 0;
      x = permute(x, order);
    }
    return contiguous(call.integer(name, 0) != 0 ? transpose(x, x.rank() - 2, x.rank() - 1) : x);
  };
  const Tensor y = matmul(side(0, "transBatchA", "transA"), side(1, "transBatchB", "transB"));
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

/// Softmax of scores and a bias, of all axes from `axis` on as one.
Values bias_softmax(const OpCall& call) {
  const Tensor x = add(call.in(0), call.in(1));
  const int axis = call.axis("axis", 1, x.rank());
  std::int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= x.dim(i);
  return {reshape(softmax(reshape(x, {rows, rows == 0 ? 0 : x.numel() / rows})), x.shape())};
}

Values bias_add(const OpCall& call) { return {add(add(call.in(0), call.in(1)), call.in(2))}; }

/// The left half times GELU of the right one.
Values bias_split_gelu(const OpCall& call) {
  const Tensor x = add(call.in(0, 1), call.in(1));
  const std::int64_t half = x.dim(-1) / 2;
  return {mul(narrow(x, x.rank() - 1, 0, half), gelu_erf(contiguous(narrow(x, x.rank() - 1, half, half))))};
}

/// Its images have their channels at the end unless channels_last is 0.
Values fused_group_norm(const OpCall& call) {
  const bool last = call.integer("channels_last", 1) != 0;
  const Tensor& given = call.in(0, 3);
  const int end = given.rank() - 1;
  // [N, C, P]: a group norm does not ask where the pixels are.
  const std::int64_t channels = given.dim(last ? end : 1);
  const auto flat = [&](const Tensor& x, std::int64_t a, std::int64_t b) {
    return contiguous(reshape(contiguous(x), {given.dim(0), a, b}));
  };
  const std::int64_t pixels = given.numel() == 0 ? 0 : given.numel() / (given.dim(0) * channels);
  const Tensor x =
      last ? contiguous(transpose(flat(given, pixels, channels), 1, 2)) : flat(given, channels, pixels);
  Tensor y = group_norm(x, call.in(1, 1, 1), call.in(2, 1, 1),
                        {.groups = call.integer("groups", 1), .eps = call.number("epsilon", 1e-5F)});
  if (call.integer("activation", 0) != 0) y = silu(y);
  return {reshape(last ? contiguous(transpose(y, 1, 2)) : y, given.shape())};
}

Values same_as_onnx(const OpCall& call) {
  Values inputs;
  for (std::size_t i = 0; i < call.input_count(); ++i)
    inputs.push_back(call.has(i) ? call.value_in(i) : Value());
  return call.as(call.node().op, inputs);
}

constexpr std::array kFusedOps = {
    OpRow{"SimplifiedLayerNormalization", simplified_layer_norm, 2},
    OpRow{"com.microsoft.BiasAdd", bias_add, kEveryInput},
    OpRow{"com.microsoft.BiasGelu", erf_gelu, 2},
    OpRow{"com.microsoft.BiasSoftmax", bias_softmax, kEveryInput},
    OpRow{"com.microsoft.BiasSplitGelu", bias_split_gelu, kEveryInput},
    OpRow{"com.microsoft.DequantizeLinear", same_as_onnx, 0, kOwnTypes},
    OpRow{"com.microsoft.EmbedLayerNormalization", embed_layer_norm},
    OpRow{"com.microsoft.FastGelu", fast_gelu, 2},
    OpRow{"com.microsoft.FusedConv", fused_convolution, kEveryInput},
    OpRow{"com.microsoft.FusedGemm", fused_gemm, kEveryInput},
    OpRow{"com.microsoft.FusedMatMul", fused_matmul, kEveryInput},
    OpRow{"com.microsoft.GatherND", same_as_onnx, 0, 0},
    OpRow{"com.microsoft.Gelu", erf_gelu, 1},
    OpRow{"com.microsoft.GridSample", same_as_onnx},
    OpRow{"com.microsoft.GroupNorm", fused_group_norm, kEveryInput},
    OpRow{"com.microsoft.QuantizeLinear", same_as_onnx, 0, kOwnTypes},
    OpRow{"com.microsoft.QuickGelu", quick_gelu, 1},
    OpRow{"com.microsoft.Range", same_as_onnx, 0, 0},
    OpRow{"com.microsoft.SkipLayerNormalization", skip_layer_norm, kEveryInput},
    OpRow{"com.microsoft.SkipSimplifiedLayerNormalization", skip_rms_norm, kEveryInput},
    OpRow{"com.microsoft.TransposeMatMul", fused_matmul, kEveryInput},
    OpRow{"com.microsoft.Trilu", same_as_onnx, 0, 0}};

}  // namespace

std::span<const OpRow> fused_ops() { return kFusedOps; }

}  // namespace ingot::onnx
