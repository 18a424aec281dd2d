#include <array>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/rope.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/rope.h"
#include "ingot/ops/rope_operands.h"

namespace ingot {
namespace {

// What heads that were normalized and rotated keep, but for their angles. x and dx may be a part of the heads
// of a tensor.
struct SavedHeads {
  SavedTensor x, weight, rstd;
  float weight_offset;
  SavedHeads(const Tensor& x_, const Tensor& weight_, const Tensor& rstd_, float weight_offset_)
      : x(x_), weight(weight_), rstd(rstd_), weight_offset(weight_offset_) {}

  // `input` is the number of the weight among the node's inputs.
  void launch_backward(BackwardContext& ctx, const SavedAngles& angles, const Tensor& dy, const GradSlot& dx,
                       int input) const {
    Tensor partials;
    if (ctx.needs(input)) {
      partials =
          Tensor::empty({kernels::scratch_parts(dy.device()), dy.dim(3)}, rstd.get().dtype(), dy.device());
    }
    const GradSlot dweight = ctx.slot(input);
    kernels::launch(kernels::rms_norm_rope_backward, current_stream(dy.device()),
                    {.x = x.view(),
                     .weight = weight.view(),
                     .rstd = rstd.view(),
                     .dy = dy.view(),
                     .dx = dx.view,
                     .dweight = dweight.view,
                     .partials = partials.view(),
                     .angles = angles.of(dy.view()),
                     .weight_offset = weight_offset,
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dweight = dweight.accumulate});
  }
};

// Inputs: x, weight.
struct RmsNormRopeNode final : Node {
  static constexpr const char* kName = "rms_norm_rope";
  SavedHeads heads;
  SavedAngles angles;
  RmsNormRopeNode(const SavedHeads& heads_, const SavedAngles& angles_) : heads(heads_), angles(angles_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override {
    return {&heads.x, &heads.weight, &heads.rstd, &angles.cos, &angles.sin, &angles.positions};
  }
  void backward(BackwardContext& ctx) override {
    heads.launch_backward(ctx, angles, ctx.grad(), ctx.slot(0), 1);
  }
};

// Inputs: fused q, k and v, the weights of q's and k's norm; outputs: q, k, v.
struct RmsNormRopeQkvNode final : Node {
  static constexpr const char* kName = "rms_norm_rope_qkv";
  SavedHeads q, k;
  SavedAngles angles;
  RmsNormRopeQkvNode(const SavedHeads& q_, const SavedHeads& k_, const SavedAngles& angles_)
      : q(q_), k(k_), angles(angles_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override {
    return {&q.x, &q.weight, &q.rstd, &k.x, &k.weight, &k.rstd, &angles.cos, &angles.sin, &angles.positions};
  }

  void backward(BackwardContext& ctx) override {
    const std::int64_t query_heads = q.x.view().dim(2), kv_heads = k.x.view().dim(2);
    const GradSlot dx = ctx.slot(0);
    const auto part = [&dx](std::int64_t begin, std::int64_t count) {
      return dx ? GradSlot{heads_of(dx.view, begin, count), dx.accumulate} : GradSlot{};
    };
    const GradSlot dq = part(0, query_heads), dk = part(query_heads, kv_heads);
    if (ctx.grad(0).defined()) q.launch_backward(ctx, angles, ctx.grad(0), dq, 1);
    if (ctx.grad(1).defined()) k.launch_backward(ctx, angles, ctx.grad(1), dk, 2);
    if (!dx) return;
    if (!ctx.grad(0).defined()) take(Tensor{}, dq);
    if (!ctx.grad(1).defined()) take(Tensor{}, dk);
    take(ctx.grad(2), part(query_heads + kv_heads, kv_heads));
  }

 private:
  // A gradient as it is, or none.
  static void take(const Tensor& gradient, const GradSlot& to) {
    const Stream stream = current_stream(to.view.device);
    if (gradient.defined()) {
      kernels::launch(kernels::copy, stream,
                      {.x = gradient.view(), .y = to.view, .accumulate = to.accumulate});
    } else if (!to.accumulate) {
      kernels::launch(kernels::fill, stream, {.y = to.view, .value = 0});
    }
  }
};

Tensor checked_weight(const Tensor& x, const Tensor& weight) {
  check_defined("rms_norm_rope", {&x, &weight});
  INGOT_CHECK(weight.shape() == Shape({x.dim(3)}),
              ShapeMismatch("rms_norm_rope (weight)", {x.dim(3)}, weight.shape().to_vector(),
                            "the weight has one value per element of a head"));
  return contiguous(weight);
}

// Undefined where nothing is recorded.
Tensor room_for_rstd(const View& x, bool recorded) {
  return recorded ? Tensor::empty(Shape({x.dim(0), x.dim(1), x.dim(2)}), accumulator_dtype(x.dtype), x.device)
                  : Tensor{};
}

// One of two tensors that one launch normalizes and rotates.
struct Heads {
  View x;
  Tensor weight, rstd, y;
  Heads(const View& x_, const Tensor& weight_, bool recorded)
      : x(x_),
        weight(weight_),
        rstd(room_for_rstd(x_, recorded)),
        y(Tensor::empty(Shape({x_.dim(0), x_.dim(1), x_.dim(2), x_.dim(3)}), x_.dtype, x_.device)) {}
};

void launch_pair(const Heads& q, const Heads& k, float eps, float weight_offset,
                 const kernels::RopeAngles& angles) {
  kernels::launch(kernels::rms_norm_rope, current_stream(q.x.device),
                  {.x = q.x,
                   .weight = q.weight.view(),
                   .y = q.y.view(),
                   .rstd = q.rstd.view(),
                   .angles = angles,
                   .eps = eps,
                   .weight_offset = weight_offset,
                   .also_x = k.x,
                   .also_weight = k.weight.view(),
                   .also_y = k.y.view(),
                   .also_rstd = k.rstd.view()});
}

}  // namespace

Tensor rms_norm_rope(const Tensor& input, const Tensor& weight_input, float eps, float weight_offset,
                     const RopeTable& table, const RopeOptions& options) {
  const Scope scope(ScopeKind::op, "rms_norm_rope");
  const Tensor x = checked_heads("rms_norm_rope", input, table, options);
  const Tensor weight = checked_weight(x, weight_input);
  Tensor y = Tensor::empty_like(x);
  const Tensor rstd = room_for_rstd(x.view(), needs_grad({&x, &weight}));
  kernels::launch(kernels::rms_norm_rope, current_stream(x.device()),
                  {.x = x.view(),
                   .weight = weight.view(),
                   .y = y.view(),
                   .rstd = rstd.view(),
                   .angles = angles_of(x.view(), table.cos.view(), table.sin.view(), options),
                   .eps = eps,
                   .weight_offset = weight_offset});
  y = record<RmsNormRopeNode>(y, {&x, &weight}, SavedHeads(x, weight, rstd, weight_offset),
                              SavedAngles(table, options));
  return recomputable(y, {&x, &weight, &table.cos, &table.sin, &options.positions},
                      [eps, weight_offset, options = without_positions(options)](std::span<const Tensor> in) {
                        RopeOptions all = options;
                        all.positions = in[4];
                        return rms_norm_rope(in[0], in[1], eps, weight_offset, {in[2], in[3]}, all);
                      });
}

std::array<Tensor, 2> rms_norm_rope(const HeadsAndWeight& q, const HeadsAndWeight& k, float eps,
                                    float weight_offset, const RopeTable& table, const RopeOptions& options) {
  const Scope scope(ScopeKind::op, "rms_norm_rope");
  if (needs_grad({&q.x, &q.weight, &k.x, &k.weight}))
    return {rms_norm_rope(q.x, q.weight, eps, weight_offset, table, options),
            rms_norm_rope(k.x, k.weight, eps, weight_offset, table, options)};
  const Tensor x = checked_heads("rms_norm_rope", q.x, table, options),
               also = checked_heads("rms_norm_rope", k.x, table, options);
  check_pair("rms_norm_rope", x, also);
  const Heads first(x.view(), checked_weight(x, q.weight), false),
      second(also.view(), checked_weight(also, k.weight), false);
  launch_pair(first, second, eps, weight_offset, angles_of_pair(x.view(), also.view(), table, options));
  return {first.y, second.y};
}

std::array<Tensor, 3> rms_norm_rope_qkv(const Tensor& input, std::int64_t kv_heads, const HeadNorms& norms,
                                        const RopeTable& table, const RopeOptions& options) {
  const Tensor x = checked_heads("rms_norm_rope_qkv", input, table, options);
  const std::int64_t query_heads = x.dim(2) - 2 * kv_heads;
  INGOT_CHECK(kv_heads > 0 && query_heads > 0,
              ShapeMismatch("rms_norm_rope_qkv", {-1, -1, 2 * kv_heads + 1, -1}, x.shape().to_vector(),
                            "the axes are batch, sequence, heads of q, k and v, head size"));
  const Tensor query = checked_weight(x, norms.query), key = checked_weight(x, norms.key);
  const bool recorded = needs_grad({&x, &query, &key});
  const Heads q(heads_of(x.view(), 0, query_heads), query, recorded),
      k(heads_of(x.view(), query_heads, kv_heads), key, recorded);
  launch_pair(q, k, norms.eps, norms.weight_offset, angles_of_pair(q.x, k.x, table, options));
  const Tensor v(x.storage(), heads_of(x.view(), query_heads + kv_heads, kv_heads));
  std::array<Tensor, 3> results{q.y, k.y, v};
  const std::array<const Tensor*, 3> inputs{&x, &query, &key};
  const auto saved = [&](const Heads& of) {
    return SavedHeads(Tensor(x.storage(), of.x), of.weight, of.rstd, norms.weight_offset);
  };
  record_all<RmsNormRopeQkvNode>(results, inputs, saved(q), saved(k), SavedAngles(table, options));
  const auto again = [&](Tensor result, const Tensor& weight, std::int64_t begin, std::int64_t count) {
    return recomputable(std::move(result), {&x, &weight, &table.cos, &table.sin, &options.positions},
                        [=, eps = norms.eps, offset = norms.weight_offset,
                         options = without_positions(options)](std::span<const Tensor> in) {
                          RopeOptions all = options;
                          all.positions = in[4];
                          const Tensor part(in[0].storage(), heads_of(in[0].view(), begin, count));
                          return rms_norm_rope(part, in[1], eps, offset, {in[2], in[3]}, all);
                        });
  };
  return {again(results[0], query, 0, query_heads), again(results[1], key, query_heads, kv_heads),
          results[2]};
}

}  // namespace ingot
