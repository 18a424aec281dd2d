#include "ingot/ops/grouped_linear.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/gemm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

char* at(const View& view, std::int64_t elements) {
  return view.as<char>() + elements * static_cast<std::int64_t>(byte_size(view.dtype));
}

// Rows [begin, end) of a contiguous matrix.
View rows_of(View view, std::int64_t begin, std::int64_t end) {
  view.data = at(view, begin * view.dim(1));
  view.shape[0] = end - begin;
  return view;
}

// Matrix `group` of a contiguous stack of them.
View matrix_of(View view, std::int64_t group) {
  view.data = at(view, group * view.dim(1) * view.dim(2));
  const std::int64_t rows = view.dim(1), cols = view.dim(2);
  view.rank = 2;
  view.shape = {rows, cols};
  view.strides = {cols, 1};
  return view;
}

template <class F>
void for_each_group(const std::vector<std::int64_t>& offsets, F&& f) {
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    f(static_cast<std::int64_t>(g), offsets[g], offsets[g + 1]);
  }
}

struct GroupedLinearNode final : Node {
  static constexpr const char* kName = "grouped_linear";
  SavedTensor x, weight;
  std::vector<std::int64_t> offsets;
  GroupedLinearNode(const Tensor& x_, const Tensor& weight_, const std::vector<std::int64_t>& offsets_)
      : x(x_), weight(weight_), offsets(offsets_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &weight}; }

  void backward(BackwardContext& ctx) override {
    const View dy = ctx.grad().view();
    if (const GradSlot dx = ctx.slot(0)) {
      for_each_group(offsets, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
        if (begin == end) return;
        kernels::launch(kernels::gemm, ctx.stream(),
                        {.a = rows_of(dy, begin, end),
                         .b = matrix_of(weight.view(), g),
                         .c = rows_of(dx.view, begin, end),
                         .beta = dx.accumulate ? 1.0F : 0.0F});
      });
    }
    if (const GradSlot dw = ctx.slot(1)) {
      for_each_group(offsets, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
        const View c = matrix_of(dw.view, g);
        if (begin == end) {
          if (!dw.accumulate) kernels::launch(kernels::fill, ctx.stream(), {.y = c});
          return;
        }
        kernels::launch(kernels::gemm, ctx.stream(),
                        {.a = transposed(rows_of(dy, begin, end)),
                         .b = rows_of(x.view(), begin, end),
                         .c = c,
                         .beta = dw.accumulate ? 1.0F : 0.0F});
      });
    }
  }
};

}  // namespace

Tensor grouped_linear(const Tensor& input, const Tensor& stack, const std::vector<std::int64_t>& offsets) {
  check_defined("grouped_linear", {&input, &stack});
  INGOT_CHECK(input.rank() == 2 && stack.rank() == 3 && input.dim(1) == stack.dim(2),
              ShapeMismatch("grouped_linear (weight)", {-1, -1, input.rank() == 2 ? input.dim(1) : -1},
                            stack.shape().to_vector(), "x is [rows, in] and the weight [groups, out, in]"));
  const bool fits = static_cast<std::int64_t>(offsets.size()) == stack.dim(0) + 1 && offsets.front() == 0 &&
                    offsets.back() == input.dim(0) && std::ranges::is_sorted(offsets);
  INGOT_CHECK(fits, DimensionMismatch("grouped_linear: offsets must be " + std::to_string(stack.dim(0) + 1) +
                                      " ascending numbers from 0 to " + std::to_string(input.dim(0))));
  const Tensor x = contiguous(input), weight = contiguous(stack);
  Tensor y = Tensor::empty({x.dim(0), weight.dim(1)}, x.dtype(), x.device());
  for_each_group(offsets, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    kernels::launch(kernels::gemm, current_stream(x.device()),
                    {.a = rows_of(x.view(), begin, end),
                     .b = transposed(matrix_of(weight.view(), g)),
                     .c = rows_of(y.view(), begin, end)});
  });
  return record<GroupedLinearNode>(y, {&x, &weight}, x, weight, offsets);
}

}  // namespace ingot
