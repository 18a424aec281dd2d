#include "ingot/ops/grouped_linear.h"

#include <algorithm>
#include <span>
#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/host_memory.h"
#include "ingot/kernels/grouped.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

struct GroupedLinearNode final : Node {
  static constexpr const char* kName = "grouped_linear";
  SavedTensor x, weight, offsets;
  GroupedLinearNode(const Tensor& x_, const Tensor& weight_, const Tensor& offsets_)
      : x(x_), weight(weight_), offsets(offsets_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &weight, &offsets}; }

  void backward(BackwardContext& ctx) override {
    const View dy = ctx.grad().view();
    if (const GradSlot dx = ctx.slot(0)) {
      kernels::launch(kernels::grouped_gemm, ctx.stream(),
                      {.a = dy,
                       .b = weight.view(),
                       .c = dx.view,
                       .offsets = offsets.view(),
                       .accumulate = dx.accumulate});
    }
    if (const GradSlot dw = ctx.slot(1)) {
      kernels::launch(
          kernels::grouped_outer, ctx.stream(),
          {.a = dy, .b = x.view(), .c = dw.view, .offsets = offsets.view(), .accumulate = dw.accumulate});
    }
  }
};

void check_offsets(const Tensor& offsets, std::int64_t groups, std::int64_t rows) {
  const auto fits = [&] {
    if (offsets.dtype() != DType::i64 || offsets.shape() != Shape({groups + 1})) return false;
    if (!has_host_memory(offsets.device())) return true;
    const std::span at(offsets.data<std::int64_t>(), static_cast<std::size_t>(groups) + 1);
    return at.front() == 0 && at.back() == rows && std::ranges::is_sorted(at);
  };
  INGOT_CHECK(fits(), DimensionMismatch("grouped_linear: offsets must be " + std::to_string(groups + 1) +
                                        " ascending i64 numbers from 0 to " + std::to_string(rows)));
}

void check_experts(const Tensor& experts, std::int64_t count) {
  INGOT_CHECK(count >= 1, DimensionMismatch("route_experts: there must be at least one expert, got " +
                                            std::to_string(count)));
  INGOT_CHECK(experts.dtype() == DType::i64 && experts.rank() == 2,
              DimensionMismatch("route_experts: experts must be i64 [tokens, choices], got " +
                                std::string(name(experts.dtype())) + " " + to_string(experts.shape())));
  if (!has_host_memory(experts.device())) return;
  const std::span chosen(experts.data<std::int64_t>(), static_cast<std::size_t>(experts.numel()));
  const auto wrong = std::ranges::find_if(chosen, [&](std::int64_t e) { return e < 0 || e >= count; });
  INGOT_CHECK(wrong == chosen.end(),
              DimensionMismatch("route_experts: experts must be from 0 to " + std::to_string(count - 1) +
                                ", got " + std::to_string(*wrong)));
}

}  // namespace

Tensor grouped_linear(const Tensor& input, const Tensor& stack, const Tensor& offsets) {
  const OpScope op_scope("grouped_linear", {&input, &stack});
  check_defined("grouped_linear", {&offsets});
  INGOT_CHECK(input.rank() == 2 && stack.rank() == 3 && input.dim(1) == stack.dim(2),
              ShapeMismatch("grouped_linear (weight)", {-1, -1, input.rank() == 2 ? input.dim(1) : -1},
                            stack.shape().to_vector(), "x is [rows, in] and the weight [groups, out, in]"));
  const Tensor x = contiguous(input), weight = contiguous(stack), groups = contiguous(offsets);
  check_offsets(groups, weight.dim(0), x.dim(0));
  Tensor y = Tensor::empty({x.dim(0), weight.dim(1)}, x.dtype(), x.device());
  kernels::launch(kernels::grouped_gemm, current_stream(x.device()),
                  {.a = x.view(), .b = transposed(weight.view()), .c = y.view(), .offsets = groups.view()});
  return record<GroupedLinearNode>(y, {&x, &weight}, x, weight, groups);
}

ExpertRouting route_experts(const Tensor& experts, std::int64_t expert_count) {
  check_defined("route_experts", {&experts});
  const Tensor chosen = contiguous(experts);
  check_experts(chosen, expert_count);
  const auto numbers = [&](std::int64_t count) {
    return Tensor::empty({count}, DType::i64, chosen.device());
  };
  const std::int64_t pairs = chosen.numel();
  ExpertRouting routing{numbers(expert_count + 1), numbers(pairs), numbers(pairs), numbers(pairs)};
  kernels::launch(kernels::route, current_stream(chosen.device()),
                  {.experts = chosen.view(),
                   .offsets = routing.offsets.view(),
                   .tokens = routing.tokens.view(),
                   .sorted = routing.experts.view(),
                   .positions = routing.positions.view()});
  return routing;
}

}  // namespace ingot
