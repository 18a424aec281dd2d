#include "ingot/ops/rope.h"

#include <algorithm>
#include <cmath>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/rope.h"
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

kernels::RopeArgs arguments(const View& x, const View& y, const View& cos, const View& sin,
                            const RopeOptions& options) {
  return {.x = x,
          .y = y,
          .cos = cos,
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

struct RopeNode final : Node {
  static constexpr const char* kName = "rope";
  SavedTensor cos, sin, positions;
  RopeOptions options;
  RopeNode(const RopeTable& table, const RopeOptions& options_)
      : cos(table.cos), sin(table.sin), positions(options_.positions), options(without_positions(options_)) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&cos, &sin, &positions}; }

  void backward(BackwardContext& ctx) override {
    if (!ctx.needs(0)) return;
    const Tensor& dy = ctx.grad();
    if (!ctx.has_gradient(0) && is_held_once(dy)) {
      turn_back(ctx.stream(), turned_heads(dy, options), turned_heads(dy, options), false);
      return ctx.pass(0, dy);
    }
    const GradSlot dx = ctx.slot(0);
    turn_back(ctx.stream(), dy.view(), dx.view, dx.accumulate);
  }

 private:
  void turn_back(Stream stream, const View& dy, const View& dx, bool accumulate) {
    RopeOptions all = options;
    if (positions.defined()) all.positions = positions.get();
    kernels::RopeArgs args = arguments(dy, dx, cos.view(), sin.view(), all);
    args.inverse = true;
    args.accumulate = accumulate;
    kernels::launch(kernels::rope, stream, args);
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

// What the kernel takes of the input.
Tensor checked(const Tensor& input, const RopeTable& table, const RopeOptions& options) {
  check_defined("rope", {&input});
  check_defined("rope", {&table.cos, &table.sin});
  check_defined("rope", {&input, &table.cos}, false);
  INGOT_CHECK(input.rank() == 4, DimensionMismatch("rope takes [batch, sequence, heads, head size], got " +
                                                   to_string(input.shape())));
  INGOT_CHECK(table.cos.rank() == 2 && table.cos.shape() == table.sin.shape() && table.cos.is_contiguous() &&
                  table.sin.is_contiguous() && table.cos.dtype() == DType::f32,
              ShapeMismatch("rope (table)", table.cos.shape().to_vector(), table.sin.shape().to_vector(),
                            "cos and sin are contiguous f32 [positions, half the rotary size]"));
  INGOT_CHECK(2 * table.cos.dim(1) <= input.dim(3),
              ShapeMismatch("rope (table)", {-1, input.dim(3) / 2}, table.cos.shape().to_vector(),
                            "the table has more angles than a head has pairs"));
  INGOT_CHECK(options.heads >= 0 && options.heads <= input.dim(2),
              DimensionMismatch("rope: asked to turn " + std::to_string(options.heads) + " heads of " +
                                std::to_string(input.dim(2))));
  if (options.positions.defined()) {
    const Tensor& p = options.positions;
    INGOT_CHECK(p.dtype() == DType::i64 || p.dtype() == DType::i32,
                KernelError("rope", "positions must be i64 or i32"));
    INGOT_CHECK((p.rank() == 1 && p.dim(0) == input.dim(1)) ||
                    (p.rank() == 2 && p.dim(0) == input.dim(0) && p.dim(1) == input.dim(1)),
                ShapeMismatch("rope (positions)", {input.dim(0), input.dim(1)}, p.shape().to_vector()));
  }
  return input.stride(3) == 1 || input.dim(3) == 1 ? input : contiguous(input);
}

}  // namespace

Tensor rope(const Tensor& input, const RopeTable& table, const RopeOptions& options) {
  const Tensor x = checked(input, table, options);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernels::launch(kernels::rope, current_stream(x.device()),
                  arguments(x.view(), y.view(), table.cos.view(), table.sin.view(), options));
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
  if (!is_held_once(x) || checked(x, table, options).storage() != x.storage()) return rope(x, table, options);
  const View heads = turned_heads(x, options);
  kernels::launch(kernels::rope, current_stream(x.device()),
                  arguments(heads, heads, table.cos.view(), table.sin.view(), options));
  x.storage()->bump_version();
  return record<RopeNode>(x.detach(), {&x}, table, options);
}

std::array<Tensor, 2> rope(const Tensor& q, const Tensor& k, const RopeTable& table,
                           const RopeOptions& options) {
  if (needs_grad({&q, &k})) return {rope(q, table, options), rope(k, table, options)};
  const Tensor x = checked(q, table, options), also = checked(k, table, options);
  check_defined("rope", {&x, &also});
  INGOT_CHECK(x.shape().with(2, also.dim(2)) == also.shape(),
              ShapeMismatch("rope", x.shape().to_vector(), also.shape().to_vector(),
                            "q and k may differ in their numbers of heads only"));
  std::array<Tensor, 2> turned{Tensor::empty(x.shape(), x.dtype(), x.device()),
                               Tensor::empty(also.shape(), x.dtype(), x.device())};
  kernels::RopeArgs args = arguments(x.view(), turned[0].view(), table.cos.view(), table.sin.view(), options);
  args.also_x = also.view();
  args.also_y = turned[1].view();
  if (options.heads == 0) args.rotated_heads = std::max(x.dim(2), also.dim(2));
  kernels::launch(kernels::rope, current_stream(x.device()), args);
  return turned;
}

}  // namespace ingot
