#include "ingot/ops/complex.h"

#include <string>
#include <utility>
#include <vector>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/complex.h"
#include "ingot/kernels/gemm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

struct ComplexMultiplyNode final : Node {
  static constexpr const char* kName = "complex_multiply";
  SavedTensor a, b;
  bool conjugate_b;
  ComplexMultiplyNode(const Tensor& a_, const Tensor& b_, bool conjugate)
      : a(a_), b(b_), conjugate_b(conjugate) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&a, &b}; }

  void backward(BackwardContext& ctx) override {
    const View dy = ctx.grad().view();
    if (const GradSlot da = ctx.slot(0)) multiply(ctx, dy, b.view(), !conjugate_b, da);
    if (const GradSlot db = ctx.slot(1)) {
      conjugate_b ? multiply(ctx, a.view(), dy, true, db) : multiply(ctx, dy, a.view(), true, db);
    }
  }

  static void multiply(BackwardContext& ctx, const View& x, const View& y, bool conjugate,
                       const GradSlot& to) {
    kernels::launch(kernels::complex_multiply, ctx.stream(),
                    {.a = x, .b = y, .y = to.view, .conjugate_b = conjugate, .accumulate = to.accumulate});
  }
};

struct ComplexAbsNode final : Node {
  static constexpr const char* kName = "complex_abs";
  SavedTensor z, y;
  ComplexAbsNode(const Tensor& z_, const Tensor& y_) : z(z_), y(y_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&z, &y}; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dz = ctx.slot(0);
    kernels::launch(
        kernels::complex_abs_backward, ctx.stream(),
        {.x = z.view(), .y = y.view(), .dy = ctx.grad().view(), .dx = dz.view, .accumulate = dz.accumulate});
  }
};

struct ComplexTanhNode final : Node {
  static constexpr const char* kName = "complex_tanh";
  SavedTensor y;
  explicit ComplexTanhNode(const Tensor& y_) : y(y_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&y}; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    kernels::launch(kernels::complex_tanh_backward, ctx.stream(),
                    {.y = y.view(), .dy = ctx.grad().view(), .dx = dx.view, .accumulate = dx.accumulate});
  }
};

// Part 0 (real) or 1 (imaginary), without its axis.
View part(const View& z, int which) {
  View out = z;
  const auto offset = which * z.stride(0) * static_cast<std::int64_t>(byte_size(z.dtype));
  out.data = z.as<char>() + offset;
  out.rank = z.rank - 1;
  for (std::size_t i = 0; i + 1 < z.shape.size(); ++i) {
    out.shape[i] = z.shape[i + 1];
    out.strides[i] = z.strides[i + 1];
  }
  return out;
}

// c = a·b of complex matrices, or += with `accumulate`; with `conjugate_a` or `conjugate_b`, of that factor's
// conjugate. Four real matmuls, straight into c.
struct ComplexProduct {
  View a, b, c;
  bool conjugate_a = false, conjugate_b = false;
  bool accumulate = false;

  void run(Stream stream) const {
    const float turn_a = conjugate_a ? -1.0F : 1.0F, turn_b = conjugate_b ? -1.0F : 1.0F;
    multiply(stream, 0, 0, 0, 1, accumulate);
    multiply(stream, 1, 1, 0, -turn_a * turn_b, true);
    multiply(stream, 0, 1, 1, turn_b, accumulate);
    multiply(stream, 1, 0, 1, turn_a, true);
  }
  void multiply(Stream stream, int of_a, int of_b, int of_c, float factor, bool add) const {
    kernels::launch(kernels::gemm, stream,
                    {.a = part(a, of_a),
                     .b = part(b, of_b),
                     .c = part(c, of_c),
                     .alpha = factor,
                     .beta = add ? 1.0F : 0.0F});
  }
};

