#include "ingot/ops/norm.h"

#include <array>
#include <string>
#include <type_traits>

#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/norm.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

// Launch the backward kernels; `input` is the number of the weight among the node's inputs.
struct RmsNormSaved {
  SavedTensor x, weight, rstd;
  float weight_offset;
  RmsNormSaved(const Tensor& x_, const Tensor& weight_, const Tensor& rstd_, float weight_offset_)
      : x(x_), weight(weight_), rstd(rstd_), weight_offset(weight_offset_) {}
  std::vector<SavedTensor*> all() { return {&x, &weight, &rstd}; }

  void launch_backward(BackwardContext& ctx, const Tensor& dy, const GradSlot& dx, int input) const {
    Tensor partials;
    if (ctx.needs(input)) {
      partials =
          Tensor::empty({kernels::scratch_parts(dy.device()), dy.dim(-1)}, rstd.get().dtype(), dy.device());
    }
    const GradSlot dweight = ctx.slot(input);
    kernels::launch(kernels::rms_norm_backward, current_stream(dy.device()),
                    {.x = x.view(),
                     .weight = weight.view(),
                     .rstd = rstd.view(),
                     .dy = dy.view(),
                     .dx = dx.view,
                     .dweight = dweight.view,
                     .partials = partials.view(),
                     .weight_offset = weight_offset,
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dweight = dweight.accumulate});
  }
};

struct LayerNormSaved {
  SavedTensor x, weight, mean, rstd;
  LayerNormSaved(const Tensor& x_, const Tensor& weight_, const Tensor& mean_, const Tensor& rstd_)
      : x(x_), weight(weight_), mean(mean_), rstd(rstd_) {}
  std::vector<SavedTensor*> all() { return {&x, &weight, &mean, &rstd}; }

  void launch_backward(BackwardContext& ctx, const Tensor& dy, const GradSlot& dx, int input) const {
    Tensor partials;
    if (ctx.needs(input) || ctx.needs(input + 1)) {
      partials = Tensor::empty({kernels::scratch_parts(dy.device()), 2, dy.dim(-1)}, rstd.get().dtype(),
                               dy.device());
    }
    const GradSlot dweight = ctx.slot(input), dbias = ctx.slot(input + 1);
    kernels::launch(kernels::layer_norm_backward, current_stream(dy.device()),
                    {.x = x.view(),
                     .weight = weight.view(),
                     .mean = mean.view(),
                     .rstd = rstd.view(),
                     .dy = dy.view(),
                     .dx = dx.view,
                     .dweight = dweight.view,
                     .dbias = dbias.view,
                     .partials = partials.view(),
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dweight = dweight.accumulate,
                     .accumulate_dbias = dbias.accumulate});
  }
};

template <class Saved>
constexpr const char* kNormName = std::is_same_v<Saved, RmsNormSaved> ? "rms_norm" : "layer_norm";
template <class Saved>
constexpr const char* kAddNormName = std::is_same_v<Saved, RmsNormSaved> ? "add_rms_norm" : "add_layer_norm";

// Inputs: x, weight(, bias).
template <class Saved>
struct NormNode final : Node {
  Saved kept;
  template <class... Args>
  explicit NormNode(const Args&... args) : kept(args...) {}
  std::string_view name() const override { return kNormName<Saved>; }
  std::vector<SavedTensor*> saved() override { return kept.all(); }
  void backward(BackwardContext& ctx) override { kept.launch_backward(ctx, ctx.grad(), ctx.slot(0), 1); }
};

// Inputs: x, residual, weight(, bias); outputs: the sum and the norm of it. Both summands have one gradient,
// the sum's: what came to it and what comes through the norm.
template <class Saved>
struct AddNormNode final : Node {
  Saved kept;
  template <class... Args>
  explicit AddNormNode(const Args&... args) : kept(args...) {}
  std::string_view name() const override { return kAddNormName<Saved>; }
  std::vector<SavedTensor*> saved() override { return kept.all(); }

  void backward(BackwardContext& ctx) override {
    const Tensor &dsum = ctx.grad(0), &dy = ctx.grad(1);
    Tensor gradient = dsum;
    if (dy.defined()) {
      GradSlot to;
      if (ctx.needs(0) || ctx.needs(1)) {
        // In place where nobody else holds that memory; `gradient` is the second handle.
        if (dsum.defined() && dsum.storage().use_count() > 2) gradient = clone(dsum);
        if (!dsum.defined()) gradient = Tensor::empty_like(dy);
        to = {gradient.view(), dsum.defined()};
      }
      kept.launch_backward(ctx, dy, to, 2);
    }
    if (ctx.needs(0)) ctx.pass(0, gradient);
    if (ctx.needs(1)) ctx.pass(1, gradient);
  }
};

void check_per_feature(const char* where, const Tensor& x, const Tensor& values) {
  if (!values.defined()) return;
  check_defined(where, {&x, &values});
  INGOT_CHECK(x.rank() >= 1 && values.shape() == Shape({x.dim(-1)}),
              ShapeMismatch(where, {x.rank() >= 1 ? x.dim(-1) : 1}, values.shape().to_vector(),
                            "there is one value per element of the last axis"));
}

