#include "ingot/c_api/ops.h"

#include "ingot/autograd/grad_mode.h"
#include "ingot/c_api/inner/objects.h"
#include "ingot/core/host_memory.h"
#include "ingot/kernels/fp8_matmul.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"
#include "ingot/quant/linear.h"

using namespace ingot;
using namespace ingot::c_api;

namespace ingot::c_api {
namespace {

/// An op of one call: on the device and stream of its first operand, without gradients.
template <class Work>
IngotStatus compute(const char* function, const IngotTensor* first, IngotStream* stream, IngotTensor** out,
                    const Work& work) {
  return call(function, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    const Tensor x = tensor_arg(first);
    const OnStream on(stream, x.device());
    made = open_tensor(work(x));
  });
}

std::int64_t blocks_of(std::int64_t size) { return (size + kernels::kFp8Block - 1) / kernels::kFp8Block; }

void check_fp8(const Tensor& x, const char* argument) {
  if (x.dtype() != DType::f8e4m3 && x.dtype() != DType::f8e5m2)
    throw InvalidArgument(argument,
                          "is " + std::string(name(x.dtype())) + "; convert it to f8e4m3 or f8e5m2");
  if (x.rank() != 2 || !x.is_contiguous())
    throw InvalidArgument(argument, "has to be a contiguous matrix, and is of shape " + to_string(x.shape()));
}

void check_scale(const Tensor& scale, const Shape& blocks, const Tensor& other, const char* argument) {
  if (scale.dtype() != DType::f32 || !scale.is_contiguous())
    throw InvalidArgument(argument, "has to be contiguous f32");
  const Shape wanted = other.rank() == 2 ? blocks : Shape{1};
  INGOT_CHECK(scale.shape() == wanted,
              ShapeMismatch(argument, wanted.to_vector(), scale.shape().to_vector()));
}

Tensor fp8_matmul(const Tensor& a, const Tensor& a_scale, const Tensor& b, const Tensor& b_scale,
                  const Tensor& bias, DType dtype) {
  check_fp8(a, "a");
  check_fp8(b, "b");
  if (a.dtype() == DType::f8e5m2 && b.dtype() == DType::f8e5m2)
    throw InvalidArgument("b", "is f8e5m2 as a is; one of them has to be f8e4m3");
  if (dtype != DType::f32 && !is_half_precision(dtype))
    throw InvalidArgument("out_dtype", "is " + std::string(name(dtype)) + "; f32, bf16 and f16 are possible");
  const std::int64_t m = a.dim(0), n = b.dim(0), k = a.dim(1);
  INGOT_CHECK(b.dim(1) == k, ShapeMismatch("b", {n, k}, b.shape().to_vector()));
  check_scale(a_scale, {m, blocks_of(k)}, a_scale, "a_scale");
  check_scale(b_scale, {blocks_of(n), blocks_of(k)}, a_scale, "b_scale");
  for (const Tensor* other : {&a_scale, &b, &b_scale, &bias}) {
    INGOT_CHECK(!other->defined() || other->device() == a.device(),
                DeviceMismatch("ingot_matmul_fp8", to_string(a.device()), to_string(other->device())));
  }
  View bias_view{};
  if (bias.defined()) {
    if (bias.dtype() != dtype || !bias.is_contiguous())
      throw InvalidArgument("bias", "has to be contiguous and of out_dtype");
    INGOT_CHECK(bias.shape() == Shape{n}, ShapeMismatch("bias", {n}, bias.shape().to_vector()));
    bias_view = bias.view();
  }
  Tensor c = Tensor::empty({m, n}, dtype, a.device());
  kernels::launch(kernels::fp8_matmul, current_stream(a.device()),
                  {.a = a.view(),
                   .b = b.view(),
                   .c = c.view(),
                   .a_scale = a_scale.view(),
                   .b_scale = b_scale.view(),
                   .bias = bias_view});
  return c;
}

Tensor binary(IngotBinary op, const Tensor& a, const Tensor& b) {
  switch (op) {
    case INGOT_ADD:
      return add(a, b);
    case INGOT_SUB:
      return sub(a, b);
    case INGOT_MUL:
      return mul(a, b);
    case INGOT_DIV:
      return div(a, b);
    case INGOT_MAXIMUM:
      return maximum(a, b);
    case INGOT_MINIMUM:
      return minimum(a, b);
    case INGOT_SILU_MUL:
      return silu_mul(a, b);
    default:
      throw InvalidArgument("op", "is " + std::to_string(op) + ", which is not an IngotBinary");
  }
}

Tensor unary(IngotUnary op, const Tensor& x) {
  switch (op) {
    case INGOT_NEG:
      return neg(x);
    case INGOT_EXP:
      return exp(x);
    case INGOT_LOG:
      return log(x);
    case INGOT_SQRT:
      return sqrt(x);
    case INGOT_SIGMOID:
      return sigmoid(x);
    case INGOT_TANH:
      return tanh(x);
    case INGOT_RELU:
      return relu(x);
    case INGOT_SILU:
      return silu(x);
    case INGOT_GELU:
      return gelu_erf(x);
    case INGOT_GELU_TANH:
      return gelu_tanh(x);
    default:
      throw InvalidArgument("op", "is " + std::to_string(op) + ", which is not an IngotUnary");
  }
}

Tensor reduce(IngotReduction op, const Tensor& x, const Axes& axes) {
  switch (op) {
    case INGOT_SUM:
      return sum(x, axes);
    case INGOT_MEAN:
      return mean(x, axes);
    case INGOT_MAX:
      return max(x, axes);
    case INGOT_MIN:
      return min(x, axes);
    default:
      throw InvalidArgument("op", "is " + std::to_string(op) + ", which is not an IngotReduction");
  }
}

}  // namespace
}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_matmul(const IngotTensor* a, const IngotTensor* b, IngotStream* stream, IngotTensor** out) {
  return compute(__func__, a, stream, out, [&](const Tensor& x) { return matmul(x, tensor_arg(b)); });
}

