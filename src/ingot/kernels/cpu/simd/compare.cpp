#include <algorithm>
#include <type_traits>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/simd/convert.h"
#include "ingot/kernels/cpu/strided.h"
#include "ingot/kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/compare.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Registers of a and b to a mask. not_equal is the one comparison that holds for a NaN, which Highway's Ne
// does not on AVX-512; nor has it a <= of integers on x86.
template <CompareOp op, class V>
HWY_INLINE auto holds(V a, V b) {
  constexpr bool kIntegers = std::is_integral_v<hn::TFromV<V>>;
  if constexpr (op == CompareOp::less_equal && kIntegers)
    return hn::Not(hn::Gt(a, b));
  else if constexpr (op == CompareOp::greater_equal && kIntegers)
    return hn::Not(hn::Lt(a, b));
  else if constexpr (op == CompareOp::equal)
    return hn::Eq(a, b);
  else if constexpr (op == CompareOp::not_equal)
    return hn::Not(hn::Eq(a, b));
  else if constexpr (op == CompareOp::less)
    return hn::Lt(a, b);
  else if constexpr (op == CompareOp::less_equal)
    return hn::Le(a, b);
  else if constexpr (op == CompareOp::greater)
    return hn::Gt(a, b);
  else if constexpr (op == CompareOp::greater_equal)
    return hn::Ge(a, b);
}

template <CompareOp op, class T>
void compare_runs(const T* a, const T* b, std::uint8_t* y, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint8_t, decltype(d)> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = hn::Set(du, 1);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto mask = hn::RebindMask(du, holds<op>(hn::LoadU(d, a + i), hn::LoadU(d, b + i)));
    hn::StoreU(hn::TruncateTo(bytes, hn::IfThenElseZero(mask, one)), bytes, y + i);
  }
  const hn::CappedTag<T, 1> single;
  for (; i < n; ++i) {
    const auto mask = holds<op>(hn::LoadU(single, a + i), hn::LoadU(single, b + i));
    y[i] = hn::AllTrue(single, mask) ? 1 : 0;
  }
}

template <class T>
void compare_block(CompareOp op, const T* a, const T* b, std::uint8_t* y, std::int64_t n) {
  switch (op) {
    case CompareOp::equal:
      return compare_runs<CompareOp::equal>(a, b, y, n);
    case CompareOp::not_equal:
      return compare_runs<CompareOp::not_equal>(a, b, y, n);
    case CompareOp::less:
      return compare_runs<CompareOp::less>(a, b, y, n);
    case CompareOp::less_equal:
      return compare_runs<CompareOp::less_equal>(a, b, y, n);
    case CompareOp::greater:
      return compare_runs<CompareOp::greater>(a, b, y, n);
    case CompareOp::greater_equal:
      return compare_runs<CompareOp::greater_equal>(a, b, y, n);
  }
}

void compare_floats(CompareOp op, const float* a, const float* b, std::uint8_t* y, std::int64_t n) {
  compare_block(op, a, b, y, n);
}
void compare_i32(CompareOp op, const std::int32_t* a, const std::int32_t* b, std::uint8_t* y,
                 std::int64_t n) {
  compare_block(op, a, b, y, n);
}
void compare_i64(CompareOp op, const std::int64_t* a, const std::int64_t* b, std::uint8_t* y,
                 std::int64_t n) {
  compare_block(op, a, b, y, n);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(compare_floats);
HWY_EXPORT(compare_i32);
HWY_EXPORT(compare_i64);

constexpr std::int64_t kGrain = 32768;  // elements: some 5 µs
constexpr std::int64_t kBlock = 1024;   // elements whose operands are brought together in L1

bool accepts(const CompareArgs& args) {
  const DType dtype = args.a.dtype;
  return (is_simd_float(dtype) || dtype == DType::i32 || dtype == DType::i64) && args.y.is_contiguous();
}

// n elements of `view` as contiguous T: in place where they are that, else in `buffer`.
template <class T>
const T* contiguous_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t n,
                        T* buffer) {
  if constexpr (std::is_same_v<T, float>) {
    const auto size = static_cast<std::int64_t>(byte_size(view.dtype));
    if (view.dtype != DType::f32 || (stride != 1 && n > 1)) {
      load_floats(view.as<char>() + offset * size, view.dtype, stride, n, buffer);
      return buffer;
    }
  } else if (stride != 1) {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = view.as<T>()[offset + i * stride];
    return buffer;
  }
  return view.as<T>() + offset;
}

template <class T, class Compare>
void run_blocks(const CompareArgs& args, Compare&& compare) {
  parallel_runs<3>({args.a, args.b, args.y}, kGrain, [&](const auto& at, std::int64_t n, const auto& step) {
    T a[kBlock], b[kBlock];
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const std::int64_t size = std::min(kBlock, n - i);
      compare(args.op, contiguous_run(args.a, at[0] + i * step[0], step[0], size, a),
              contiguous_run(args.b, at[1] + i * step[1], step[1], size, b),
              args.y.as<std::uint8_t>() + at[2] + i, size);
    }
  });
}

void run(const CompareArgs& args, Stream) {
  if (args.a.dtype == DType::i32) return run_blocks<std::int32_t>(args, HWY_DYNAMIC_DISPATCH(compare_i32));
  if (args.a.dtype == DType::i64) return run_blocks<std::int64_t>(args, HWY_DYNAMIC_DISPATCH(compare_i64));
  run_blocks<float>(args, HWY_DYNAMIC_DISPATCH(compare_floats));
}

}  // namespace

void register_compare_simd() { compare.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run}); }

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
