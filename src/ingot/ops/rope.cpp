#include "ingot/ops/rope.h"

#include <algorithm>
#include <cmath>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/rope.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

View positions_view(const Tensor& positions, std::int64_t batch) {
  View view = positions.view();
  if (!positions.defined() || view.rank == 2) return view;
  view.rank = 2;
  view.shape = {batch, positions.dim(0)};
  view.strides = {0, positions.stride(0)};
  return view;
}

kernels::RopeAngles angles_of(const View& x, const View& cos, const View& sin, const RopeOptions& options) {
  return {.cos = cos,
          .sin = sin,
          .positions = positions_view(options.positions, x.dim(0)),
          .offset = options.offset,
          .rotated_heads = options.heads > 0 ? options.heads : x.dim(2),
          .interleaved = options.interleaved};
}

// For what outlives the call and keeps the positions as a SavedTensor.
RopeOptions without_positions(RopeOptions options) {
  options.positions = {};
  return options;
}

// Whether nobody but this handle would see a change of the memory.
bool is_held_once(const Tensor& x) { return x.storage().use_count() == 1; }

// The heads that are turned, of x [batch, sequence, heads, head size].
View turned_heads(const Tensor& x, const RopeOptions& options) {
  View view = x.view();
  if (options.heads > 0) view.shape[2] = options.heads;
  return view;
}

// What turned heads keep for the way back.
struct SavedAngles {
  SavedTensor cos, sin, positions;
  RopeOptions options;
  SavedAngles(const RopeTable& table, const RopeOptions& options_)
      : cos(table.cos), sin(table.sin), positions(options_.positions), options(without_positions(options_)) {}

  kernels::RopeAngles of(const View& x) const {
    RopeOptions all = options;
    if (positions.defined()) all.positions = positions.get();
    return angles_of(x, cos.view(), sin.view(), all);
  }
};

struct RopeNode final : Node {
  static constexpr const char* kName = "rope";
  SavedAngles angles;
  RopeNode(const RopeTable& table, const RopeOptions& options) : angles(table, options) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&angles.cos, &angles.sin, &angles.positions}; }

  void backward(BackwardContext& ctx) override {
    if (!ctx.needs(0)) return;
    const Tensor& dy = ctx.grad();
    if (!ctx.has_gradient(0) && is_held_once(dy)) {
      const View heads = turned_heads(dy, angles.options);
      turn_back(ctx.stream(), heads, heads, false);
      return ctx.pass(0, dy);
    }
    const GradSlot dx = ctx.slot(0);
    turn_back(ctx.stream(), dy.view(), dx.view, dx.accumulate);
  }

 private:
  void turn_back(Stream stream, const View& dy, const View& dx, bool accumulate) {
    kernels::launch(kernels::rope, stream,
                    {.x = dy, .y = dx, .angles = angles.of(dy), .inverse = true, .accumulate = accumulate});
  }
};

// Inputs: x, weight.
struct RmsNormRopeNode final : Node {
  static constexpr const char* kName = "rms_norm_rope";
  SavedTensor x, weight, rstd;
  float weight_offset;
  SavedAngles angles;
  RmsNormRopeNode(const Tensor& x_, const Tensor& weight_, const Tensor& rstd_, float weight_offset_,
                  const RopeTable& table, const RopeOptions& options)
      : x(x_), weight(weight_), rstd(rstd_), weight_offset(weight_offset_), angles(table, options) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override {
    return {&x, &weight, &rstd, &angles.cos, &angles.sin, &angles.positions};
  }

  void backward(BackwardContext& ctx) override {
    const Tensor& dy = ctx.grad();
    Tensor partials;
    if (ctx.needs(1)) {
      partials =
          Tensor::empty({kernels::scratch_parts(dy.device()), dy.dim(3)}, rstd.get().dtype(), dy.device());
    }
    const GradSlot dx = ctx.slot(0), dweight = ctx.slot(1);
    kernels::launch(kernels::rms_norm_rope_backward, ctx.stream(),
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

}  // namespace

std::vector<float> rope_frequencies(std::int64_t rotary_size, double theta) {
  INGOT_CHECK(rotary_size >= 2 && rotary_size % 2 == 0,
              DimensionMismatch("rope: the rotary size must be even and positive, got " +
                                std::to_string(rotary_size)));
  INGOT_CHECK(theta > 0, InvalidConfig("rope_theta", "must be positive, got " + std::to_string(theta)));
  std::vector<float> frequencies(static_cast<std::size_t>(rotary_size / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] =
        static_cast<float>(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_size)));
  }
  return frequencies;
}

