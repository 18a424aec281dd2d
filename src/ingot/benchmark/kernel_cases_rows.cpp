#include "ingot/benchmark/kernel_cases.h"
#include "ingot/kernels/delta_rule.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/loss.h"
#include "ingot/kernels/norm.h"
#include "ingot/kernels/rope.h"
#include "ingot/kernels/scratch.h"
#include "ingot/kernels/softmax.h"
#include "ingot/ops/elementwise.h"

// Kernels that take rows: norms, heads of tokens, softmax, losses.
namespace ingot::benchmark {
namespace {

constexpr std::int64_t kNormHeadSize = 128;

KernelWork rms_norm(KernelOperands& operands) {
  const Tensor x = operands.rows_of_values(), weight = operands.values({KernelOperands::kWidth}),
               y = operands.result(x.shape());
  const Tensor rstd = operands.zeros({operands.rows()}, DType::f32);
  return {.bytes = bytes_of({x, y, rstd}), .run = [stream = operands.stream(), x, weight, y, rstd] {
            kernels::launch(
                kernels::rms_norm, stream,
                {.x = x.view(), .weight = weight.view(), .y = y.view(), .rstd = rstd.view(), .eps = 1e-5F});
          }};
}

KernelWork residual_rms_norm(KernelOperands& operands) {
  const Tensor x = operands.rows_of_values(), residual = operands.rows_of_values(),
               weight = operands.values({KernelOperands::kWidth});
  const Tensor y = operands.result(x.shape()), sum = operands.result(x.shape());
  const Tensor rstd = operands.zeros({operands.rows()}, DType::f32);
  return {.bytes = bytes_of({x, residual, y, sum, rstd}),
          .run = [stream = operands.stream(), x, residual, weight, y, sum, rstd] {
            kernels::launch(kernels::rms_norm, stream,
                            {.x = x.view(),
                             .weight = weight.view(),
                             .y = y.view(),
                             .rstd = rstd.view(),
                             .eps = 1e-5F,
                             .residual = residual.view(),
                             .sum = sum.view()});
          }};
}

// Adds to the sum's gradient, as behind the norm of a sum.
KernelWork rms_norm_backward(KernelOperands& operands) {
  constexpr std::int64_t kWidth = KernelOperands::kWidth;
  const Tensor x = operands.rows_of_values(), dy = operands.rows_of_values(), dx = operands.rows_of_values();
  const Tensor weight = operands.values({kWidth}), dweight = operands.result({kWidth}),
               rstd = operands.zeros({operands.rows()}, DType::f32),
               partials = operands.zeros({kernels::scratch_parts(operands.device()), kWidth}, DType::f32);
  return {.bytes = bytes_of({x, dy, dx, dx, rstd}),
          .run = [stream = operands.stream(), x, dy, dx, weight, dweight, rstd, partials] {
            kernels::launch(kernels::rms_norm_backward, stream,
                            {.x = x.view(),
                             .weight = weight.view(),
                             .rstd = rstd.view(),
                             .dy = dy.view(),
                             .dx = dx.view(),
                             .dweight = dweight.view(),
                             .partials = partials.view(),
                             .accumulate_dx = true});
          }};
}

KernelWork layer_norm(KernelOperands& operands) {
  const Tensor x = operands.rows_of_values(), y = operands.result(x.shape());
  const Tensor weight = operands.values({KernelOperands::kWidth}),
               bias = operands.values({KernelOperands::kWidth});
  const Tensor mean = operands.zeros({operands.rows()}, DType::f32),
               rstd = operands.zeros({operands.rows()}, DType::f32);
  return {.bytes = bytes_of({x, y, mean, rstd}),
          .run = [stream = operands.stream(), x, weight, bias, y, mean, rstd] {
            kernels::launch(kernels::layer_norm, stream,
                            {.x = x.view(),
                             .weight = weight.view(),
                             .bias = bias.view(),
                             .y = y.view(),
                             .mean = mean.view(),
                             .rstd = rstd.view(),
                             .eps = 1e-5F});
          }};
}

// Rows as the heads of tokens, and what rotates or normalizes them.
struct HeadOperands {
  static constexpr std::int64_t kOfToken = KernelOperands::kWidth / kNormHeadSize;
  explicit HeadOperands(KernelOperands& operands)
      : stream(operands.stream()),
        shape{1, operands.rows(), kOfToken, kNormHeadSize},
        x(operands.values(shape)),
        y(operands.result(shape)),
        cosines(operands.values({operands.rows(), kNormHeadSize / 2}, DType::f32)),
        sines(operands.values({operands.rows(), kNormHeadSize / 2}, DType::f32)),
        weight(operands.values({kNormHeadSize})),
        dweight(operands.result({kNormHeadSize})),
        partials(operands.zeros({kernels::scratch_parts(operands.device()), kNormHeadSize}, DType::f32)),
        rstd(operands.zeros(shape.drop_last(), DType::f32)) {}
  kernels::RopeAngles angles() const {
    return {.cos = cosines.view(), .sin = sines.view(), .rotated_heads = kOfToken};
  }

