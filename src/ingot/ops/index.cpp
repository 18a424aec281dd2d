#include "ingot/ops/index.h"

#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/meta_backend.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/index.h"
#include "ingot/ops/broadcast.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

void check_indices(const char* op, const Tensor& indices, std::int64_t bound) {
  INGOT_CHECK(indices.dtype() == DType::i64 || indices.dtype() == DType::i32,
              KernelError(op, "indices have dtype " + std::string(name(indices.dtype())) +
                                  "; they must be i64 or i32"));
  if (indices.device() == kMeta) return;
  const Tensor position = Tensor::empty({1}, DType::i64, indices.device());
  kernels::launch(kernels::find_outside, current_stream(indices.device()),
                  {.indices = indices.view(), .position = position.view(), .bound = bound});
  const auto at = static_cast<std::int64_t>(position.item());
  if (at < 0) return;
  const auto value =
      static_cast<std::int64_t>(narrow(reshape(indices, Shape{indices.numel()}), 0, at, 1).item());
  throw DimensionMismatch(std::string(op) + ": index " + std::to_string(value) + " at position " +
                          std::to_string(at) + " is outside [0, " + std::to_string(bound) + ")");
}

struct EmbeddingNode final : Node {
  static constexpr const char* kName = "embedding";
  SavedTensor ids;
  explicit EmbeddingNode(const Tensor& ids_) : ids(ids_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&ids}; }

  void backward(BackwardContext& ctx) override {
    const std::int64_t numbers = kernels::embedding_scratch(ids.view());
    const Tensor scratch = numbers > 0 ? Tensor::empty({numbers}, DType::i32, ctx.grad().device()) : Tensor{};
    const GradSlot dweight = ctx.slot(0);
    kernels::launch(kernels::embedding_backward, ctx.stream(),
                    {.dy = ctx.grad().view(),
                     .ids = ids.view(),
                     .dweight = dweight.view,
                     .scratch = scratch.view(),
                     .accumulate = dweight.accumulate});
  }
};

struct GatherNode final : Node {
  static constexpr const char* kName = "gather";
  SavedTensor index;
  int axis;
  GatherNode(const Tensor& index_, int axis_) : index(index_), axis(axis_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&index}; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    if (!dx.accumulate) kernels::launch(kernels::fill, ctx.stream(), {.y = dx.view});
    kernels::launch(kernels::scatter_add, ctx.stream(),
                    {.x = ctx.grad().view(), .index = index.view(), .y = dx.view, .axis = axis});
  }
};

struct ScatterAddNode final : Node {
  static constexpr const char* kName = "scatter_add";
  SavedTensor index;
  int axis;
  ScatterAddNode(const Tensor& index_, int axis_) : index(index_), axis(axis_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&index}; }

  void backward(BackwardContext& ctx) override {
    ctx.pass(0, ctx.grad());
    const GradSlot source = ctx.slot(1);
    if (!source) return;
    kernels::launch(kernels::gather, ctx.stream(),
                    {.x = ctx.grad().view(),
                     .index = index.view(),
                     .y = source.view,
                     .axis = axis,
                     .accumulate = source.accumulate});
  }
};

// The sizes of `index` but the axis' must be x's.
void check_index_shape(const char* op, const Tensor& x, int axis, const Tensor& index) {
  INGOT_CHECK(index.rank() == x.rank() && index.shape().with(axis, 0) == x.shape().with(axis, 0),
              ShapeMismatch(op, x.shape().to_vector(), index.shape().to_vector(),
                            "the index has the sizes of the tensor on every axis but the indexed one"));
}

}  // namespace

