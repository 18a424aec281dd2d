#include "ingot/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/attention.h"
#include "ingot/kernels/kernel_traits.h"
#include "ingot/ops/attention_launch.h"
#include "ingot/ops/attention_sinks.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/composed_attention.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

kernels::AttentionMask mask_of(const AttentionOptions& options) {
  return {.doc_start = options.doc_start.view(),
          .kv_length = options.kv_length.view(),
          .window = options.window,
          .chunk = options.chunk,
          .causal = options.causal};
}

// What kernels keep of each query between theirs.
Tensor room_for_delta(const View& lse, Device device) {
  if (!kernels::kernel_traits(device).scratch) return {};
  return Tensor::empty(Shape({lse.dim(0), lse.dim(1), lse.dim(2)}), DType::f32, device);
}

struct AttentionNode final : Node {
  static constexpr const char* kName = "attention";
  SavedTensor q, k, v, out, lse, doc_start, kv_length, sinks;
  AttentionOptions options;
  AttentionNode(const Tensor& q_, const Tensor& k_, const Tensor& v_, const Tensor& out_, const Tensor& lse_,
                const AttentionOptions& options_)
      : q(q_),
        k(k_),
        v(v_),
        out(out_),
        lse(lse_),
        doc_start(options_.doc_start),
        kv_length(options_.kv_length),
        sinks(options_.sinks),
        options(options_) {
    options.doc_start = options.kv_length = options.sinks = {};
  }
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override {
    return {&q, &k, &v, &out, &lse, &doc_start, &kv_length, &sinks};
  }

  void backward(BackwardContext& ctx) override {
    if (sinks.defined() && ctx.needs(3))
      ctx.pass(3, gradient_of_sinks(sinks.get(), out.get(), lse.get(), ctx.grad()));
    const GradSlot dq = ctx.slot(0), dk = ctx.slot(1), dv = ctx.slot(2);
    kernels::AttentionMask mask = mask_of(options);
    mask.doc_start = doc_start.view();
    mask.kv_length = kv_length.view();
    const Tensor delta = room_for_delta(lse.view(), ctx.stream().device);
    kernels::launch(kernels::attention_backward, ctx.stream(),
                    {.q = q.view(),
                     .k = k.view(),
                     .v = v.view(),
                     .out = out.view(),
                     .lse = lse.view(),
                     .dout = ctx.grad().view(),
                     .dq = dq.view,
                     .dk = dk.view,
                     .dv = dv.view,
                     .delta = delta.view(),
                     .mask = mask,
                     .scale = options.scale,
                     .softcap = options.softcap,
                     .accumulate_dq = dq.accumulate,
                     .accumulate_dk = dk.accumulate,
                     .accumulate_dv = dv.accumulate});
  }
};

struct AttentionQkvNode final : Node {
  static constexpr const char* kName = "attention_qkv";
  SavedTensor qkv, out, lse, doc_start, kv_length, sinks;
  std::int64_t query_heads, key_value_heads;
  AttentionOptions options;
  AttentionQkvNode(const Tensor& qkv_, const Tensor& out_, const Tensor& lse_, std::int64_t key_value_heads_,
                   const AttentionOptions& options_)
      : qkv(qkv_),
        out(out_),
        lse(lse_),
        doc_start(options_.doc_start),
        kv_length(options_.kv_length),
        sinks(options_.sinks),
        query_heads(out_.dim(2)),
        key_value_heads(key_value_heads_),
        options(options_) {
    options.doc_start = options.kv_length = options.sinks = {};
  }
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&qkv, &out, &lse, &doc_start, &kv_length, &sinks}; }

  void backward(BackwardContext& ctx) override {
    if (sinks.defined() && ctx.needs(1))
      ctx.pass(1, gradient_of_sinks(sinks.get(), out.get(), lse.get(), ctx.grad()));
    const GradSlot d = ctx.slot(0);
    kernels::AttentionMask mask = mask_of(options);
    mask.doc_start = doc_start.view();
    mask.kv_length = kv_length.view();
    const View x = qkv.view();
    const std::int64_t nq = query_heads, nk = key_value_heads;
    const Tensor delta = room_for_delta(lse.view(), ctx.stream().device);
    kernels::launch(kernels::attention_backward, ctx.stream(),
                    {.q = heads_of(x, 0, nq),
                     .k = heads_of(x, nq, nk),
                     .v = heads_of(x, nq + nk, nk),
                     .out = out.view(),
                     .lse = lse.view(),
                     .dout = ctx.grad().view(),
                     .dq = heads_of(d.view, 0, nq),
                     .dk = heads_of(d.view, nq, nk),
                     .dv = heads_of(d.view, nq + nk, nk),
                     .delta = delta.view(),
                     .mask = mask,
                     .scale = options.scale,
                     .softcap = options.softcap,
                     .accumulate_dq = d.accumulate,
                     .accumulate_dk = d.accumulate,
                     .accumulate_dv = d.accumulate});
  }
};

Tensor adjacent_heads(const Tensor& x) { return x.stride(-1) == 1 || x.dim(-1) == 1 ? x : contiguous(x); }

