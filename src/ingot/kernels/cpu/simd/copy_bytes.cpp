#include <array>
#include <bit>

#include "ingot/kernels/copy.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/strided.h"

namespace ingot::kernels::cpu {
namespace {

// Numbers of eight bits from and to f32: what training with rounded operands does to every activation.

constexpr std::int64_t kBytesGrain = 16384;  // elements, some 10 µs

using ByteValues = std::array<float, 256>;

template <class T>
const ByteValues& byte_values() {
  static const ByteValues values = [] {
    ByteValues made{};
    for (std::size_t i = 0; i < made.size(); ++i)
      made[i] = static_cast<float>(std::bit_cast<T>(static_cast<std::uint8_t>(i)));
    return made;
  }();
  return values;
}

const ByteValues& byte_values_of(DType dtype) {
  if (dtype == DType::i8) return byte_values<std::int8_t>();
  return dtype == DType::f8e4m3 ? byte_values<f8e4m3>() : byte_values<f8e5m2>();
}

// Without branches, so that a loop over it becomes vectors. `largest`: the code of the largest finite number.
template <unsigned mantissa_bits, unsigned bias, unsigned largest>
std::uint8_t rounded_byte(float x) {
  constexpr unsigned kShift = 23 - mantissa_bits, kSmallestNormal = (128U - bias) << 23;
  // The last place of the sum is that of a subnormal number, so it is rounded as one.
  constexpr unsigned kSum = (151U - bias - mantissa_bits) << 23;
  const unsigned word = std::bit_cast<unsigned>(x), sign = word >> 24 & 0x80U, magnitude = word & 0x7fffffffU;
  const unsigned below =
      std::bit_cast<unsigned>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kSum)) - kSum;
  const unsigned half = (1U << (kShift - 1)) - 1U + (magnitude >> kShift & 1U);
  const unsigned above = ((magnitude + half) >> kShift) - ((127U - bias) << mantissa_bits);
  unsigned code = magnitude < kSmallestNormal ? below : above;
  code = code < largest ? code : largest;
  code = magnitude > 0x7f800000U ? 0x7fU : code;  // not a number
  return static_cast<std::uint8_t>(sign | code);
}

template <unsigned mantissa_bits, unsigned bias, unsigned largest>
void round_bytes(const CopyArgs& args) {
  const auto* x = args.x.as<float>();
  auto* y = args.y.as<std::uint8_t>();
  parallel_runs<2>({args.x, args.y}, kBytesGrain,
                   [&](const auto& offsets, std::int64_t n, const auto& strides) {
                     const float* from = x + offsets[0];
                     std::uint8_t* to = y + offsets[1];
                     for (std::int64_t i = 0; i < n; ++i)
                       to[i * strides[1]] = rounded_byte<mantissa_bits, bias, largest>(from[i * strides[0]]);
                   });
}

bool is_small_float(DType dtype) { return dtype == DType::f8e4m3 || dtype == DType::f8e5m2; }

bool accepts_rounding(const CopyArgs& args) {
  return args.x.dtype == DType::f32 && is_small_float(args.y.dtype) && !args.accumulate;
}

void run_rounding(const CopyArgs& args, Stream) {
  if (args.y.dtype == DType::f8e4m3) return round_bytes<3, 7, 0x7e>(args);
  round_bytes<2, 15, 0x7b>(args);
}

bool accepts_widening(const CopyArgs& args) {
  return (is_small_float(args.x.dtype) || args.x.dtype == DType::i8) && args.y.dtype == DType::f32 &&
         !args.accumulate;
}

void run_widening(const CopyArgs& args, Stream) {
  const ByteValues& values = byte_values_of(args.x.dtype);
  const auto* x = args.x.as<std::uint8_t>();
  auto* y = args.y.as<float>();
  parallel_runs<2>({args.x, args.y}, kBytesGrain,
                   [&](const auto& offsets, std::int64_t n, const auto& strides) {
                     const std::uint8_t* from = x + offsets[0];
                     float* to = y + offsets[1];
                     for (std::int64_t i = 0; i < n; ++i) to[i * strides[1]] = values[from[i * strides[0]]];
                   });
}

}  // namespace

void register_copy_bytes() {
  copy.add(DeviceType::cpu, {"rounded to bytes", ImplKind::simd, accepts_rounding, run_rounding});
  copy.add(DeviceType::cpu, {"bytes widened", ImplKind::simd, accepts_widening, run_widening});
}

}  // namespace ingot::kernels::cpu