void check_summands(const char* where, const Tensor& x, const Tensor& residual, const Tensor& sum) {
  check_defined(where, {&x, &residual});
  INGOT_CHECK(x.shape() == residual.shape(),
              ShapeMismatch(where, x.shape().to_vector(), residual.shape().to_vector(),
                            "a residual connection adds tensors of one shape"));
  if (!sum.defined()) return;
  check_defined(where, {&x, &sum});
  INGOT_CHECK(sum.shape() == x.shape() && sum.is_contiguous(),
              ShapeMismatch(where, x.shape().to_vector(), sum.shape().to_vector(),
                            "the output of a sum is contiguous and has the summands' shape"));
  INGOT_CHECK(!grad_enabled(),
              Error(std::string(where) + ": a sum with an output of its own has no gradient; "
                                         "use a NoGrad scope"));
}

// Where the sum goes: nowhere without a residual, to `output`, or to a new tensor.
Tensor sum_of(const Tensor& x, const Tensor& residual, const Tensor& output) {
  if (!residual.defined()) return {};
  return output.defined() ? output : Tensor::empty_like(x);
}

using Inputs = std::span<const Tensor>;

// With a residual, the result's `sum` is made and recorded; else it stays undefined.
NormedSum rms_norm_of(const char* where, const Tensor& x, const Tensor& residual, const Tensor& weight,
                      float eps, float weight_offset, const Tensor& output = {}) {
  INGOT_CHECK(
      x.rank() >= 1 && weight.shape() == Shape({x.dim(-1)}),
      ShapeMismatch(std::string(where) + " (weight)", {x.rank() >= 1 ? x.dim(-1) : 1},
                    weight.shape().to_vector(), "the weight has one value per element of the last axis"));
  const Tensor sum = sum_of(x, residual, output);
  const Tensor y = Tensor::empty_like(x);
  const Tensor rstd = Tensor::empty(x.shape().drop_last(), accumulator_dtype(x.dtype()), x.device());
  kernels::launch(kernels::rms_norm, current_stream(x.device()),
                  {.x = x.view(),
                   .weight = weight.view(),
                   .y = y.view(),
                   .rstd = rstd.view(),
                   .eps = eps,
                   .weight_offset = weight_offset,
                   .residual = residual.view(),
                   .sum = sum.view()});
  const auto again = [eps, weight_offset](Inputs in) { return rms_norm(in[0], in[1], eps, weight_offset); };
  if (!residual.defined()) {
    const Tensor normed = record<NormNode<RmsNormSaved>>(y, {&x, &weight}, x, weight, rstd, weight_offset);
    return {{}, recomputable(normed, {&x, &weight}, again)};
  }
  std::array<Tensor, 2> outputs{sum, y};
  const std::array<const Tensor*, 3> inputs{&x, &residual, &weight};
  record_all<AddNormNode<RmsNormSaved>>(outputs, inputs, sum, weight, rstd, weight_offset);
  return {outputs[0], recomputable(outputs[1], {&outputs[0], &weight}, again)};
}

NormedSum layer_norm_of(const char* where, const Tensor& x, const Tensor& residual, const Tensor& weight,
                        const Tensor& bias, float eps, const Tensor& output = {}) {
  INGOT_CHECK(x.rank() >= 1, DimensionMismatch(std::string(where) + ": a scalar has no last axis"));
  check_per_feature((std::string(where) + " (weight)").c_str(), x, weight);
  check_per_feature((std::string(where) + " (bias)").c_str(), x, bias);
  const Tensor sum = sum_of(x, residual, output);
  const Tensor y = Tensor::empty_like(x);
  const DType accumulator = accumulator_dtype(x.dtype());
  const Tensor mean = Tensor::empty(x.shape().drop_last(), accumulator, x.device());
  const Tensor rstd = Tensor::empty(x.shape().drop_last(), accumulator, x.device());
  kernels::launch(kernels::layer_norm, current_stream(x.device()),
                  {.x = x.view(),
                   .weight = weight.view(),
                   .bias = bias.view(),
                   .y = y.view(),
                   .mean = mean.view(),
                   .rstd = rstd.view(),
                   .eps = eps,
                   .residual = residual.view(),
                   .sum = sum.view()});
  const auto again = [eps](Inputs in) { return layer_norm(in[0], in[1], in[2], eps); };
  if (!residual.defined()) {
    const Tensor normed = record<NormNode<LayerNormSaved>>(y, {&x, &weight, &bias}, x, weight, mean, rstd);
    return {{}, recomputable(normed, {&x, &weight, &bias}, again)};
  }
  std::array<Tensor, 2> outputs{sum, y};
  const std::array<const Tensor*, 4> inputs{&x, &residual, &weight, &bias};
  record_all<AddNormNode<LayerNormSaved>>(outputs, inputs, sum, weight, mean, rstd);
  return {outputs[0], recomputable(outputs[1], {&outputs[0], &weight, &bias}, again)};
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, float eps, float weight_offset) {
  const OpScope op_scope("rms_norm", {&x, &weight});
  return rms_norm_of("rms_norm", contiguous(x), {}, weight, eps, weight_offset).normed;
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps) {
  const OpScope op_scope("layer_norm", {&x});
  return layer_norm_of("layer_norm", contiguous(x), {}, weight, bias, eps).normed;
}

NormedSum add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, float eps,
                       float weight_offset, const Tensor& sum) {
  const OpScope op_scope("add_rms_norm", {&x, &residual, &weight});
  check_summands("add_rms_norm", x, residual, sum);
  return rms_norm_of("add_rms_norm", contiguous(x), contiguous(residual), weight, eps, weight_offset, sum);
}

NormedSum add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                         float eps, const Tensor& sum) {
  const Scope scope(ScopeKind::op, "add_layer_norm");
  check_summands("add_layer_norm", x, residual, sum);
  return layer_norm_of("add_layer_norm", contiguous(x), contiguous(residual), weight, bias, eps, sum);
}

}  // namespace ingot