AttentionOptions resolved(const char* op, const View& q, const View& k, AttentionOptions options) {
  INGOT_CHECK(options.window >= 0,
              InvalidConfig("window", "must be 0 (off) or positive, got " + std::to_string(options.window)));
  INGOT_CHECK(options.chunk == 0 || (options.chunk > 0 && options.causal),
              InvalidConfig("chunk", "must be 0 (off), or positive in causal attention, got " +
                                         std::to_string(options.chunk)));
  if (options.scale == 0.0F) options.scale = 1.0F / std::sqrt(static_cast<float>(q.dim(3)));
  const auto check_indices = [&](Tensor& x, const Shape& shape, const char* what) {
    if (!x.defined()) return;
    INGOT_CHECK(x.shape() == shape,
                ShapeMismatch(std::string(op) + " (" + what + ")", shape.to_vector(), x.shape().to_vector()));
    INGOT_CHECK(x.dtype() == DType::i32, KernelError(op, std::string(what) + " must be i32"));
    x = contiguous(x);
  };
  check_indices(options.doc_start, Shape({q.dim(0), q.dim(1)}), "doc_start");
  check_indices(options.kv_length, Shape({q.dim(0)}), "kv_length");
  INGOT_CHECK(!options.sinks.defined() || options.sinks.shape() == Shape({q.dim(2)}),
              ShapeMismatch(std::string(op) + " (sinks)", {q.dim(2)}, options.sinks.shape().to_vector(),
                            "one logit for each query head"));
  INGOT_CHECK(!options.doc_start.defined() || options.causal || q.dim(1) == k.dim(1),
              ShapeMismatch(std::string(op) + " (doc_start without causal)", {q.dim(0), q.dim(1)},
                            {k.dim(0), k.dim(1)}, "as many queries as keys are needed"));
  return options;
}

void check_heads(const char* op, std::int64_t query_heads, std::int64_t key_value_heads) {
  INGOT_CHECK(key_value_heads > 0 && query_heads % key_value_heads == 0,
              DimensionMismatch(std::string(op) + ": " + std::to_string(query_heads) +
                                " query heads cannot share " + std::to_string(key_value_heads) +
                                " key/value heads; the first must be a multiple of the second"));
}

struct Output {
  Tensor out, lse;
};

Output run(const View& q, const View& k, const View& v, bool recorded, const AttentionOptions& options) {
  const bool with_lse = recorded || options.sinks.defined();
  Output y;
  y.out = Tensor::empty({q.dim(0), q.dim(1), q.dim(2), v.dim(3)}, q.dtype, q.device);
  if (with_lse) y.lse = Tensor::empty({q.dim(0), q.dim(2), q.dim(1)}, accumulator_dtype(q.dtype), q.device);
  launch_attention({.q = q,
                    .k = k,
                    .v = v,
                    .out = y.out.view(),
                    .lse = y.lse.view(),
                    .mask = mask_of(options),
                    .scale = options.scale,
                    .softcap = options.softcap,
                    .bf16_matmuls = options.bf16_matmuls && !recorded});
  if (options.sinks.defined()) let_sinks_in(options.sinks, y.out, y.lse);
  return y;
}

// Of queries and keys, and of values: whether the device has kernels for them.
bool has_kernels(std::int64_t head_size, std::int64_t value_size, Device device) {
  return std::max(head_size, value_size) <= kernels::kernel_traits(device).widest_head;
}

}  // namespace

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionOptions& options) {
  const OpScope op_scope("attention", {&query, &key, &value});
  for (const Tensor* x : {&query, &key, &value}) {
    INGOT_CHECK(x->rank() == 4,
                DimensionMismatch("attention takes [batch, sequence, heads, head size], got " +
                                  to_string(x->shape())));
  }
  check_heads("attention", query.dim(2), key.dim(2));
  INGOT_CHECK(key.dim(0) == query.dim(0) && key.dim(3) == query.dim(3),
              ShapeMismatch("attention (keys)", {query.dim(0), key.dim(1), key.dim(2), query.dim(3)},
                            key.shape().to_vector()));
  INGOT_CHECK(value.shape() == key.shape().with(3, value.dim(3)),
              ShapeMismatch("attention (values)", {key.dim(0), key.dim(1), key.dim(2), value.dim(3)},
                            value.shape().to_vector()));
  const Tensor q = adjacent_heads(query), k = adjacent_heads(key), v = adjacent_heads(value);
  const AttentionOptions o = resolved("attention", q.view(), k.view(), options);
  if (!has_kernels(q.dim(3), v.dim(3), q.device())) return composed_attention(q, k, v, o);
  const Output y =
      run(q.view(), k.view(), v.view(), needs_grad({&q, &k, &v, &o.sinks}) || recorded_later(), o);
  return record<AttentionNode>(y.out, {&q, &k, &v, &o.sinks}, q, k, v, y.out, y.lse, o);
}

Tensor attention_qkv(const Tensor& input, std::int64_t query_heads, std::int64_t key_value_heads,
                     const AttentionOptions& options) {
  const OpScope op_scope("attention_qkv", {&input});
  check_heads("attention_qkv", query_heads, key_value_heads);
  INGOT_CHECK(input.rank() == 4 && input.dim(2) == query_heads + 2 * key_value_heads,
              ShapeMismatch("attention_qkv", {-1, -1, query_heads + 2 * key_value_heads, -1},
                            input.shape().to_vector(), "the axes are batch, sequence, heads, head size"));
  const Tensor x = adjacent_heads(input);
  const View q = heads_of(x.view(), 0, query_heads), k = heads_of(x.view(), query_heads, key_value_heads);
  const View v = heads_of(x.view(), query_heads + key_value_heads, key_value_heads);
  const AttentionOptions o = resolved("attention_qkv", q, k, options);
  if (!has_kernels(x.dim(3), x.dim(3), x.device()))
    return composed_attention(narrow(x, 2, 0, query_heads), narrow(x, 2, query_heads, key_value_heads),
                              narrow(x, 2, query_heads + key_value_heads, key_value_heads), o);
  const Output y = run(q, k, v, needs_grad({&x, &o.sinks}) || recorded_later(), o);
  return record<AttentionQkvNode>(y.out, {&x, &o.sinks}, x, y.out, y.lse, key_value_heads, o);
}

}  // namespace ingot
