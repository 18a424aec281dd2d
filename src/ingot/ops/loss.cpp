#include "ingot/ops/loss.h"

#include <algorithm>
#include <utility>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/kernel_traits.h"
#include "ingot/kernels/loss.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

kernels::CrossEntropyOptions kernel_options(const CrossEntropyLoss& o) {
  return {.ignore_index = o.ignore_index,
          .label_smoothing = o.label_smoothing,
          .z_loss = o.z_loss,
          .softcap = o.softcap};
}

// [..., n] as [rows, n], and [...] as [rows]; of contiguous tensors.
View rows_of(const Tensor& x) {
  return contiguous_view(x.view().data, {x.view().rows(), x.dim(-1)}, x.dtype(), x.device());
}
View flat(const Tensor& x) { return contiguous_view(x.view().data, {x.numel()}, x.dtype(), x.device()); }

View rows(View x, std::int64_t begin, std::int64_t count) {
  x.data = x.as<char>() + begin * x.stride(0) * static_cast<std::int64_t>(byte_size(x.dtype));
  x.shape[0] = count;
  return x;
}

void check_targets(const char* op, const Shape& expected, const Tensor& targets) {
  INGOT_CHECK(targets.dtype() == DType::i64 || targets.dtype() == DType::i32,
              KernelError(op, "targets must be i64 or i32, got " + std::string(name(targets.dtype()))));
  INGOT_CHECK(targets.shape() == expected,
              ShapeMismatch(std::string(op) + " (targets)", expected.to_vector(), targets.shape().to_vector(),
                            "one target per row of logits"));
}

// Checks the targets, and what a mean divides by: the given denominator, or how many targets are valid.
// Undefined for the other reductions. A GPU's targets are not checked (their loss is NaN), so there is
// nothing to do where their number is not asked for.
Tensor denominator_of(const Tensor& targets, std::int64_t classes, const CrossEntropyLoss& options) {
  const Tensor& given = options.denominator;
  INGOT_CHECK(!given.defined() ||
                  (given.numel() == 1 && given.dtype() == DType::f32 && given.device() == targets.device()),
              InvalidConfig("denominator", "is one f32 on the device of the targets"));
  const bool divides = options.reduction == Reduction::mean, counts = divides && !given.defined();
  if (!counts && !has_host_memory(targets.device())) return divides ? given : Tensor{};
  Tensor count = Tensor::empty({1}, DType::f32, targets.device());
  kernels::launch(kernels::count_targets, current_stream(targets.device()),
                  {.targets = flat(targets),
                   .count = count.view(),
                   .classes = classes,
                   .ignore_index = options.ignore_index});
  if (!divides) return {};
  return counts ? count : given;
}

struct CrossEntropyNode final : Node {
  static constexpr const char* kName = "cross_entropy";
  SavedTensor logits, targets, lse, denominator;
  kernels::CrossEntropyOptions options;
  CrossEntropyNode(const Tensor& logits_, const Tensor& targets_, const Tensor& lse_,
                   const Tensor& denominator_, const kernels::CrossEntropyOptions& options_)
      : logits(logits_), targets(targets_), lse(lse_), denominator(denominator_), options(options_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&logits, &targets, &lse, &denominator}; }

  void backward(BackwardContext& ctx) override {
    const GradSlot d = ctx.slot(0);
    View dlogits = rows_of(logits.get());
    dlogits.data = d.view.data;
    kernels::launch(kernels::cross_entropy_backward, ctx.stream(),
                    {.logits = rows_of(logits.get()),
                     .targets = flat(targets.get()),
                     .lse = lse.view(),
                     .dloss = flat(ctx.grad()),
                     .dlogits = dlogits,
                     .denominator = denominator.view(),
                     .options = options,
                     .accumulate = d.accumulate});
  }
};

Tensor summed(const Tensor& losses, const Tensor& denominator) {
  Tensor y = Tensor::empty({}, losses.dtype(), losses.device());
  kernels::launch(kernels::total, current_stream(losses.device()),
                  {.x = flat(losses), .y = flat(y), .denominator = denominator.view()});
  return y;
}

