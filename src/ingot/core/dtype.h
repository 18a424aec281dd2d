#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ingot {

/// The types a tensor's elements can have. Quantized formats are structs of tensors, not dtypes.
enum class DType : std::uint8_t { f32, f64, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, boolean };

/// IEEE 754 binary16, as storage: arithmetic happens in float.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  explicit f16(float value);
  explicit operator float() const;
};

/// The upper half of a float, rounded to nearest even.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U) {
      bits = static_cast<std::uint16_t>((word >> 16) | 0x40);  // NaN stays NaN, quiet
    } else {
      bits = static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// 8-bit floats of the OCP specification (E4M3: no infinity, largest 448; E5M2: IEEE-like, largest 57344).
/// Conversion from float rounds to nearest even; values beyond the largest saturate.
struct f8e4m3 {
  std::uint8_t bits = 0;
  f8e4m3() = default;
  explicit f8e4m3(float value);
  explicit operator float() const;
};

struct f8e5m2 {
  std::uint8_t bits = 0;
  f8e5m2() = default;
  explicit f8e5m2(float value);
  explicit operator float() const;
};

/// Bytes of one element.
constexpr std::size_t byte_size(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

constexpr bool is_floating_point(DType dtype) { return dtype <= DType::f8e5m2; }
constexpr bool is_integer(DType dtype) { return dtype >= DType::i64 && dtype <= DType::u8; }
constexpr bool is_half_precision(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
/// A dtype that weights may be trained in.
constexpr bool is_training_dtype(DType dtype) { return dtype == DType::f32 || is_half_precision(dtype); }
/// What sums over elements of `dtype` are kept in: f32 for small floats, i64 for integers.
constexpr DType accumulator_dtype(DType dtype) {
  if (dtype == DType::f64) return DType::f64;
  return is_floating_point(dtype) ? DType::f32 : DType::i64;
}

/// "f32", "bf16", "bool", ...
std::string_view name(DType dtype);
/// Accepts Ingot's names and those of PyTorch and safetensors ("float32", "torch.bfloat16", "BF16",
/// "F8_E4M3"). Throws InvalidConfig that lists the names otherwise.
DType parse_dtype(std::string_view text);

/// The C++ type of a dtype's elements, and back: `dtype_of<float> == DType::f32`.
template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<f8e4m3> = DType::f8e4m3;
template <>
inline constexpr DType dtype_of<f8e5m2> = DType::f8e5m2;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

[[noreturn]] void throw_unsupported_dtype(DType dtype, std::string_view where, std::string_view supported);

/// Calls `f.template operator()<T>()` with the C++ type of a floating dtype (f32, f64, f16, bf16).
template <class F>
decltype(auto) dispatch_float(DType dtype, std::string_view where, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::f16:
      return f.template operator()<f16>();
    case DType::bf16:
      return f.template operator()<bf16>();
    default:
      throw_unsupported_dtype(dtype, where, "f32, f64, f16, bf16");
  }
}

/// Calls `f.template operator()<T>()` with std::int64_t or std::int32_t, the dtypes of indices.
template <class F>
decltype(auto) dispatch_index(DType dtype, std::string_view where, F&& f) {
  switch (dtype) {
    case DType::i64:
      return f.template operator()<std::int64_t>();
    case DType::i32:
      return f.template operator()<std::int32_t>();
    default:
      throw_unsupported_dtype(dtype, where, "i64, i32");
  }
}

/// Calls `f.template operator()<T>()` with the C++ type of any dtype.
template <class F>
decltype(auto) dispatch_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f16:
      return f.template operator()<f16>();
    case DType::bf16:
      return f.template operator()<bf16>();
    case DType::f8e4m3:
      return f.template operator()<f8e4m3>();
    case DType::f8e5m2:
      return f.template operator()<f8e5m2>();
    case DType::i64:
      return f.template operator()<std::int64_t>();
    case DType::i32:
      return f.template operator()<std::int32_t>();
    case DType::i16:
      return f.template operator()<std::int16_t>();
    case DType::i8:
      return f.template operator()<std::int8_t>();
    case DType::u8:
      return f.template operator()<std::uint8_t>();
    case DType::boolean:
      return f.template operator()<bool>();
    default:
      return f.template operator()<float>();
  }
}

}  // namespace ingot