struct ComplexMatmulNode final : Node {
  static constexpr const char* kName = "complex_matmul";
  SavedTensor a, b;
  ComplexMatmulNode(const Tensor& a_, const Tensor& b_) : a(a_), b(b_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&a, &b}; }

  void backward(BackwardContext& ctx) override {
    const View dy = ctx.grad().view();
    if (const GradSlot da = ctx.slot(0)) {
      ComplexProduct{
          .a = dy, .b = transposed(b.view()), .c = da.view, .conjugate_b = true, .accumulate = da.accumulate}
          .run(ctx.stream());
    }
    if (const GradSlot db = ctx.slot(1)) {
      ComplexProduct{
          .a = transposed(a.view()), .b = dy, .c = db.view, .conjugate_a = true, .accumulate = db.accumulate}
          .run(ctx.stream());
    }
  }
};

}  // namespace

void check_complex(const char* op, const Tensor& z) {
  INGOT_CHECK(
      z.rank() >= 1 && z.dim(0) == 2,
      DimensionMismatch(std::string(op) + ": a complex tensor is [2, ...], got " + to_string(z.shape())));
}

Tensor complex_multiply(const Tensor& a_in, const Tensor& b_in, bool conjugate_b) {
  const OpScope op_scope(ComplexMultiplyNode::kName, {&a_in, &b_in});
  check_complex(ComplexMultiplyNode::kName, a_in);
  INGOT_CHECK(a_in.shape() == b_in.shape(),
              ShapeMismatch(ComplexMultiplyNode::kName, a_in.shape().to_vector(), b_in.shape().to_vector(),
                            "both factors have one shape"));
  const Tensor a = contiguous(a_in), b = contiguous(b_in);
  Tensor y = Tensor::empty_like(a);
  if (y.numel() > 0) {
    kernels::launch(kernels::complex_multiply, current_stream(a.device()),
                    {.a = a.view(), .b = b.view(), .y = y.view(), .conjugate_b = conjugate_b});
  }
  return record<ComplexMultiplyNode>(y, {&a, &b}, a, b, conjugate_b);
}

Tensor complex_matmul(const Tensor& a_in, const Tensor& b_in) {
  const OpScope op_scope(ComplexMatmulNode::kName, {&a_in, &b_in});
  check_complex(ComplexMatmulNode::kName, a_in);
  const int rank = a_in.rank();
  const bool fits = rank >= 3 && b_in.rank() == rank &&
                    a_in.shape().drop_last(2) == b_in.shape().drop_last(2) && a_in.dim(-1) == b_in.dim(-2);
  INGOT_CHECK(fits,
              ShapeMismatch(ComplexMatmulNode::kName, a_in.shape().to_vector(), b_in.shape().to_vector(),
                            "the operands are [2, ..., m, k] and [2, ..., k, n]"));
  const Tensor a = as_matrix(a_in), b = as_matrix(b_in);
  Tensor y = Tensor::empty(a.shape().with(-1, b.dim(-1)), a.dtype(), a.device());
  if (y.numel() > 0) {
    ComplexProduct{.a = a.view(), .b = b.view(), .c = y.view()}.run(current_stream(a.device()));
  }
  return record<ComplexMatmulNode>(y, {&a, &b}, a, b);
}

Tensor complex_abs(const Tensor& input) {
  const OpScope op_scope(ComplexAbsNode::kName, {&input});
  check_complex(ComplexAbsNode::kName, input);
  const Tensor z = contiguous(input);
  Tensor y = Tensor::empty(z.shape().erase(0), z.dtype(), z.device());
  if (y.numel() > 0) {
    kernels::launch(kernels::complex_abs, current_stream(z.device()), {.x = z.view(), .y = y.view()});
  }
  return record<ComplexAbsNode>(y, {&z}, z, y);
}

Tensor complex_tanh(const Tensor& input) {
  const OpScope op_scope(ComplexTanhNode::kName, {&input});
  check_complex(ComplexTanhNode::kName, input);
  const Tensor z = contiguous(input);
  Tensor y = Tensor::empty_like(z);
  if (y.numel() > 0) {
    kernels::launch(kernels::complex_tanh, current_stream(z.device()), {.x = z.view(), .y = y.view()});
  }
  return record<ComplexTanhNode>(y, {&z}, y);
}

}  // namespace ingot
