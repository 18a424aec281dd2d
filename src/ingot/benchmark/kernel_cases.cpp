#include "ingot/benchmark/kernel_cases.h"

#include <span>

#include "ingot/kernels/attention.h"
#include "ingot/kernels/conv.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/fp8_matmul.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"

namespace ingot::benchmark {

KernelOperands::KernelOperands(Device device, DType dtype, std::int64_t bytes, std::int64_t sequence)
    : device_(device),
      dtype_(dtype),
      rows_(std::max<std::int64_t>(bytes / (kWidth * static_cast<std::int64_t>(byte_size(dtype))), 1)),
      sequence_(sequence) {}

Tensor KernelOperands::values(const Shape& shape, DType dtype) {
  Tensor x = Tensor::empty(shape, dtype, device_);
  normal_(x, 0, 1, RngKey{++seed_, 0});
  return x;
}

double bytes_of(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

namespace {

constexpr std::int64_t kHeads = 16, kHeadSize = 128;

KernelWork copy_work(const KernelOperands& operands, const Tensor& x, View from, const Tensor& y) {
  return {.bytes = bytes_of({x, y}), .run = [stream = operands.stream(), x, from, y] {
            kernels::launch(kernels::copy, stream, {.x = from, .y = y.view()});
          }};
}

KernelWork copy(KernelOperands& operands) {
  const Tensor x = operands.rows_of_values();
  return copy_work(operands, x, x.view(), operands.result(x.shape()));
}

KernelWork cast(KernelOperands& operands) {
  const Tensor x = operands.rows_of_values();
  const DType other = operands.dtype() == DType::f32 ? DType::bf16 : DType::f32;
  return copy_work(operands, x, x.view(), Tensor::empty(x.shape(), other, operands.device()));
}

KernelWork transpose(KernelOperands& operands) {
  const Tensor x = operands.rows_of_values();
  return copy_work(operands, x, transposed(x.view()),
                   operands.result({KernelOperands::kWidth, operands.rows()}));
}

KernelWork add(KernelOperands& operands) {
  const Tensor a = operands.rows_of_values(), b = operands.rows_of_values(), y = operands.result(a.shape());
  return {.bytes = bytes_of({a, b, y}), .run = [stream = operands.stream(), a, b, y] {
            kernels::launch(kernels::binary, stream, {.a = a.view(), .b = b.view(), .y = y.view()});
          }};
}

KernelWork gelu(KernelOperands& operands) {
  const Tensor x = operands.rows_of_values(), y = operands.result(x.shape());
  return {.bytes = bytes_of({x, y}), .run = [stream = operands.stream(), x, y] {
            kernels::launch(kernels::unary, stream,
                            {.x = x.view(), .y = y.view(), .op = kernels::UnaryOp::gelu_tanh});
          }};
}

KernelWork silu_mul(KernelOperands& operands) {
  const Tensor gate = operands.rows_of_values(), up = operands.rows_of_values(),
               y = operands.result(gate.shape());
  return {.bytes = bytes_of({gate, up, y}), .run = [stream = operands.stream(), gate, up, y] {
            kernels::launch(kernels::silu_mul, stream, {.gate = gate.view(), .up = up.view(), .y = y.view()});
          }};
}

KernelWork silu_mul_backward(KernelOperands& operands) {
  const Tensor gate = operands.rows_of_values(), up = operands.rows_of_values(),
               dy = operands.rows_of_values();
  const Tensor dgate = operands.result(gate.shape()), dup = operands.result(gate.shape());
  return {.bytes = bytes_of({gate, up, dy, dgate, dup}),
          .run = [stream = operands.stream(), gate, up, dy, dgate, dup] {
            kernels::launch(kernels::silu_mul_backward, stream,
                            {.gate = gate.view(),
                             .up = up.view(),
                             .dy = dy.view(),
                             .dgate = dgate.view(),
                             .dup = dup.view()});
          }};
}

// Gate and up as one fused matmul of both projections leaves them: the halves of each row of one tensor.
struct GateUp {
  Tensor both, gate, up;
  explicit GateUp(const Tensor& both_)
      : both(both_),
        gate(slice(both, 1, 0, KernelOperands::kWidth)),
        up(slice(both, 1, KernelOperands::kWidth)) {}
  static Shape shape(const KernelOperands& operands) { return {operands.rows(), 2 * KernelOperands::kWidth}; }
};

KernelWork silu_mul_halves(KernelOperands& operands) {
  const GateUp in(operands.values(GateUp::shape(operands)));
  const Tensor y = operands.result(in.gate.shape());
  return {.bytes = bytes_of({in.both, y}), .run = [stream = operands.stream(), in, y] {
            kernels::launch(kernels::silu_mul, stream,
                            {.gate = in.gate.view(), .up = in.up.view(), .y = y.view()});
          }};
}

KernelWork silu_mul_halves_backward(KernelOperands& operands, const Tensor& product) {
  const GateUp in(operands.values(GateUp::shape(operands))), out(operands.result(GateUp::shape(operands)));
  const Tensor dy = operands.rows_of_values();
  return {.bytes = bytes_of({in.both, dy, out.both}) + (product.defined() ? bytes_of({product}) : 0),
          .run = [stream = operands.stream(), in, dy, out, product] {
            kernels::launch(kernels::silu_mul_backward, stream,
                            {.gate = in.gate.view(),
                             .up = in.up.view(),
                             .dy = dy.view(),
                             .dgate = out.gate.view(),
                             .dup = out.up.view(),
                             .product = product.view()});
          }};
}
KernelWork silu_mul_halves_backward(KernelOperands& operands) {
  return silu_mul_halves_backward(operands, {});
}
KernelWork silu_mul_halves_backward_product(KernelOperands& operands) {
  return silu_mul_halves_backward(operands, operands.result({operands.rows(), KernelOperands::kWidth}));
}

// With master weights for half precision, and moments in f32 or u8. What is read and written counts twice.
KernelWork adamw_with(KernelOperands& operands, DType moments) {
  const Shape shape{operands.elements()}, blocks{kernels::moment_blocks(operands.elements())};
  const bool half = operands.dtype() != DType::f32;
  const Tensor param = operands.values(shape), grad = operands.values(shape);
  const Tensor m = operands.zeros(shape, moments), v = operands.zeros(shape, moments);
  const Tensor m_scale = operands.zeros(blocks, DType::f32), v_scale = operands.zeros(blocks, DType::f32);
  const DType kept = kernels::master_dtype(operands.dtype());
  const Tensor master = kept == DType::i16 ? operands.zeros(shape, kept)
                        : half             ? operands.values(shape, kept)
                                           : Tensor();
  // A bf16 parameter is half of its master weight, an f16 one is only written.
  double bytes = bytes_of({grad, m, m, v, v, param});
  if (half) bytes += bytes_of({master, master});
  if (kept == DType::i16 || !half) bytes += bytes_of({param});
  if (moments == DType::u8) bytes += bytes_of({m_scale, m_scale, v_scale, v_scale});
  return {.bytes = bytes, .run = [stream = operands.stream(), param, grad, m, v, m_scale, v_scale, master] {
            const kernels::AdamWTensor tensor{.param = param.view(),
                                              .grad = grad.view(),
                                              .m = m.view(),
                                              .v = v.view(),
                                              .m_scale = m_scale.view(),
                                              .v_scale = v_scale.view(),
                                              .master = master.defined() ? master.view() : View{},
                                              .lr = 1e-4,
                                              .weight_decay = 0.01,
                                              .bias_correction1 = 0.5,
                                              .bias_correction2 = 0.5};
            kernels::launch(kernels::adamw, stream, {.tensors = std::span(&tensor, 1)});
          }};
}
KernelWork adamw(KernelOperands& operands) { return adamw_with(operands, DType::f32); }
KernelWork adamw_8bit(KernelOperands& operands) { return adamw_with(operands, DType::u8); }

struct AttentionOperands {
  explicit AttentionOperands(KernelOperands& operands)
      : shape{1, operands.sequence(), kHeads, kHeadSize},
        q(operands.values(shape)),
        k(operands.values(shape)),
        v(operands.values(shape)),
        out(operands.result(shape)),
        lse(operands.zeros({1, kHeads, operands.sequence()}, DType::f32)) {}
  /// Of the matmuls that a causal mask leaves.
  double operations() const {
    return 2.0 * static_cast<double>(kHeads * kHeadSize) * static_cast<double>(shape[1]) *
           static_cast<double>(shape[1] + 1);
  }
  void forward(Stream stream) const {
    kernels::launch(
        kernels::attention, stream,
        {.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view(), .lse = lse.view(), .scale = kScale});
  }

  static constexpr float kScale = 0.088388348F;  // 128^-1/2
  Shape shape;
  Tensor q, k, v, out, lse;
};

KernelWork attention(KernelOperands& operands) {
  const AttentionOperands a(operands);
  return {.bytes = bytes_of({a.q, a.k, a.v, a.out}),
          .operations = a.operations(),
          .run = [stream = operands.stream(), a] { a.forward(stream); }};
}

KernelWork attention_backward(KernelOperands& operands) {
  const AttentionOperands a(operands);
  const Tensor dout = operands.values(a.shape), dq = operands.result(a.shape), dk = operands.result(a.shape),
               dv = operands.result(a.shape), delta = Tensor::empty_like(a.lse);
  a.forward(operands.stream());
  return {.bytes = bytes_of({a.q, a.k, a.v, a.out, dout, dq, dk, dv}),
          .operations = 2.5 * a.operations(),
          .run = [stream = operands.stream(), a, dout, dq, dk, dv, delta] {
            kernels::launch(kernels::attention_backward, stream,
                            {.q = a.q.view(),
                             .k = a.k.view(),
                             .v = a.v.view(),
                             .out = a.out.view(),
                             .lse = a.lse.view(),
                             .dout = dout.view(),
                             .dq = dq.view(),
                             .dk = dk.view(),
                             .dv = dv.view(),
                             .delta = delta.view(),
                             .scale = AttentionOperands::kScale});
          }};
}

// The next token of eight texts, on caches of the size that an operand has.
KernelWork attention_decode(KernelOperands& operands) {
  constexpr std::int64_t kSequences = 8, kQueryHeads = 32, kKeyHeads = 8;
  const std::int64_t keys =
      std::max<std::int64_t>(operands.elements() / (kSequences * kKeyHeads * kHeadSize), 1);
  const auto cache = [&] {  // heads outermost, as a KV cache has them
    return ingot::transpose(operands.values({kSequences, kKeyHeads, keys, kHeadSize}), 1, 2);
  };
  const Tensor q = operands.values({kSequences, 1, kQueryHeads, kHeadSize}), k = cache(), v = cache(),
               out = operands.result(q.shape());
  kernels::AttentionArgs args{
      .q = q.view(), .k = k.view(), .v = v.view(), .out = out.view(), .scale = AttentionOperands::kScale};
  const Tensor scratch =
      operands.zeros({std::max<std::int64_t>(kernels::attention_scratch(args), 1)}, DType::f32);
  args.scratch = scratch.view();
  return {.bytes = bytes_of({q, k, v, out}),
          .run = [stream = operands.stream(), q, k, v, out, scratch, args] {
            kernels::launch(kernels::attention, stream, args);
          }};
}

// Images of 28 x 28 pixels under 3 x 3 taps, as in the middle of a ResNet.
struct ConvOperands {
  explicit ConvOperands(KernelOperands& operands)
      : shape{std::max<std::int64_t>(operands.elements() / (kSide * kSide * kChannels), 1), kSide, kSide,
              kChannels},
        x(operands.values(shape)),
        y(operands.values(shape)),
        weight(operands.values({kChannels, kChannels, 3, 3})) {}
  double operations() const { return 2.0 * 9 * kChannels * static_cast<double>(x.numel()); }

  static constexpr std::int64_t kSide = 28, kChannels = 128;
  static constexpr kernels::ConvGeometry kGeometry{.padding = {1, 1}, .channels_last = true};
  Shape shape;
  Tensor x, y, weight;
};

template <class Args, class MakeArgs>
KernelWork conv_work(KernelOperands& operands, const kernels::Kernel<Args>& kernel, MakeArgs&& make_args) {
  const ConvOperands c(operands);
  Args args = make_args(c);
  Tensor scratch;
  if (const std::int64_t size = kernels::conv_scratch(args); size > 0) {
    scratch = operands.zeros({size}, DType::f32);
    args.scratch = scratch.view();
  }
  return {.bytes = bytes_of({c.x, c.y, c.weight}),
          .operations = c.operations(),
          .run = [stream = operands.stream(), &kernel, c, args, scratch] {
            kernels::launch(kernel, stream, args);
          }};
}

KernelWork conv(KernelOperands& operands) {
  return conv_work(operands, kernels::conv, [](const ConvOperands& c) {
    return kernels::ConvArgs{
        .x = c.x.view(), .weight = c.weight.view(), .y = c.y.view(), .geometry = c.kGeometry};
  });
}

KernelWork conv_backward_data(KernelOperands& operands) {
  return conv_work(operands, kernels::conv_backward_data, [](const ConvOperands& c) {
    return kernels::ConvBackwardDataArgs{
        .weight = c.weight.view(), .dy = c.y.view(), .dx = c.x.view(), .geometry = c.kGeometry};
  });
}

KernelWork conv_backward_weight(KernelOperands& operands) {
  return conv_work(operands, kernels::conv_backward_weight, [](const ConvOperands& c) {
    return kernels::ConvBackwardWeightArgs{
        .x = c.x.view(), .dy = c.y.view(), .dweight = c.weight.view(), .geometry = c.kGeometry};
  });
}

// Tokens by a square weight, both in 8 bits: scales of whole tensors, or of blocks.
KernelWork fp8_matmul_with(KernelOperands& operands, const Shape& a_scales, const Shape& b_scales) {
  constexpr std::int64_t kWidth = KernelOperands::kWidth;
  const std::int64_t tokens = operands.sequence();
  const auto floats = [&](const Shape& shape) {
    return to(operands.values(shape, DType::f32), DType::f8e4m3);
  };
  const Tensor a = floats({tokens, kWidth}), b = floats({kWidth, kWidth});
  const Tensor a_scale = operands.values(a_scales, DType::f32),
               b_scale = operands.values(b_scales, DType::f32), c = operands.result({tokens, kWidth});
  return {.bytes = bytes_of({a, b, c, a_scale, b_scale}),
          .operations = 2.0 * static_cast<double>(tokens * kWidth) * static_cast<double>(kWidth),
          .run = [stream = operands.stream(), a, b, c, a_scale, b_scale] {
            kernels::launch(kernels::fp8_matmul, stream,
                            {.a = a.view(),
                             .b = b.view(),
                             .c = c.view(),
                             .a_scale = a_scale.view(),
                             .b_scale = b_scale.view()});
          }};
}
KernelWork fp8_matmul(KernelOperands& operands) { return fp8_matmul_with(operands, {1}, {1}); }
KernelWork fp8_matmul_blocks(KernelOperands& operands) {
  constexpr std::int64_t kBlocks = KernelOperands::kWidth / kernels::kFp8Block;
  return fp8_matmul_with(operands, {operands.sequence(), kBlocks}, {kBlocks, kBlocks});
}

// The gradient of a bias.
KernelWork column_sum(KernelOperands& operands) {
  const Tensor x = operands.rows_of_values(), y = operands.result({KernelOperands::kWidth});
  const Tensor partials =
      operands.zeros({kernels::scratch_parts(operands.device()), KernelOperands::kWidth}, DType::f32);
  return {.bytes = bytes_of({x, y}), .run = [stream = operands.stream(), x, y, partials] {
            kernels::launch(kernels::column_sum, stream,
                            {.x = x.view(), .y = y.view(), .partials = partials.view()});
          }};
}

std::vector<KernelCase> all_cases() {
  std::vector<KernelCase> list = {
      {"copy", copy},
      {"cast", cast},
      {"transpose", transpose},
      {"add", add},
      {"gelu", gelu},
      {"silu_mul", silu_mul},
      {"silu_mul_backward", silu_mul_backward},
      {"silu_mul_halves", silu_mul_halves},
      {"silu_mul_halves_backward", silu_mul_halves_backward},
      {"silu_mul_halves_backward_product", silu_mul_halves_backward_product},
  };
  const std::vector<KernelCase> rows = row_kernel_cases();
  list.insert(list.end(), rows.begin(), rows.end());
  list.insert(list.end(), {
                              {"column_sum", column_sum},
                              {"adamw", adamw},
                              {"adamw_8bit", adamw_8bit},
                              {"attention", attention},
                              {"attention_backward", attention_backward},
                              {"attention_decode", attention_decode},
                              {"conv", conv},
                              {"conv_backward_data", conv_backward_data},
                              {"conv_backward_weight", conv_backward_weight},
                              {"fp8_matmul", fp8_matmul, true},
                              {"fp8_matmul_blocks", fp8_matmul_blocks, true},
                          });
  return list;
}

}  // namespace

const std::vector<KernelCase>& kernel_cases() {
  static const std::vector<KernelCase> list = all_cases();
  return list;
}

}  // namespace ingot::benchmark