RopeTable rope_table(std::span<const float> inverse_frequencies, std::int64_t positions,
                     float attention_factor, Device device) {
  const auto half = static_cast<std::int64_t>(inverse_frequencies.size());
  RopeTable table{Tensor::empty({positions, half}), Tensor::empty({positions, half})};
  float* cos = table.cos.data<float>();
  float* sin = table.sin.data<float>();
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(p) * inverse_frequencies[static_cast<std::size_t>(i)];
      cos[p * half + i] = static_cast<float>(std::cos(static_cast<double>(angle))) * attention_factor;
      sin[p * half + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * attention_factor;
    }
  }
  return {to(table.cos, device), to(table.sin, device)};
}

namespace {

// What the kernels take of the input.
Tensor checked(const char* op, const Tensor& input, const RopeTable& table, const RopeOptions& options) {
  const std::string name = op;
  check_defined(op, {&input});
  check_defined(op, {&table.cos, &table.sin});
  check_defined(op, {&input, &table.cos}, false);
  INGOT_CHECK(input.rank() == 4, DimensionMismatch(name + " takes [batch, sequence, heads, head size], got " +
                                                   to_string(input.shape())));
  INGOT_CHECK(table.cos.rank() == 2 && table.cos.shape() == table.sin.shape() && table.cos.is_contiguous() &&
                  table.sin.is_contiguous() && table.cos.dtype() == DType::f32,
              ShapeMismatch(name + " (table)", table.cos.shape().to_vector(), table.sin.shape().to_vector(),
                            "cos and sin are contiguous f32 [positions, half the rotary size]"));
  INGOT_CHECK(2 * table.cos.dim(1) <= input.dim(3),
              ShapeMismatch(name + " (table)", {-1, input.dim(3) / 2}, table.cos.shape().to_vector(),
                            "the table has more angles than a head has pairs"));
  INGOT_CHECK(options.heads >= 0 && options.heads <= input.dim(2),
              DimensionMismatch(name + ": asked to turn " + std::to_string(options.heads) + " heads of " +
                                std::to_string(input.dim(2))));
  if (options.positions.defined()) {
    const Tensor& p = options.positions;
    INGOT_CHECK(p.dtype() == DType::i64 || p.dtype() == DType::i32,
                KernelError(op, "positions must be i64 or i32"));
    INGOT_CHECK((p.rank() == 1 && p.dim(0) == input.dim(1)) ||
                    (p.rank() == 2 && p.dim(0) == input.dim(0) && p.dim(1) == input.dim(1)),
                ShapeMismatch(name + " (positions)", {input.dim(0), input.dim(1)}, p.shape().to_vector()));
  }
  return input.stride(3) == 1 || input.dim(3) == 1 ? input : contiguous(input);
}

Tensor checked_weight(const Tensor& x, const Tensor& weight) {
  check_defined("rms_norm_rope", {&x, &weight});
  INGOT_CHECK(weight.shape() == Shape({x.dim(3)}),
              ShapeMismatch("rms_norm_rope (weight)", {x.dim(3)}, weight.shape().to_vector(),
                            "the weight has one value per element of a head"));
  return contiguous(weight);
}

void check_pair(const char* op, const Tensor& q, const Tensor& k) {
  check_defined(op, {&q, &k});
  INGOT_CHECK(q.shape().with(2, k.dim(2)) == k.shape(),
              ShapeMismatch(op, q.shape().to_vector(), k.shape().to_vector(),
                            "q and k may differ in their numbers of heads only"));
}

// Of q and k in one launch.
kernels::RopeAngles angles_of_pair(const Tensor& q, const Tensor& k, const RopeTable& table,
                                   const RopeOptions& options) {
  kernels::RopeAngles angles = angles_of(q.view(), table.cos.view(), table.sin.view(), options);
  if (options.heads == 0) angles.rotated_heads = std::max(q.dim(2), k.dim(2));
  return angles;
}

Tensor result_like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

}  // namespace