  Stream stream;
  Shape shape;
  Tensor x, y, cosines, sines, weight, dweight, partials, rstd;
};

KernelWork rope(KernelOperands& operands) {
  const HeadOperands a(operands);
  return {.bytes = bytes_of({a.x, a.y, a.cosines, a.sines}), .run = [a] {
            kernels::launch(kernels::rope, a.stream,
                            {.x = a.x.view(), .y = a.y.view(), .angles = a.angles()});
          }};
}

// Over each head, as models with a norm of queries and keys have it, alone and with what follows.
KernelWork head_norm(KernelOperands& operands) {
  const HeadOperands a(operands);
  return {.bytes = bytes_of({a.x, a.y, a.rstd}), .run = [a] {
            kernels::launch(kernels::rms_norm, a.stream,
                            {.x = a.x.view(),
                             .weight = a.weight.view(),
                             .y = a.y.view(),
                             .rstd = a.rstd.view(),
                             .eps = 1e-5F});
          }};
}

KernelWork norm_rope(KernelOperands& operands) {
  const HeadOperands a(operands);
  return {.bytes = bytes_of({a.x, a.y, a.rstd, a.cosines, a.sines}), .run = [a] {
            kernels::launch(kernels::rms_norm_rope, a.stream,
                            {.x = a.x.view(),
                             .weight = a.weight.view(),
                             .y = a.y.view(),
                             .rstd = a.rstd.view(),
                             .angles = a.angles(),
                             .eps = 1e-5F});
          }};
}

KernelWork head_norm_backward(KernelOperands& operands) {
  const HeadOperands a(operands);
  const Tensor dy = operands.values(a.shape);
  return {.bytes = bytes_of({a.x, dy, a.y, a.rstd}), .run = [a, dy] {
            kernels::launch(kernels::rms_norm_backward, a.stream,
                            {.x = a.x.view(),
                             .weight = a.weight.view(),
                             .rstd = a.rstd.view(),
                             .dy = dy.view(),
                             .dx = a.y.view(),
                             .dweight = a.dweight.view(),
                             .partials = a.partials.view()});
          }};
}

KernelWork norm_rope_backward(KernelOperands& operands) {
  const HeadOperands a(operands);
  const Tensor dy = operands.values(a.shape);
  return {.bytes = bytes_of({a.x, dy, a.y, a.rstd, a.cosines, a.sines}), .run = [a, dy] {
            kernels::launch(kernels::rms_norm_rope_backward, a.stream,
                            {.x = a.x.view(),
                             .weight = a.weight.view(),
                             .rstd = a.rstd.view(),
                             .dy = dy.view(),
                             .dx = a.y.view(),
                             .dweight = a.dweight.view(),
                             .partials = a.partials.view(),
                             .angles = a.angles()});
          }};
}

KernelWork softmax(KernelOperands& operands) {
  const Tensor x = operands.rows_of_values(), y = operands.result(x.shape());
  return {.bytes = bytes_of({x, y}), .run = [stream = operands.stream(), x, y] {
            kernels::launch(kernels::softmax, stream, {.x = x.view(), .y = y.view()});
          }};
}

// Losses and the gradient in one pass, as training takes them.
KernelWork cross_entropy_of(KernelOperands& operands, std::int64_t classes) {
  const std::int64_t rows = std::max<std::int64_t>(operands.elements() / classes, 1);
  const Tensor logits = operands.values({rows, classes}), dlogits = operands.result(logits.shape());
  const Tensor targets = operands.zeros({rows}, DType::i64), loss = operands.zeros({rows}, DType::f32);
  const Tensor lse = operands.zeros({rows}, DType::f32), denominator = operands.zeros({1}, DType::f32);
  kernels::launch(kernels::fill, operands.stream(),
                  {.y = denominator.view(), .value = static_cast<double>(rows)});
  return {.bytes = bytes_of({logits, dlogits}),
          .run = [stream = operands.stream(), logits, dlogits, targets, loss, lse, denominator] {
            kernels::launch(kernels::cross_entropy, stream,
                            {.logits = logits.view(),
                             .targets = targets.view(),
                             .loss = loss.view(),
                             .lse = lse.view(),
                             .dlogits = dlogits.view(),
                             .denominator = denominator.view()});
          }};
}
KernelWork cross_entropy(KernelOperands& operands) { return cross_entropy_of(operands, 32768); }
// Of as many classes as Llama 3 has.
KernelWork cross_entropy_128k(KernelOperands& operands) { return cross_entropy_of(operands, 128256); }

// The gated delta rule with the heads of Qwen3-Next-80B-A3B, in f32 whatever the dtype.
struct DeltaOperands {
  explicit DeltaOperands(KernelOperands& operands)
      : steps(operands.sequence()),
        x(operands.values({1, steps, kHeads, kSize}, DType::f32)),
        decay(-0.05 * square(operands.values({1, steps, kHeads}, DType::f32))),
        beta(sigmoid(operands.values({1, steps, kHeads}, DType::f32))),
        keys(kUnit * operands.values({1, steps, kGroups, kSize}, DType::f32)),
        queries(kUnit * operands.values({1, steps, kGroups, kSize}, DType::f32)),
        state(operands.zeros({1, kHeads, kSize, kSize}, DType::f32)),
        y(operands.zeros(x.shape(), DType::f32)) {}