// Keeps the gradients of a loss of 1, made by the forward pass.
struct LinearCrossEntropyNode final : Node {
  static constexpr const char* kName = "linear_cross_entropy";
  SavedTensor dx, dweight;
  LinearCrossEntropyNode(const Tensor& dx_, const Tensor& dweight_) : dx(dx_), dweight(dweight_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&dx, &dweight}; }

  void backward(BackwardContext& ctx) override {
    scale_into(ctx, 0, dx);
    scale_into(ctx, 1, dweight);
  }

 private:
  static void scale_into(BackwardContext& ctx, int input, SavedTensor& saved_gradient) {
    if (!ctx.needs(input)) return;
    const View factor = flat(ctx.grad());
    if (ctx.retains_graph() || ctx.has_gradient(input)) {
      const GradSlot slot = ctx.slot(input);
      kernels::launch(
          kernels::scale_by, ctx.stream(),
          {.x = saved_gradient.view(), .factor = factor, .y = slot.view, .accumulate = slot.accumulate});
      return;
    }
    // The first gradient of its tensor: scaled where it lies and handed over, without a copy of the (large)
    // gradient of the weight.
    Tensor gradient = saved_gradient.get();
    saved_gradient.release();
    kernels::launch(kernels::scale_by, ctx.stream(),
                    {.x = gradient.view(), .factor = factor, .y = gradient.view()});
    ctx.pass(input, std::move(gradient));
  }
};

struct LinearLoss {
  View x, weight, targets, losses, denominator, dx, dweight;  // weight and dweight with rows of zeros
  kernels::CrossEntropyOptions options;
  std::int64_t classes, chunk;
};

// `x` with rows of zeros behind it; itself where it has as many.
Tensor with_rows(const Tensor& x, std::int64_t rows_wanted, Stream stream) {
  if (x.dim(0) == rows_wanted) return x;
  Tensor y = Tensor::empty({rows_wanted, x.dim(1)}, x.dtype(), x.device());
  kernels::launch(kernels::copy, stream, {.x = x.view(), .y = rows(y.view(), 0, x.dim(0))});
  kernels::launch(kernels::fill, stream, {.y = rows(y.view(), x.dim(0), rows_wanted - x.dim(0)), .value = 0});
  return y;
}

// The logits of the classes of zeros are 0, and as only the others' become gradients, so are their gradients.
void run_chunks(const LinearLoss& l, Stream stream, Device device) {
  const std::int64_t tokens = l.x.dim(0), width = l.weight.dim(0);
  const bool gradients = l.dx || l.dweight;
  const Tensor scratch = Tensor::empty({std::min(l.chunk, tokens), width}, l.x.dtype, device);
  for (std::int64_t begin = 0; begin < tokens; begin += l.chunk) {
    const std::int64_t count = std::min(l.chunk, tokens - begin);
    const View x = rows(l.x, begin, count), padded = rows(scratch.view(), 0, count);
    View logits = padded;
    logits.shape[1] = l.classes;
    kernels::launch(kernels::gemm, stream, {.a = x, .b = transposed(l.weight), .c = padded});
    kernels::launch(kernels::cross_entropy, stream,
                    {.logits = logits,
                     .targets = rows(l.targets, begin, count),
                     .loss = rows(l.losses, begin, count),
                     .dlogits = gradients ? logits : View{},
                     .denominator = l.denominator,
                     .options = l.options});
    if (l.dx)
      kernels::launch(kernels::gemm, stream, {.a = padded, .b = l.weight, .c = rows(l.dx, begin, count)});
    if (l.dweight) {
      kernels::launch(kernels::gemm, stream,
                      {.a = transposed(padded), .b = x, .c = l.dweight, .beta = begin == 0 ? 0.0F : 1.0F});
    }
  }
}

}  // namespace

// For a GPU logits are as far as any other memory, and its matmuls want thousands of rows.
std::int64_t logits_budget(Device device) {
  constexpr std::int64_t kLeast = std::int64_t{96} << 20, kMost = std::int64_t{2} << 30, kShare = 64;
  const std::int64_t bytes = kernels::kernel_traits(device).logits_bytes;
  if (bytes > 0) return bytes;
  const auto memory = static_cast<std::int64_t>(backend(device).capabilities().total_memory);
  return std::clamp(memory / kShare, kLeast, kMost);
}

std::int64_t linear_cross_entropy_classes(std::int64_t classes, std::int64_t alignment) {
  return (classes + alignment - 1) / alignment * alignment;
}

std::int64_t linear_cross_entropy_chunk(std::int64_t tokens, std::int64_t classes, DType dtype,
                                        std::int64_t budget) {
  constexpr std::int64_t kMultiple = 64;
  const std::int64_t fit = budget / (classes * static_cast<std::int64_t>(byte_size(dtype)) + 1);
  const std::int64_t most = std::max(fit / kMultiple * kMultiple, kMultiple);
  const std::int64_t chunks = (tokens + most - 1) / most;
  if (chunks <= 1) return most;
  return ((tokens + chunks - 1) / chunks + kMultiple - 1) / kMultiple * kMultiple;
}

