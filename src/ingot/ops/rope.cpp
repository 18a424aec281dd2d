#include "ingot/ops/rope.h"

#include <algorithm>
#include <cmath>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/rope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/rope_operands.h"

namespace ingot {
namespace {

// Whether nobody but this handle would see a change of the memory.
bool is_held_once(const Tensor& x) { return x.storage().use_count() == 1; }

// The heads that are rotated, of x [batch, sequence, heads, head size].
View rotated_heads(const Tensor& x, const RopeOptions& options) {
  return heads_of(x.view(), 0, options.heads > 0 ? options.heads : x.dim(2));
}

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
      const View heads = rotated_heads(dy, angles.options);
      rotate_back(ctx.stream(), heads, heads, false);
      return ctx.pass(0, dy);
    }
    const GradSlot dx = ctx.slot(0);
    rotate_back(ctx.stream(), dy.view(), dx.view, dx.accumulate);
  }

 private:
  void rotate_back(Stream stream, const View& dy, const View& dx, bool accumulate) {
    kernels::launch(kernels::rope, stream,
                    {.x = dy, .y = dx, .angles = angles.of(dy), .inverse = true, .accumulate = accumulate});
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

Tensor rope(const Tensor& input, const RopeTable& table, const RopeOptions& options) {
  const Scope scope(ScopeKind::op, "rope");
  const Tensor x = checked_heads("rope", input, table, options);
  Tensor y = Tensor::empty_like(x);
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
  if (!is_held_once(x) || checked_heads("rope", x, table, options).storage() != x.storage())
    return rope(x, table, options);
  const Scope scope(ScopeKind::op, "rope");
  const View heads = rotated_heads(x, options);
  kernels::launch(
      kernels::rope, current_stream(x.device()),
      {.x = heads, .y = heads, .angles = angles_of(heads, table.cos.view(), table.sin.view(), options)});
  x.storage()->bump_version();
  return record<RopeNode>(x.detach(), {&x}, table, options);
}

std::array<Tensor, 2> rope(const Tensor& q, const Tensor& k, const RopeTable& table,
                           const RopeOptions& options) {
  if (needs_grad({&q, &k})) return {rope(q, table, options), rope(k, table, options)};
  const Scope scope(ScopeKind::op, "rope");
  const Tensor x = checked_heads("rope", q, table, options), also = checked_heads("rope", k, table, options);
  check_pair("rope", x, also);
  std::array<Tensor, 2> rotated{Tensor::empty_like(x), Tensor::empty_like(also)};
  kernels::launch(kernels::rope, current_stream(x.device()),
                  {.x = x.view(),
                   .y = rotated[0].view(),
                   .angles = angles_of_pair(x.view(), also.view(), table, options),
                   .also_x = also.view(),
                   .also_y = rotated[1].view()});
  return rotated;
}

}  // namespace ingot
