#include "ingot/kernels/gemm.h"

#include "ingot/kernels/cpu/gemm_plan.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

// T: of a, c and bias; B: of b.
template <class T, class B>
void gemm_of(const GemmArgs& args) {
  using Acc = Accumulator<T>;
  const GemmPlan plan(args);
  for (std::int64_t i = 0; i < plan.batch_count; ++i) {
    const auto at = plan.batch_offsets(i);
    for (std::int64_t row = 0; row < plan.m; ++row) {
      for (std::int64_t col = 0; col < plan.n; ++col) {
        Acc sum = 0;
        for (std::int64_t s = 0; s < plan.summed_count; ++s) {
          const auto inner = plan.summed_offsets(s);
          const T* a = args.a.as<T>() + at.a + inner.a + row * plan.a_row;
          const B* b = args.b.as<B>() + at.b + inner.b + col * plan.b_col;
          for (std::int64_t p = 0; p < plan.k; ++p) {
            sum += load(a + p * plan.a_col) * static_cast<Acc>(load(b + p * plan.b_row));
          }
        }
        T* c = args.c.as<T>() + at.c + row * plan.c_row + col * plan.c_col;
        Acc value = static_cast<Acc>(args.alpha) * sum;
        if (args.beta != 0.0F) value += static_cast<Acc>(args.beta) * load(c);
        if (args.bias) value += load(args.bias.as<T>() + col * args.bias.stride(0));
        store(c, value);
      }
    }
  }
}

void gemm_reference(const GemmArgs& args, Stream) {
  dispatch_float(args.c.dtype, "gemm", [&]<class T>() {
    if (args.b.dtype == args.c.dtype) return gemm_of<T, T>(args);
    if (args.b.dtype == DType::bf16) return gemm_of<T, bf16>(args);
    gemm_of<T, f16>(args);
  });
}

void column_sum_reference(const ColumnSumArgs& args, Stream) {
  dispatch_float(args.x.dtype, "column_sum", [&]<class T>() {
    const std::int64_t m = args.x.dim(0), n = args.x.dim(1);
    for (std::int64_t j = 0; j < n; ++j) {
      Accumulator<T> sum = 0;
      for (std::int64_t i = 0; i < m; ++i) sum += load(args.x.as<T>() + i * n + j);
      store(args.y.as<T>() + j, sum, args.accumulate);
    }
  });
}

}  // namespace

void register_gemm_reference() {
  gemm.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, gemm_reference});
  column_sum.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, column_sum_reference});
  // Each of their parts is the best that there is.
  gemm_each.add(DeviceType::cpu, {"one_by_one", ImplKind::reference, nullptr, gemm_each_by_one});
  gemm_silu_mul.add(DeviceType::cpu, {"in_three", ImplKind::reference, nullptr, gemm_silu_mul_in_three});
  gemm_gelu.add(DeviceType::cpu, {"in_two", ImplKind::reference, nullptr, gemm_gelu_in_two});
  gemm_gelu_backward.add(DeviceType::cpu,
                         {"in_two", ImplKind::reference, nullptr, gemm_gelu_backward_in_two});
  linear_parameters_backward.add(DeviceType::cpu,
                                 {"in_two", ImplKind::reference, nullptr, linear_parameters_backward_in_two});
}

}  // namespace ingot::kernels::cpu