IngotStatus ingot_linear(const IngotTensor* x, const IngotTensor* weight, const IngotTensor* bias,
                         IngotStream* stream, IngotTensor** out) {
  return compute(__func__, x, stream, out,
                 [&](const Tensor& in) { return linear(in, tensor_arg(weight), tensor_or_none(bias)); });
}

IngotStatus ingot_matmul_fp8(const IngotTensor* a, const IngotTensor* a_scale, const IngotTensor* b,
                             const IngotTensor* b_scale, const IngotTensor* bias, IngotDtype out_dtype,
                             IngotStream* stream, IngotTensor** out) {
  return compute(__func__, a, stream, out, [&](const Tensor& x) {
    return fp8_matmul(x, tensor_arg(a_scale), tensor_arg(b), tensor_arg(b_scale), tensor_or_none(bias),
                      dtype_arg(out_dtype, "out_dtype"));
  });
}

IngotStatus ingot_pack(const IngotTensor* weight, const char* format, IngotPackedMatrix** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const Tensor w = tensor_arg(weight);
    INGOT_CHECK(w.rank() == 2,
                DimensionMismatch("a weight to be packed is a matrix, not " + to_string(w.shape())));
    INGOT_CHECK(has_host_memory(w.device()), DeviceMismatch("ingot_pack", "cpu", to_string(w.device())));
    made = open_handle(std::make_shared<IngotPackedMatrix>(
        quant::quantize_and_pack(contiguous(w), string_arg(format, "format"))));
  });
}

IngotStatus ingot_packed_linear(const IngotTensor* x, const IngotPackedMatrix* weight,
                                const IngotTensor* bias, IngotStream* stream, IngotTensor** out) {
  return compute(__func__, x, stream, out, [&](const Tensor& in) {
    const auto packed = object_of(weight);
    INGOT_CHECK(
        in.dtype() == DType::f32,
        KernelError("ingot_packed_linear", "x is " + std::string(name(in.dtype())) + "; convert it to f32"));
    return quant::linear(contiguous(in), *packed->matrix, tensor_or_none(bias));
  });
}

IngotStatus ingot_packed_values(const IngotPackedMatrix* weight, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_tensor(quant::values(*object_of(weight)->matrix));
  });
}

IngotStatus ingot_packed_close(IngotPackedMatrix* weight) {
  return call(__func__, [&] { close_handle(weight); });
}

IngotStatus ingot_rms_norm(const IngotTensor* x, const IngotTensor* weight, float eps, IngotStream* stream,
                           IngotTensor** out) {
  return compute(__func__, x, stream, out,
                 [&](const Tensor& in) { return rms_norm(in, tensor_arg(weight), eps); });
}

IngotStatus ingot_layer_norm(const IngotTensor* x, const IngotTensor* weight, const IngotTensor* bias,
                             float eps, IngotStream* stream, IngotTensor** out) {
  return compute(__func__, x, stream, out, [&](const Tensor& in) {
    return layer_norm(in, tensor_or_none(weight), tensor_or_none(bias), eps);
  });
}

IngotStatus ingot_softmax(const IngotTensor* x, IngotStream* stream, IngotTensor** out) {
  return compute(__func__, x, stream, out, [&](const Tensor& in) { return softmax(in); });
}

IngotStatus ingot_attention_options(IngotAttentionOptions* options, size_t size) {
  return call(__func__, [&] {
    IngotAttentionOptions defaults{};
    defaults.causal = 1;
    fill_options(options, size, defaults);
  });
}

IngotStatus ingot_attention(const IngotTensor* q, const IngotTensor* k, const IngotTensor* v,
                            const IngotAttentionOptions* options, IngotStream* stream, IngotTensor** out) {
  return compute(__func__, q, stream, out, [&](const Tensor& queries) {
    IngotAttentionOptions defaults{};
    defaults.causal = 1;
    const auto o = options_or(options, defaults);
    return attention(queries, tensor_arg(k), tensor_arg(v),
                     {.causal = o.causal != 0,
                      .scale = o.scale,
                      .window = o.window,
                      .softcap = o.softcap,
                      .doc_start = tensor_or_none(o.doc_start),
                      .kv_length = tensor_or_none(o.kv_length)});
  });
}

IngotStatus ingot_binary(IngotBinary op, const IngotTensor* a, const IngotTensor* b, IngotStream* stream,
                         IngotTensor** out) {
  return compute(__func__, a, stream, out, [&](const Tensor& x) { return binary(op, x, tensor_arg(b)); });
}

IngotStatus ingot_unary(IngotUnary op, const IngotTensor* x, IngotStream* stream, IngotTensor** out) {
  return compute(__func__, x, stream, out, [&](const Tensor& in) { return unary(op, in); });
}

IngotStatus ingot_reduce(IngotReduction op, const IngotTensor* x, const int32_t* axes, size_t count,
                         IngotStream* stream, IngotTensor** out) {
  return compute(__func__, x, stream, out, [&](const Tensor& in) {
    const auto given = array_arg(axes, count, "axes");
    return reduce(op, in, Axes(given.begin(), given.end()));
  });
}

IngotStatus ingot_argmax(const IngotTensor* x, int32_t axis, IngotStream* stream, IngotTensor** out) {
  return compute(__func__, x, stream, out, [&](const Tensor& in) { return argmax(in, axis); });
}

}  // extern "C"