  static constexpr std::int64_t kHeads = 32, kGroups = 16, kSize = 128;
  static constexpr double kUnit = 0.088388348;  // 128^-1/2: keys of length 1
  std::int64_t steps;
  Tensor x, decay, beta, keys, queries, state, y;
};

KernelWork delta_rule(KernelOperands& operands) {
  const DeltaOperands d(operands);
  const kernels::DeltaRuleArgs args{.x = d.x.view(),
                                    .decay = d.decay.view(),
                                    .beta = d.beta.view(),
                                    .keys = d.keys.view(),
                                    .queries = d.queries.view(),
                                    .starts = {},
                                    .state = d.state.view(),
                                    .y = d.y.view()};
  return {
      .bytes = bytes_of({d.x, d.keys, d.queries, d.y}),
      .operations = flops(args),
      .run = [stream = operands.stream(), d, args] { kernels::launch(kernels::delta_rule, stream, args); }};
}

}  // namespace

std::vector<KernelCase> row_kernel_cases() {
  return {
      {"delta_rule", delta_rule},
      {"rms_norm", rms_norm},
      {"residual_rms_norm", residual_rms_norm},
      {"rms_norm_backward", rms_norm_backward},
      {"layer_norm", layer_norm},
      {"rope", rope},
      {"head_norm", head_norm},
      {"head_norm_backward", head_norm_backward},
      {"norm_rope", norm_rope},
      {"norm_rope_backward", norm_rope_backward},
      {"softmax", softmax},
      {"cross_entropy", cross_entropy},
      {"cross_entropy_128k", cross_entropy_128k},
  };
}

}  // namespace ingot::benchmark