Tensor rope(const Tensor& input, const RopeTable& table, const RopeOptions& options) {
  const Tensor x = checked("rope", input, table, options);
  Tensor y = result_like(x);
  kernels::launch(kernels::rope, current_stream(x.device()),
                  {.x = x.view(),
                   .y = y.view(),
                   .angles = angles_of(x.view(), table.cos.view(), table.sin.view(), options)});
  y = record<RopeNode>(y, {&x}, table, options);
  if (!is_recomputed(x)) return y;  // x would be kept for this alone, and takes as much
  return recomputable(y, {&x, &table.cos, &table.sin, &options.positions},
                      [options = without_positions(options)](std::span<const Tensor> in) {
                        RopeOptions all = options;
                        all.positions = in[3];
                        return rope(in[0], {in[1], in[2]}, all);
                      });
}

Tensor rope_in_place(Tensor x, const RopeTable& table, const RopeOptions& options) {
  if (!is_held_once(x) || checked("rope", x, table, options).storage() != x.storage())
    return rope(x, table, options);
  const View heads = turned_heads(x, options);
  kernels::launch(
      kernels::rope, current_stream(x.device()),
      {.x = heads, .y = heads, .angles = angles_of(heads, table.cos.view(), table.sin.view(), options)});
  x.storage()->bump_version();
  return record<RopeNode>(x.detach(), {&x}, table, options);
}

std::array<Tensor, 2> rope(const Tensor& q, const Tensor& k, const RopeTable& table,
                           const RopeOptions& options) {
  if (needs_grad({&q, &k})) return {rope(q, table, options), rope(k, table, options)};
  const Tensor x = checked("rope", q, table, options), also = checked("rope", k, table, options);
  check_pair("rope", x, also);
  std::array<Tensor, 2> turned{result_like(x), result_like(also)};
  kernels::launch(kernels::rope, current_stream(x.device()),
                  {.x = x.view(),
                   .y = turned[0].view(),
                   .angles = angles_of_pair(x, also, table, options),
                   .also_x = also.view(),
                   .also_y = turned[1].view()});
  return turned;
}

Tensor rms_norm_rope(const Tensor& input, const Tensor& weight_input, float eps, float weight_offset,
                     const RopeTable& table, const RopeOptions& options) {
  const Tensor x = checked("rms_norm_rope", input, table, options);
  const Tensor weight = checked_weight(x, weight_input);
  Tensor y = result_like(x), rstd;
  if (needs_grad({&x, &weight}))
    rstd = Tensor::empty(x.shape().drop_last(), accumulator_dtype(x.dtype()), x.device());
  kernels::launch(kernels::rms_norm_rope, current_stream(x.device()),
                  {.x = x.view(),
                   .weight = weight.view(),
                   .y = y.view(),
                   .rstd = rstd.view(),
                   .angles = angles_of(x.view(), table.cos.view(), table.sin.view(), options),
                   .eps = eps,
                   .weight_offset = weight_offset});
  y = record<RmsNormRopeNode>(y, {&x, &weight}, x, weight, rstd, weight_offset, table, options);
  return recomputable(y, {&x, &weight, &table.cos, &table.sin, &options.positions},
                      [eps, weight_offset, options = without_positions(options)](std::span<const Tensor> in) {
                        RopeOptions all = options;
                        all.positions = in[4];
                        return rms_norm_rope(in[0], in[1], eps, weight_offset, {in[2], in[3]}, all);
                      });
}

std::array<Tensor, 2> rms_norm_rope(const HeadsAndWeight& q, const HeadsAndWeight& k, float eps,
                                    float weight_offset, const RopeTable& table, const RopeOptions& options) {
  if (needs_grad({&q.x, &q.weight, &k.x, &k.weight}))
    return {rms_norm_rope(q.x, q.weight, eps, weight_offset, table, options),
            rms_norm_rope(k.x, k.weight, eps, weight_offset, table, options)};
  const Tensor x = checked("rms_norm_rope", q.x, table, options),
               also = checked("rms_norm_rope", k.x, table, options);
  check_pair("rms_norm_rope", x, also);
  const Tensor weight = checked_weight(x, q.weight), also_weight = checked_weight(also, k.weight);
  std::array<Tensor, 2> turned{result_like(x), result_like(also)};
  kernels::launch(kernels::rms_norm_rope, current_stream(x.device()),
                  {.x = x.view(),
                   .weight = weight.view(),
                   .y = turned[0].view(),
                   .rstd = {},
                   .angles = angles_of_pair(x, also, table, options),
                   .eps = eps,
                   .weight_offset = weight_offset,
                   .also_x = also.view(),
                   .also_weight = also_weight.view(),
                   .also_y = turned[1].view()});
  return turned;
}

}  // namespace ingot
