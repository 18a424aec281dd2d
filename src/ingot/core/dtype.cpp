#include "ingot/core/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"

namespace ingot {
namespace {

// A small float of 1 sign, `exponent_bits` and `mantissa_bits`, rounded to nearest even from a float.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint32_t sign_mask() const { return 1U << (exponent_bits + mantissa_bits); }
  constexpr std::uint32_t infinity() const {
    return ((1U << exponent_bits) - 1U) << mantissa_bits;  // without has_infinity: still a finite code
  }
  constexpr std::uint32_t nan() const { return sign_mask() - 1U; }
  constexpr std::uint32_t largest() const { return has_infinity ? infinity() - 1U : nan() - 1U; }

  std::uint32_t encode(float value, bool saturate) const {
    const std::uint32_t sign = std::signbit(value) ? sign_mask() : 0;
    if (std::isnan(value)) return sign | nan();
    const float magnitude = std::fabs(value);
    if (magnitude == 0.0F) return sign;
    int exponent = 0;
    std::frexp(magnitude, &exponent);               // magnitude = m * 2^exponent, m in [0.5, 1)
    exponent = std::max(exponent - 1, 1 - bias());  // subnormals share the smallest exponent
    const float steps = std::ldexp(magnitude, mantissa_bits - exponent);  // exact: only the exponent changes
    // The codes of one sign are consecutive, so rounding up across an exponent needs no special case.
    const auto rounded = std::isinf(steps) ? float{0x1p30F} : std::nearbyint(steps);
    const auto base = static_cast<std::uint32_t>(exponent + bias() - 1) << mantissa_bits;
    const std::uint32_t code = rounded >= 0x1p30F ? nan() : base + static_cast<std::uint32_t>(rounded);
    if (code > largest()) return sign | (saturate ? largest() : infinity());
    return sign | code;
  }

  float decode(std::uint32_t bits) const {
    const float sign = (bits & sign_mask()) != 0 ? -1.0F : 1.0F;
    const std::uint32_t code = bits & nan();
    if (has_infinity && code == infinity()) return sign * INFINITY;
    if (code > largest()) return std::nanf("");
    const auto exponent = static_cast<int>(code >> mantissa_bits);
    const auto mantissa = static_cast<int>(code & ((1U << mantissa_bits) - 1U));
    const int implicit = exponent == 0 ? 0 : 1 << mantissa_bits;
    return sign * std::ldexp(static_cast<float>(implicit + mantissa),
                             std::max(exponent, 1) - bias() - mantissa_bits);
  }
};

constexpr SmallFloat kF16{5, 10, true};
constexpr SmallFloat kE4M3{4, 3, false};
constexpr SmallFloat kE5M2{5, 2, true};

constexpr std::array<std::string_view, 12> kNames{"f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2",
                                                  "i64", "i32", "i16", "i8",   "u8",     "bool"};

constexpr std::array<std::pair<std::string_view, DType>, 16> kAliases{{{"float32", DType::f32},
                                                                       {"float", DType::f32},
                                                                       {"float64", DType::f64},
                                                                       {"double", DType::f64},
                                                                       {"float16", DType::f16},
                                                                       {"half", DType::f16},
                                                                       {"bfloat16", DType::bf16},
                                                                       {"float8_e4m3fn", DType::f8e4m3},
                                                                       {"f8_e4m3", DType::f8e4m3},
                                                                       {"float8_e5m2", DType::f8e5m2},
                                                                       {"f8_e5m2", DType::f8e5m2},
                                                                       {"int64", DType::i64},
                                                                       {"int32", DType::i32},
                                                                       {"int16", DType::i16},
                                                                       {"int8", DType::i8},
                                                                       {"uint8", DType::u8}}};

}  // namespace

f16::f16(float value) : bits(static_cast<std::uint16_t>(kF16.encode(value, false))) {}
f16::operator float() const { return kF16.decode(bits); }
f8e4m3::f8e4m3(float value) : bits(static_cast<std::uint8_t>(kE4M3.encode(value, true))) {}
f8e4m3::operator float() const { return kE4M3.decode(bits); }
f8e5m2::f8e5m2(float value) : bits(static_cast<std::uint8_t>(kE5M2.encode(value, true))) {}
f8e5m2::operator float() const { return kE5M2.decode(bits); }

std::string_view name(DType dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

DType parse_dtype(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string_view wanted = lower.starts_with("torch.") ? std::string_view(lower).substr(6) : lower;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == wanted) return static_cast<DType>(i);
  }
  for (const auto& [alias, dtype] : kAliases) {
    if (alias == wanted) return dtype;
  }
  std::vector<std::string> known(kNames.begin(), kNames.end());
  const std::string listed = fmt::format("{}", fmt::join(known, ", "));
  for (const auto& [alias, unused] : kAliases) known.emplace_back(alias);
  throw InvalidConfig("dtype", fmt::format("'{}' is not a dtype{}; use one of {}", text,
                                           did_you_mean(wanted, known), listed));
}

void throw_unsupported_dtype(DType dtype, std::string_view where, std::string_view supported) {
  throw KernelError(
      std::string(where),
      fmt::format("does not take dtype {} (it takes {}); convert with to(dtype)", name(dtype), supported));
}

}  // namespace ingot
