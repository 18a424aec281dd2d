#include <cstring>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/blocks.h"
#include "ingot/kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/binary.cpp"
#include <hwy/foreach_target.h>

#include "ingot/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

void binary_block(BinaryOp op, const float* x, const float* z, float* y, std::int64_t n, bool accumulate) {
  const auto run = [&](auto f) HWY_ATTR { map<2>({x, z}, y, n, accumulate, f); };
  switch (op) {
    case BinaryOp::add:
      return run([](V a, V b) HWY_ATTR { return hn::Add(a, b); });
    case BinaryOp::sub:
      return run([](V a, V b) HWY_ATTR { return hn::Sub(a, b); });
    case BinaryOp::mul:
      return run([](V a, V b) HWY_ATTR { return hn::Mul(a, b); });
    case BinaryOp::div:
      return run([](V a, V b) HWY_ATTR { return hn::Div(a, b); });
    case BinaryOp::maximum:  // a NaN in either wins
      return run([](V a, V b) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b); });
    case BinaryOp::minimum:
      return run([](V a, V b) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b); });
  }
}

void binary_backward_block(BinaryOp op, const float* const* p, float* dx, std::int64_t n, bool accumulate) {
  const auto run = [&](auto f) HWY_ATTR { map<3>({p[0], p[1], p[2]}, dx, n, accumulate, f); };
  if (op == BinaryOp::div) {
    return run([](V a, V b, V dy) HWY_ATTR { return hn::Neg(hn::Mul(dy, hn::Div(a, hn::Mul(b, b)))); });
  }
  const bool largest = op == BinaryOp::maximum;
  run([largest](V a, V b, V dy) HWY_ATTR {
    const auto first = largest ? hn::Gt(a, b) : hn::Lt(a, b);
    const V half = hn::IfThenElseZero(hn::Eq(a, b), hn::Mul(dy, set(0.5F)));
    return hn::IfThenElse(first, dy, half);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(binary_block);
HWY_EXPORT(binary_backward_block);

constexpr std::int64_t kGrain = 32768;  // elements: 384 KiB of traffic, some 5 µs

void run_binary(const BinaryArgs& args, Stream) {
  for_each_block<3>({reads(args.a), reads(args.b), writes(args.y, args.accumulate)}, kGrain,
                    [&](const auto& p, std::int64_t n) {
                      HWY_DYNAMIC_DISPATCH(binary_block)(args.op, p[0], p[1], p[2], n, args.accumulate);
                    });
}

void run_binary_backward(const BinaryBackwardArgs& args, Stream) {
  for_each_block<4>({reads(args.a), reads(args.b), reads(args.dy), writes(args.dx, args.accumulate)}, kGrain,
                    [&](const auto& p, std::int64_t n) {
                      HWY_DYNAMIC_DISPATCH(binary_backward_block)
                      (args.op, p.data(), p[3], n, args.accumulate);
                    });
}

// Plain loops that the compiler vectorizes; the condition is bool, which blocks do not have.
void run_where(const WhereArgs& args, Stream) {
  parallel_runs<4>({args.condition, args.a, args.b, args.y}, kGrain,
                   [&](const auto& at, std::int64_t n, const auto& step) {
                     const bool* condition = args.condition.as<bool>() + at[0];
                     const float zero = 0;
                     const float* a = args.a ? args.a.as<float>() + at[1] : &zero;  // step 0 when absent
                     const float* b = args.b ? args.b.as<float>() + at[2] : &zero;
                     float* y = args.y.as<float>() + at[3];
                     for (std::int64_t i = 0; i < n; ++i) {
                       const float value = condition[i * step[0]] ? a[i * step[1]] : b[i * step[2]];
                       y[i * step[3]] = args.accumulate ? y[i * step[3]] + value : value;
                     }
                   });
}

void run_fill(const FillArgs& args, Stream) {
  const auto value = static_cast<float>(args.value);
  parallel_for(args.y.numel(), 2 * kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::fill(args.y.as<float>() + begin, args.y.as<float>() + end, value);
  });
}

// Zero is all bits clear in every dtype.
void run_clear(const FillArgs& args, Stream) {
  const std::size_t size = byte_size(args.y.dtype);
  parallel_for(args.y.numel(), 2 * kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memset(args.y.as<char>() + static_cast<std::size_t>(begin) * size, 0,
                static_cast<std::size_t>(end - begin) * size);
  });
}

}  // namespace

void register_binary_simd() {
  binary.add(DeviceType::cpu,
             {"simd", ImplKind::simd,
              [](const BinaryArgs& args) { return are_simd_floats(args.a, args.b, args.y); }, run_binary});
  binary_backward.add(DeviceType::cpu, {"simd", ImplKind::simd,
                                        [](const BinaryBackwardArgs& args) {
                                          return are_simd_floats(args.a, args.b, args.dy, args.dx);
                                        },
                                        run_binary_backward});
  where.add(DeviceType::cpu, {"simd", ImplKind::simd,
                              [](const WhereArgs& args) { return args.y.dtype == DType::f32; }, run_where});
  fill.add(DeviceType::cpu,
           {"clear", ImplKind::simd,
            [](const FillArgs& args) { return args.value == 0 && args.y.is_contiguous(); }, run_clear});
  fill.add(
      DeviceType::cpu,
      {"simd", ImplKind::simd,
       [](const FillArgs& args) { return args.y.dtype == DType::f32 && args.y.is_contiguous(); }, run_fill});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
