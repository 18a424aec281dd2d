#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

// What models with a recurrent state have instead of attention, and the convolution before it.

namespace ingot::onnx {
namespace {

/// [B, T, H·D], read by head.
struct PackedHeads {
  std::vector<double> values;
  std::int64_t tokens = 0, heads = 0, width = 0;

  const double* at(std::int64_t batch, std::int64_t token, std::int64_t head) const {
    return values.data() + ((batch * tokens + token) * heads + head) * width;
  }
};

PackedHeads read_packed(const OpCall& call, std::size_t i, std::int64_t heads) {
  const Tensor& x = call.in(i, 3, 3);
  INGOT_CHECK(
      heads > 0 && x.dim(2) % heads == 0 && x.dim(0) == call.in(0).dim(0) && x.dim(1) == call.in(0).dim(1),
      DimensionMismatch(
          fmt::format("{}: input {} has shape {}, expected {} heads in the batch and tokens of {}",
                      call.where(), i, to_string(x.shape()), heads, to_string(call.in(0).shape()))));
  return {as_doubles(x), x.dim(1), heads, x.dim(2) / heads};
}

/// The recurrence of one head: a state [dk, dv] that keys write and queries read.
struct DeltaRule {
  bool gated = false, corrected = false;
  std::int64_t keys = 0, values = 0;

  void step(double* state, const double* k, const double* v, const double* decay, std::int64_t decays,
            double beta) const {
    for (std::int64_t i = 0; gated && i < keys; ++i) {
      const double factor = std::exp(decay[decays == 1 ? 0 : i]);
      for (std::int64_t j = 0; j < values; ++j) state[i * values + j] *= factor;
    }
    for (std::int64_t j = 0; j < values; ++j) {
      double read = 0;
      for (std::int64_t i = 0; corrected && i < keys; ++i) read += state[i * values + j] * k[i];
      const double written = corrected ? beta * (v[j] - read) : v[j];
      for (std::int64_t i = 0; i < keys; ++i) state[i * values + j] += k[i] * written;
    }
  }
};

Values linear_attention(const OpCall& call) {
  const std::int64_t query_heads = call.integer("q_num_heads", 0), heads = call.integer("kv_num_heads", 0);
  const PackedHeads q = read_packed(call, 0, query_heads), k = read_packed(call, 1, heads),
                    v = read_packed(call, 2, heads);
  INGOT_CHECK(query_heads % heads == 0 && q.width == k.width,
              DimensionMismatch(call.where() + ": queries do not fit the keys"));
  const std::string rule_name = call.text("update_rule", "gated_delta");
  const DeltaRule rule{rule_name.starts_with("gated"), rule_name.ends_with("delta"), k.width, v.width};
  if (!rule.gated && !rule.corrected && rule_name != "linear") call.refuse("update_rule " + rule_name);
  const PackedHeads decay = rule.gated ? read_packed(call, 4, heads) : PackedHeads{};
  INGOT_CHECK(!rule.gated || decay.width == 1 || decay.width == k.width,
              DimensionMismatch(call.where() + ": the decay fits neither heads nor keys"));
  const std::int64_t rates = rule.corrected && call.in(5, 3, 3).dim(2) == 1 ? 1 : heads;
  const PackedHeads beta = rule.corrected ? read_packed(call, 5, rates) : PackedHeads{};
  const std::int64_t batch = call.in(0).dim(0), group = query_heads / heads, cell = k.width * v.width;
  const Shape state_shape{batch, heads, k.width, v.width};
  std::vector<double> states(static_cast<std::size_t>(state_shape.numel()), 0);
  if (call.has(3)) {
    INGOT_CHECK(call.in(3).shape() == state_shape,
                ShapeMismatch(call.where(), state_shape.to_vector(), call.in(3).shape().to_vector()));
    states = as_doubles(call.in(3));
  }
  const double given = static_cast<double>(call.number("scale", 0)),
               factor = given == 0 ? 1 / std::sqrt(static_cast<double>(k.width)) : given;
  const Shape shape{batch, q.tokens, query_heads * v.width};
  std::vector<double> y(static_cast<std::size_t>(shape.numel()), 0);
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t head = 0; head < heads; ++head) {
      double* state = states.data() + (n * heads + head) * cell;
      for (std::int64_t t = 0; t < q.tokens; ++t) {
        rule.step(state, k.at(n, t, head), v.at(n, t, head), rule.gated ? decay.at(n, t, head) : nullptr,
                  decay.width, rule.corrected ? *beta.at(n, t, rates == 1 ? 0 : head) : 1);
        for (std::int64_t g = 0; g < group; ++g) {
          const double* query = q.at(n, t, head * group + g);
          double* out = y.data() + ((n * q.tokens + t) * query_heads + head * group + g) * v.width;
          for (std::int64_t i = 0; i < k.width; ++i) {
            for (std::int64_t j = 0; j < v.width; ++j) out[j] += factor * query[i] * state[i * v.width + j];
          }
        }
      }
    }
  }
  const DType state_dtype = call.has(3) ? call.in(3).dtype() : call.in(0).dtype();
  return {from_doubles(y, shape, call.in(0).dtype()), from_doubles(states, state_shape, state_dtype)};
}

/// Each channel by itself, over the positions up to its own; the last of them are the state.
Values causal_convolution(const OpCall& call) {
  const Tensor &x = call.in(0, 3, 3), &weight = call.in(1, 3, 3);
  const std::int64_t channels = x.dim(1), reach = weight.dim(2) - 1;
  INGOT_CHECK(weight.dim(0) == channels && weight.dim(1) == 1 && reach >= 0,
              ShapeMismatch(call.where(), {channels, 1, weight.dim(2)}, weight.shape().to_vector()));
  const Shape state_shape{x.dim(0), channels, reach};
  const Tensor past = call.has(3) ? call.in(3) : Tensor::zeros(state_shape, x.dtype());
  INGOT_CHECK(past.shape() == state_shape,
              ShapeMismatch(call.where(), state_shape.to_vector(), past.shape().to_vector()));
  const Tensor joined = reach == 0 ? contiguous(x) : concat(std::vector<Tensor>{past, x}, 2);
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor bias = call.has(2) ? to(call.in(2), dtype) : Tensor();
  Tensor y = conv1d(to(joined, dtype), to(weight, dtype), bias, {.groups = channels});
  const std::string activation = call.text("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = silu(y);
  } else if (activation != "none") {
    call.refuse("activation " + activation);
  }
  return {to(y, x.dtype()), contiguous(narrow(joined, 2, joined.dim(2) - reach, reach))};
}

constexpr std::array kLinearAttentionOps = {OpRow{"CausalConvWithState", causal_convolution},
                                            OpRow{"LinearAttention", linear_attention}};

}  // namespace

std::span<const OpRow> linear_attention_ops() { return kLinearAttentionOps; }

}  // namespace ingot::onnx