Tensor cross_entropy(const Tensor& input, const Tensor& goal, const CrossEntropyLoss& options) {
  const OpScope op_scope("cross_entropy", {&input, &goal}, false);
  INGOT_CHECK(
      input.rank() >= 1 && input.dim(-1) > 0,
      DimensionMismatch("cross_entropy takes logits [..., classes], got " + to_string(input.shape())));
  check_targets("cross_entropy", input.shape().drop_last(), goal);
  const Tensor logits = contiguous(input), targets = contiguous(goal);
  const Tensor denominator = denominator_of(targets, logits.dim(-1), options);
  const DType accumulator = accumulator_dtype(logits.dtype());
  const Tensor losses = Tensor::empty(targets.shape(), accumulator, logits.device());
  Tensor lse;
  if (needs_grad({&logits})) lse = Tensor::empty({targets.numel()}, accumulator, logits.device());
  kernels::launch(kernels::cross_entropy, current_stream(logits.device()),
                  {.logits = rows_of(logits),
                   .targets = flat(targets),
                   .loss = flat(losses),
                   .lse = lse.view(),
                   .options = kernel_options(options)});
  const Tensor y = options.reduction == Reduction::none ? losses : summed(losses, denominator);
  return record<CrossEntropyNode>(y, {&logits}, logits, targets, lse, denominator, kernel_options(options));
}

Tensor linear_cross_entropy(const Tensor& input, const Tensor& weight, const Tensor& goal,
                            const LinearCrossEntropyLoss& options) {
  const OpScope op_scope("linear_cross_entropy", {&input, &weight});
  check_defined("linear_cross_entropy", {&input, &goal}, false);
  INGOT_CHECK(weight.rank() == 2 && weight.dim(0) > 0 && input.rank() >= 1 && input.dim(-1) == weight.dim(1),
              ShapeMismatch("linear_cross_entropy (weight)", {-1, input.rank() >= 1 ? input.dim(-1) : 1},
                            weight.shape().to_vector(), "the weight is [classes, in] and x is [..., in]"));
  INGOT_CHECK(options.reduction != Reduction::none,
              InvalidConfig("reduction", "linear_cross_entropy has gradients for a sum or a mean only"));
  INGOT_CHECK(options.chunk >= 0, InvalidConfig("chunk", "must be positive, or 0 to choose"));
  check_targets("linear_cross_entropy", input.shape().drop_last(), goal);
  const Tensor x = contiguous(input), w = contiguous(weight), targets = contiguous(goal);
  const Tensor denominator = denominator_of(targets, w.dim(0), options);
  const Tensor losses = Tensor::empty({targets.numel()}, accumulator_dtype(x.dtype()), x.device());
  const Stream stream = current_stream(x.device());
  const Shape padded_shape{
      linear_cross_entropy_classes(w.dim(0), backend(w.device()).capabilities().matmul_alignment), w.dim(1)};
  Tensor dx, padded_dweight;
  if (needs_grad({&x})) dx = Tensor::empty_like(x);
  if (needs_grad({&w})) {
    const MemoryTagScope tag(MemoryTag::gradient);
    padded_dweight = targets.numel() == 0 ? Tensor::zeros(padded_shape, w.dtype(), w.device())
                                          : Tensor::empty(padded_shape, w.dtype(), w.device());
  }
  const Tensor padded = with_rows(w, padded_shape[0], stream);
  run_chunks({.x = rows_of(x),
              .weight = padded.view(),
              .targets = flat(targets),
              .losses = losses.view(),
              .denominator = denominator.view(),
              .dx = dx.defined() ? rows_of(dx) : View{},
              .dweight = padded_dweight.view(),
              .options = kernel_options(options),
              .classes = w.dim(0),
              .chunk = options.chunk > 0 ? options.chunk
                                         : linear_cross_entropy_chunk(targets.numel(), w.dim(0), x.dtype(),
                                                                      logits_budget(x.device()))},
             stream, x.device());
  const Tensor dweight = padded_dweight.defined() ? slice(padded_dweight, 0, 0, w.dim(0)) : Tensor{};
  return record<LinearCrossEntropyNode>(summed(losses, denominator), {&x, &w}, dx, dweight);
}

}  // namespace ingot
