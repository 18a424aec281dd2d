#include "ingot/kernels/grouped.h"

#include <algorithm>
#include <vector>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/gemm.h"

namespace ingot::kernels::cpu {
namespace {

// Rows [begin, end) of a matrix.
View rows_of(View view, std::int64_t begin, std::int64_t end) {
  view.data = view.as<char>() + begin * view.stride(0) * static_cast<std::int64_t>(byte_size(view.dtype));
  view.shape[0] = end - begin;
  return view;
}

// Matrix `group` of a stack of them.
View matrix_of(View view, std::int64_t group) {
  view.data = view.as<char>() + group * view.stride(0) * static_cast<std::int64_t>(byte_size(view.dtype));
  for (std::size_t i = 0; i < 2; ++i) {
    view.shape[i] = view.shape[i + 1];
    view.strides[i] = view.strides[i + 1];
  }
  view.rank = 2;
  return view;
}

template <class F>
void for_each_group(const View& offsets, F&& f) {
  const auto* at = offsets.as<std::int64_t>();
  for (std::int64_t g = 0; g + 1 < offsets.dim(0); ++g) f(g, at[g], at[g + 1]);
}

// The best gemm kernel that there is for each group.
void grouped_gemm_one_by_one(const GroupedGemmArgs& args, Stream stream) {
  for_each_group(args.offsets, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    launch(gemm, stream,
           {.a = rows_of(args.a, begin, end),
            .b = matrix_of(args.b, g),
            .c = rows_of(args.c, begin, end),
            .beta = args.accumulate ? 1.0F : 0.0F});
  });
}

void grouped_outer_one_by_one(const GroupedOuterArgs& args, Stream stream) {
  for_each_group(args.offsets, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
    const View c = matrix_of(args.c, g);
    if (begin == end) {
      if (!args.accumulate) launch(fill, stream, {.y = c});
      return;
    }
    launch(gemm, stream,
           {.a = transposed(rows_of(args.a, begin, end)),
            .b = rows_of(args.b, begin, end),
            .c = c,
            .beta = args.accumulate ? 1.0F : 0.0F});
  });
}

void route_reference(const RouteArgs& args, Stream) {
  const auto* experts = args.experts.as<std::int64_t>();
  auto* offsets = args.offsets.as<std::int64_t>();
  const std::int64_t pairs = args.experts.numel(), count = args.offsets.dim(0) - 1;
  std::fill_n(offsets, count + 1, 0);
  for (std::int64_t pair = 0; pair < pairs; ++pair) ++offsets[experts[pair] + 1];
  for (std::int64_t e = 0; e < count; ++e) offsets[e + 1] += offsets[e];
  std::vector<std::int64_t> next(offsets, offsets + count);
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int64_t position = next[static_cast<std::size_t>(experts[pair])]++;
    args.positions.as<std::int64_t>()[pair] = position;
    args.tokens.as<std::int64_t>()[position] = pair / args.experts.dim(1);
    args.sorted.as<std::int64_t>()[position] = experts[pair];
  }
}

}  // namespace

void register_grouped_reference() {
  grouped_gemm.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, grouped_gemm_one_by_one});
  grouped_outer.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, grouped_outer_one_by_one});
  route.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, route_reference});
}

}  // namespace ingot::kernels::cpu