Tensor embedding(const Tensor& weight_, const Tensor& ids_) {
  const OpScope op_scope("embedding", {&weight_, &ids_}, false);
  INGOT_CHECK(weight_.rank() == 2,
              DimensionMismatch("embedding: the weight must be [rows, width], got shape " +
                                to_string(weight_.shape())));
  INGOT_CHECK(ids_.rank() < kMaxRank,
              DimensionMismatch("embedding: ids of rank " + std::to_string(ids_.rank()) +
                                " leave no axis for the width"));
  // Where the host would have to wait for the answer, in every step of a training, the kernel tells instead.
  if (!backend(ids_.device()).capabilities().streams) check_indices("embedding", ids_, weight_.dim(0));
  const Tensor weight = contiguous(weight_), ids = contiguous(ids_);
  Tensor y = Tensor::empty(ids.shape().insert(ids.rank(), weight.dim(1)), weight.dtype(), weight.device());
  kernels::launch(kernels::embedding, current_stream(weight.device()),
                  {.weight = weight.view(), .ids = ids.view(), .y = y.view()});
  y = record<EmbeddingNode>(y, {&weight}, ids);
  if (!is_recomputed(weight)) return y;
  return recomputable(y, {&weight, &ids}, [](std::span<const Tensor> in) { return embedding(in[0], in[1]); });
}

Tensor gather_within(const Tensor& x, int axis, const Tensor& index) {
  Tensor y = Tensor::empty(index.shape(), x.dtype(), x.device());
  kernels::launch(kernels::gather, current_stream(x.device()),
                  {.x = x.view(), .index = index.view(), .y = y.view(), .axis = axis});
  return record<GatherNode>(y, {&x}, index, axis);
}

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  const OpScope op_scope("gather", {&x, &index}, false);
  const int at = normalize_axis(axis, x.rank(), "gather");
  check_index_shape("gather", x, at, index);
  check_indices("gather", index, x.dim(at));
  return gather_within(x, at, index);
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source) {
  const OpScope op_scope("scatter_add", {&x, &source});
  check_defined("scatter_add", {&x, &index}, false);
  const int at = normalize_axis(axis, x.rank(), "scatter_add");
  check_index_shape("scatter_add", x, at, index);
  INGOT_CHECK(index.shape() == source.shape(),
              ShapeMismatch("scatter_add (source)", index.shape().to_vector(), source.shape().to_vector()));
  check_indices("scatter_add", index, x.dim(at));
  Tensor y = clone(x.detach());
  kernels::launch(kernels::scatter_add, current_stream(x.device()),
                  {.x = source.view(), .index = index.view(), .y = y.view(), .axis = at});
  return record<ScatterAddNode>(y, {&x, &source}, index, at);
}

Tensor index_select(const Tensor& x, int axis, const Tensor& indices) {
  const OpScope op_scope("index_select", {&x, &indices}, false);
  const int at = normalize_axis(axis, x.rank(), "index_select");
  INGOT_CHECK(indices.rank() == 1, DimensionMismatch("index_select: the indices must be [n], got shape " +
                                                     to_string(indices.shape())));
  check_indices("index_select", indices, x.dim(at));
  return index_select_within(x, at, indices);
}

Tensor index_select_within(const Tensor& x, int axis, const Tensor& indices) {
  Shape along;  // [1, .., n, .., 1]
  for (int i = 0; i < x.rank(); ++i) along = along.insert(i, i == axis ? indices.dim(0) : 1);
  const Tensor index = broadcast_to(reshape(indices, along), x.shape().with(axis, indices.dim(0)));
  return gather_within(x, axis, index);
}

Tensor one_hot(const Tensor& ids, std::int64_t classes, DType dtype) {
  const OpScope op_scope("one_hot", {&ids});
  check_indices("one_hot", ids, classes);
  const Tensor y = Tensor::zeros(ids.shape().insert(ids.rank(), classes), dtype, ids.device());
  const Tensor one = Tensor::empty({1}, dtype, ids.device());
  kernels::launch(kernels::fill, current_stream(ids.device()), {.y = one.view(), .value = 1});
  const Tensor index = unsqueeze(ids, -1);
  kernels::launch(
      kernels::scatter_add, current_stream(ids.device()),
      {.x = expanded(one.view(), index.shape()), .index = index.view(), .y = y.view(), .axis = ids.rank()});
  return y;
}

}  // namespace ingot
