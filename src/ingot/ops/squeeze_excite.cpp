#include "ingot/ops/squeeze_excite.h"

#include <fmt/format.h>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/scratch.h"
#include "ingot/kernels/squeeze_excite.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

struct Kind {
  const char* name;
  kernels::SqueezePool pool;
  kernels::NormActivation activation;
};
constexpr Kind kMeanThenMish{"squeeze_excite_residual", kernels::SqueezePool::mean,
                             kernels::NormActivation::mish};
constexpr Kind kDualPool{"dual_pool_residual", kernels::SqueezePool::mean_and_max,
                         kernels::NormActivation::none};

struct SqueezeExciteNode final : Node {
  SavedTensor x, residual, w1, w2, pooled, hidden, gate;
  Kind kind;
  SqueezeExciteNode(const Tensor& x_, const Tensor& residual_, const Tensor& w1_, const Tensor& w2_,
                    const Tensor& pooled_, const Tensor& hidden_, const Tensor& gate_, const Kind& kind_)
      : x(x_),
        residual(residual_),
        w1(w1_),
        w2(w2_),
        pooled(pooled_),
        hidden(hidden_),
        gate(gate_),
        kind(kind_) {}
  std::string_view name() const override { return kind.name; }
  std::vector<SavedTensor*> saved() override { return {&x, &residual, &w1, &w2, &pooled, &hidden, &gate}; }

  void backward(BackwardContext& ctx) override {
    const Tensor& in = x.get();
    if (ctx.needs(0) && ctx.needs(1) && one_tensor(0, 1)) {
      // The kernel writes dx and dresidual in one pass; for one tensor in both positions they need two
      // buffers.
      Tensor apart = Tensor::empty_like(in);
      run(ctx, ctx.slot(0), {.view = apart.view(), .accumulate = false});
      ctx.pass(1, apart);
      return;
    }
    const GradSlot dx = ctx.slot(0);
    run(ctx, dx, ctx.slot(1));
  }

 private:
  bool one_tensor(std::size_t a, std::size_t b) const {
    const Edge &first = inputs()[a], &second = inputs()[b];
    return first.node == second.node && first.leaf == second.leaf &&
           (first.leaf != nullptr || first.output_index == second.output_index);
  }

  void run(BackwardContext& ctx, const GradSlot& dx, const GradSlot& dresidual) {
    const Tensor& in = x.get();
    const Tensor scratch =
        Tensor::empty({kernels::scratch_parts(in.device()),
                       kernels::squeeze_excite_scratch(in.dim(1), in.dim(2), w1.get().dim(0), kind.pool)},
                      pooled.get().dtype(), in.device());
    const GradSlot dw1 = ctx.slot(2), db1 = ctx.slot(3), dw2 = ctx.slot(4), db2 = ctx.slot(5);
    kernels::launch(kernels::squeeze_excite_backward, ctx.stream(),
                    {.x = in.view(),
                     .residual = residual.view(),
                     .w1 = w1.view(),
                     .w2 = w2.view(),
                     .pooled = pooled.view(),
                     .hidden = hidden.view(),
                     .gate = gate.view(),
                     .dy = ctx.grad().view(),
                     .dx = dx.view,
                     .dresidual = dresidual.view,
                     .dw1 = dw1.view,
                     .db1 = db1.view,
                     .dw2 = dw2.view,
                     .db2 = db2.view,
                     .scratch = scratch.view(),
                     .pool = kind.pool,
                     .activation = kind.activation,
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dresidual = dresidual.accumulate,
                     .accumulate_dw1 = dw1.accumulate,
                     .accumulate_db1 = db1.accumulate,
                     .accumulate_dw2 = dw2.accumulate,
                     .accumulate_db2 = db2.accumulate});
  }
};

void check_shape(const Kind& kind, const char* name, const Tensor& tensor, const Shape& expected) {
  INGOT_CHECK(tensor.shape() == expected, ShapeMismatch(fmt::format("{} ({})", kind.name, name),
                                                        expected.to_vector(), tensor.shape().to_vector()));
}

Tensor squeeze_excite_of(const Kind& kind, const Tensor& input, const Tensor& residual_input,
                         const SqueezeExciteWeights& weights) {
  const OpScope op_scope(kind.name,
                         {&input, &residual_input, &weights.w1, &weights.b1, &weights.w2, &weights.b2});
  INGOT_CHECK(input.rank() == 3,
              DimensionMismatch(fmt::format("{}: the input must be [batch, positions, channels], got {}",
                                            kind.name, to_string(input.shape()))));
  INGOT_CHECK(input.dim(1) > 0, DimensionMismatch(fmt::format("{}: the input has no positions to pool: {}",
                                                              kind.name, to_string(input.shape()))));
  INGOT_CHECK(weights.w1.rank() == 2,
              DimensionMismatch(fmt::format("{}: w1 must be [reduced, channels], got {}", kind.name,
                                            to_string(weights.w1.shape()))));
  const std::int64_t channels = input.dim(2), reduced = weights.w1.dim(0), pools = pools_of(kind.pool);
  check_shape(kind, "residual", residual_input, input.shape());
  check_shape(kind, "w1", weights.w1, {reduced, channels});
  check_shape(kind, "b1", weights.b1, {reduced});
  check_shape(kind, "w2", weights.w2, {channels, reduced});
  check_shape(kind, "b2", weights.b2, {channels});
  const Tensor x = contiguous(input), residual = contiguous(residual_input);
  const Tensor w1 = contiguous(weights.w1), b1 = contiguous(weights.b1);
  const Tensor w2 = contiguous(weights.w2), b2 = contiguous(weights.b2);
  const DType accumulator = accumulator_dtype(x.dtype());
  Tensor y = Tensor::empty_like(x);
  Tensor pooled = Tensor::empty({x.dim(0), pools, channels}, accumulator, x.device());
  Tensor hidden = Tensor::empty({x.dim(0), pools, reduced}, accumulator, x.device());
  Tensor gate = Tensor::empty({x.dim(0), channels}, accumulator, x.device());
  kernels::launch(kernels::squeeze_excite, current_stream(x.device()),
                  {.x = x.view(),
                   .residual = residual.view(),
                   .w1 = w1.view(),
                   .b1 = b1.view(),
                   .w2 = w2.view(),
                   .b2 = b2.view(),
                   .y = y.view(),
                   .pooled = pooled.view(),
                   .hidden = hidden.view(),
                   .gate = gate.view(),
                   .pool = kind.pool,
                   .activation = kind.activation});
  return record<SqueezeExciteNode>(y, {&x, &residual, &w1, &b1, &w2, &b2}, x, residual, w1, w2, pooled,
                                   hidden, gate, kind);
}

}  // namespace

Tensor squeeze_excite_residual(const Tensor& x, const Tensor& residual, const SqueezeExciteWeights& weights) {
  return squeeze_excite_of(kMeanThenMish, x, residual, weights);
}

Tensor dual_pool_residual(const Tensor& x, const Tensor& residual, const SqueezeExciteWeights& weights) {
  return squeeze_excite_of(kDualPool, x, residual, weights);
}

}  // namespace ingot
