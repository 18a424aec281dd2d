#include "ingot/kernels/copy.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ingot/kernels/check.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/strided.h"

namespace ingot::kernels::cpu {
namespace {

/// Towards zero. NaN and what is too large, which C++ leaves open, become what x86's instructions (cvttss2si
/// of 32 bits, or of 64 where 32 do not hold all values) give, as in PyTorch.
template <class To, class From>
To truncated(From value) {
  using Wide =
      std::conditional_t<sizeof(To) < 4 || std::is_same_v<To, std::int32_t>, std::int32_t, std::int64_t>;
  constexpr From kEnd = -static_cast<From>(std::numeric_limits<Wide>::min());  // a power of two, so exact
  if constexpr (std::is_same_v<To, std::uint64_t>) {
    if (value >= kEnd && value < 2 * kEnd) return static_cast<To>(value);
  }
  // Of an f64 between -2^31 - 1 and -2^31 the digits behind the point go.
  const bool fits = value < kEnd && (value >= -kEnd || std::trunc(value) == -kEnd);
  return static_cast<To>(fits ? static_cast<Wide>(value) : std::numeric_limits<Wide>::min());
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                       !std::is_same_v<To, bool>) {
    return truncated<To>(value);
  } else if constexpr (std::is_arithmetic_v<From> && std::is_arithmetic_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_arithmetic_v<To>) {  // through f32: f16, bf16 and f8 know only that
    return convert<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

template <class To>
To sum(To a, To b) {
  if constexpr (std::is_same_v<To, bool>) {
    return a || b;
  } else if constexpr (std::is_arithmetic_v<To>) {
    return static_cast<To>(a + b);
  } else {
    return static_cast<To>(static_cast<float>(a) + static_cast<float>(b));
  }
}

void copy_reference(const CopyArgs& args, Stream) {
  dispatch_any(args.x.dtype, [&]<class From>() {
    dispatch_any(args.y.dtype, [&]<class To>() {
      const From* x = args.x.as<From>();
      To* y = args.y.as<To>();
      for_each_run<2>({args.x, args.y}, [&](const auto& offsets, std::int64_t n, const auto& strides) {
        for (std::int64_t i = 0; i < n; ++i) {
          To& to = y[offsets[1] + i * strides[1]];
          const To value = convert<To>(x[offsets[0] + i * strides[0]]);
          to = args.accumulate ? sum(to, value) : value;
        }
      });
    });
  });
}

void count_nonfinite_reference(const CountNonfiniteArgs& args, Stream) {
  std::int64_t count = 0;
  dispatch_float(args.x.dtype, "count_nonfinite", [&]<class T>() {
    for_each_run<1>({args.x}, [&](const auto& offsets, std::int64_t n, const auto& strides) {
      for (std::int64_t i = 0; i < n; ++i) {
        count += std::isfinite(load(args.x.as<T>() + offsets[0] + i * strides[0])) ? 0 : 1;
      }
    });
  });
  args.count.as<std::int64_t>()[0] = count;
}

}  // namespace

void register_copy_reference() {
  copy.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, copy_reference});
  count_nonfinite.add(DeviceType::cpu,
                      {"reference", ImplKind::reference, nullptr, count_nonfinite_reference});
}

}  // namespace ingot::kernels::cpu
