#include "ingot/onnx/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "onnx.pb.h"
#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/onnx_file.h"

namespace ingot::onnx {
namespace {

/// A type of whole numbers, or of floats.
struct ElementInfo {
  ElementType type;
  int bits;
  DType carrier;
  bool is_signed;
};

constexpr std::array kElements = {
    ElementInfo{ElementType::u16, 16, DType::i32, false},
    ElementInfo{ElementType::text, 0, DType::i64, false},
    ElementInfo{ElementType::u32, 32, DType::i64, false},
    ElementInfo{ElementType::u64, 64, DType::i64, false},
    ElementInfo{ElementType::f8e4m3fnuz, 8, DType::f32, true},
    ElementInfo{ElementType::f8e5m2fnuz, 8, DType::f32, true},
    ElementInfo{ElementType::u4, 4, DType::u8, false},
    ElementInfo{ElementType::i4, 4, DType::i8, true},
    ElementInfo{ElementType::f4e2m1, 4, DType::f32, true},
    ElementInfo{ElementType::f8e8m0, 8, DType::f32, false},
    ElementInfo{ElementType::u2, 2, DType::u8, false},
    ElementInfo{ElementType::i2, 2, DType::i8, true},
};

const ElementInfo* find_element(std::int64_t number) {
  const auto found = std::ranges::find(
      kElements, number, [](const ElementInfo& e) { return static_cast<std::int64_t>(e.type); });
  return found == kElements.end() ? nullptr : &*found;
}
const ElementInfo& info_of(ElementType type) {
  const ElementInfo* found = find_element(static_cast<std::int64_t>(type));
  INGOT_ASSERT(found != nullptr);
  return *found;
}

/// A float of few bits: how fine its mantissa is, how small its exponents get, the largest value.
struct FloatFormat {
  int mantissa, least_exponent, bias;
  double largest;
  bool has_nan;

  /// To nearest, ties to even. Neither has infinities nor a zero below zero.
  double rounded(double x, bool saturate) const {
    if (std::isnan(x)) return has_nan ? NAN : 0;
    int exponent = 0;
    std::frexp(x, &exponent);
    const int step = std::max(exponent - 1, least_exponent) - mantissa;
    const double result = std::isinf(x) ? x : std::ldexp(std::nearbyint(std::ldexp(x, -step)), step);
    if (std::abs(result) > largest) return saturate ? std::copysign(largest, x) : NAN;
    return result == 0 ? 0 : result;
  }
  /// Of the bits without the sign.
  double decoded(unsigned code) const {
    const unsigned fraction = code & ((1U << mantissa) - 1);
    const auto exponent = static_cast<int>(code >> mantissa);
    return std::ldexp(static_cast<double>(fraction + (exponent == 0 ? 0U : 1U << mantissa)),
                      std::max(exponent, 1) - bias - mantissa);
  }
};

const FloatFormat* find_format(ElementType type) {
  static constexpr FloatFormat kE4M3{3, -7, 8, 240, true}, kE5M2{2, -15, 16, 57344, true},
      kE2M1{1, 0, 1, 6, false};
  switch (type) {
    case ElementType::f8e4m3fnuz:
      return &kE4M3;
    case ElementType::f8e5m2fnuz:
      return &kE5M2;
    case ElementType::f4e2m1:
      return &kE2M1;
    default:
      return nullptr;
  }
}

double decoded_float(ElementType type, unsigned code) {
  if (type == ElementType::f8e8m0) return code == 0xFF ? NAN : std::ldexp(1, static_cast<int>(code) - 127);
  const FloatFormat& format = *find_format(type);
  const unsigned sign = type == ElementType::f4e2m1 ? 8U : 0x80U;
  if (format.has_nan && code == sign) return NAN;
  const double magnitude = format.decoded(code & (sign - 1));
  return (code & sign) != 0 ? -magnitude : magnitude;
}

/// The next power of two from x up, which is what scales of blocks are rounded to.
double power_of_two(double x, bool saturate) {
  constexpr double kLeast = 0x1p-127, kLargest = 0x1p127;
  if (std::isnan(x)) return NAN;
  if (x < kLeast || x > kLargest) return saturate ? std::clamp(x, kLeast, kLargest) : NAN;
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(1, fraction == 0.5 ? exponent - 1 : exponent);
}

/// Bits [at, at + bits) of packed elements; the first ones are the lowest.
std::uint64_t bits_at(std::span<const std::byte> bytes, std::size_t i, int bits) {
  if (bits < 8) {
    const std::size_t each = 8 / static_cast<std::size_t>(bits);
    const auto byte = static_cast<unsigned>(bytes[i / each]);
    return (byte >> (static_cast<unsigned>(i % each) * static_cast<unsigned>(bits))) & ((1U << bits) - 1);
  }
  std::uint64_t value = 0;
  const auto size = static_cast<std::size_t>(bits) / 8;
  std::memcpy(&value, bytes.data() + i * size, size);
  return value;
}

std::int64_t signed_value(std::uint64_t code, const ElementInfo& info) {
  if (!info.is_signed) return static_cast<std::int64_t>(code);
  const std::uint64_t sign = std::uint64_t{1} << (info.bits - 1);
  return static_cast<std::int64_t>((code ^ sign) - sign);
}

Tensor unpacked(std::span<const std::byte> bytes, const Shape& shape, const ElementInfo& info) {
  const auto count = static_cast<std::size_t>(shape.numel());
  if (info.carrier == DType::f32) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = decoded_float(info.type, static_cast<unsigned>(bits_at(bytes, i, info.bits)));
    return from_doubles(values, shape, info.carrier);
  }
  std::vector<std::int64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = signed_value(bits_at(bytes, i, info.bits), info);
  return from_integers(values, shape, info.carrier);
}

Tensor numbers_of_texts(const ::onnx::TensorProto& tensor, const Shape& shape, const std::string& path,
                        Texts& texts) {
  INGOT_CHECK(
      tensor.string_data_size() == shape.numel(),
      FormatError(path, -1, tensor.name(),
                  fmt::format("has {} strings, but shape {}", tensor.string_data_size(), to_string(shape))));
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(shape.numel()));
  for (const std::string& text : tensor.string_data()) numbers.push_back(texts.number_of(text));
  return Tensor::from(numbers, shape);
}

bool is_float(const StoredType& type) { return is_floating_point(type.dtype); }

int width_of(const StoredType& type) {
  return type.element == ElementType::plain ? static_cast<int>(byte_size(type.dtype)) * 8
                                            : info_of(type.element).bits;
}

/// Values of u64 that its carrier holds as negative numbers.
Tensor as_floats(const Value& x) {
  if (x.type != ElementType::u64) return x.tensor;
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(x.tensor.numel()));
  for (const std::int64_t v : as_integers(x.tensor))
    values.push_back(static_cast<double>(static_cast<std::uint64_t>(v)));
  return from_doubles(values, x.tensor.shape(), DType::f64);
}

Tensor to_float_element(const Tensor& x, ElementType type, bool saturate) {
  const FloatFormat* format = find_format(type);
  std::vector<double> values = as_doubles(x);
  for (double& v : values)
    v = format == nullptr ? power_of_two(v, saturate)
                          : format->rounded(v, saturate || type == ElementType::f4e2m1);
  return from_doubles(values, x.shape(), DType::f32);
}

/// From floats to whole numbers: towards zero. What the carrier cannot hold either is undefined in ONNX.
Tensor to_integers(const Tensor& x, ElementType type) {
  std::vector<std::int64_t> integers;
  integers.reserve(static_cast<std::size_t>(x.numel()));
  for (const double v : as_doubles(x)) {
    const bool above = type == ElementType::u64 && v >= 0x1p63 && v < 0x1p64;
    const bool fits = v >= -0x1p63 && v < 0x1p63;
    integers.push_back(above  ? static_cast<std::int64_t>(static_cast<std::uint64_t>(v))
                       : fits ? static_cast<std::int64_t>(v)
                              : 0);
  }
  return Tensor::from(integers, x.shape());
}

/// Floats of 8 bits that Ingot has dtypes for, which saturate by themselves.
Tensor overflowing(const Tensor& x, DType dtype) {
  const bool infinite = dtype == DType::f8e5m2;
  const double largest = infinite ? 57344 : 448, beyond = largest + (infinite ? 4096 : 16);
  std::vector<double> values = as_doubles(x);
  for (double& v : values) {  // a tie between the largest and what would follow it rounds to the even one
    if (infinite ? std::abs(v) >= beyond : std::abs(v) > beyond)
      v = infinite ? std::copysign(INFINITY, v) : NAN;
  }
  std::vector<std::uint8_t> codes;
  codes.reserve(values.size());
  for (const double v : values) {
    codes.push_back(infinite && std::isinf(v) ? static_cast<std::uint8_t>(v < 0 ? 0xFC : 0x7C)
                    : infinite                ? f8e5m2(static_cast<float>(v)).bits
                                              : f8e4m3(static_cast<float>(v)).bits);
  }
  return Tensor::from_bytes(std::as_bytes(std::span(codes)), x.shape(), dtype);
}

/// The bits of elements, each in the low end of a number.
std::vector<std::uint64_t> bits_of(const Value& x) {
  const Tensor from = contiguous(to(x.tensor, kCpu));
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(from.numel()));
  if (x.type != ElementType::plain) {
    const int width = info_of(x.type).bits;
    const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
    const std::vector<std::int64_t> values = as_integers(from);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint64_t>(values[i]) & mask;
    return bits;
  }
  const std::size_t size = byte_size(from.dtype());
  const auto* data = static_cast<const std::byte*>(from.view().data);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bits[i], data + i * size, size);
  return bits;
}

}  // namespace

std::int64_t Texts::number_of(std::string_view text) {
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  const auto number = static_cast<std::int64_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(text, number);
  return number;
}

const std::string& Texts::text_of(std::int64_t number) const {
  INGOT_CHECK(number >= 0 && number < static_cast<std::int64_t>(texts_.size()),
              FormatError("graph", -1, "string", fmt::format("there is no string {}", number)));
  return texts_[static_cast<std::size_t>(number)];
}

std::optional<StoredType> stored_type(std::int64_t number) {
  if (number < 0 || number > INT32_MAX) return {};
  if (const auto dtype = onnx_dtype(static_cast<int>(number))) return StoredType{ElementType::plain, *dtype};
  const ElementInfo* found = find_element(number);
  return found == nullptr ? std::nullopt : std::optional(StoredType{found->type, found->carrier});
}

std::string name_of(const StoredType& type) {
  return type.element == ElementType::plain ? std::string(name(type.dtype))
                                            : onnx_type_name(static_cast<int>(type.element));
}

DType carrier(ElementType type) { return info_of(type).carrier; }

Value load_value(const OnnxFile& file, const ::onnx::TensorProto& tensor, Texts& texts) {
  const std::optional<StoredType> type = stored_type(tensor.data_type());
  if (!type || type->element == ElementType::plain) return file.load(tensor);
  const TensorInfo info = file.describe(tensor);
  INGOT_CHECK(info.shape.size() <= kMaxRank,
              NotImplemented(fmt::format("{}: loading '{}': shape {} has more than {} axes", file.path(),
                                         info.name, to_string(info.shape), kMaxRank)));
  const Shape shape{std::span<const std::int64_t>(info.shape)};
  if (type->element == ElementType::text) {
    return {numbers_of_texts(tensor, shape, file.path(), texts), ElementType::text};
  }
  return {unpacked(file.bytes(tensor).bytes, shape, info_of(type->element)), type->element};
}

Tensor wrapped_to(const Tensor& x, ElementType type) {
  const ElementInfo& info = info_of(type);
  if (info.bits == 0 || info.bits == 64 || info.carrier == DType::f32) return x;
  const std::uint64_t mask = (std::uint64_t{1} << info.bits) - 1;
  std::vector<std::int64_t> values = as_integers(x);
  for (std::int64_t& v : values) v = signed_value(static_cast<std::uint64_t>(v) & mask, info);
  return from_integers(values, x.shape(), info.carrier);
}

Value converted_to(const Value& x, const StoredType& type, bool saturate) {
  if (x.type == ElementType::text || type.element == ElementType::text) {
    INGOT_ASSERT(x.type == type.element);  // else see cast_text
    return x;
  }
  if (x.type == type.element && x.tensor.dtype() == type.dtype) return x;
  const bool from_floats = is_float(type_of(x));
  if (type.element == ElementType::plain) {
    const bool small = type.dtype == DType::f8e4m3 || type.dtype == DType::f8e5m2;
    if (small && !saturate) return overflowing(as_floats(x), type.dtype);
    const Tensor from = is_float(type) ? as_floats(x) : x.tensor;
    return to(type.dtype == DType::f64 ? to(from, kCpu) : from, type.dtype);
  }
  if (is_float(type)) return {to_float_element(as_floats(x), type.element, saturate), type.element};
  const Tensor whole = from_floats ? to_integers(x.tensor, type.element) : to(x.tensor, DType::i64);
  return {to(wrapped_to(whole, type.element), type.dtype), type.element};
}

Value bits_as(const Value& x, const StoredType& type) {
  INGOT_CHECK(width_of(type_of(x)) == width_of(type) && width_of(type) > 0,
              Error(fmt::format("bits of {} as {}: the widths differ", name_of(type_of(x)), name_of(type))));
  INGOT_CHECK((x.type == ElementType::plain || !is_float(type_of(x))) && width_of(type) % 8 == 0,
              NotImplemented("bits of " + name_of(type_of(x))));
  const std::vector<std::uint64_t> bits = bits_of(x);
  const auto size = static_cast<std::size_t>(width_of(type)) / 8;
  std::vector<std::byte> bytes(bits.size() * size);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(bytes.data() + i * size, &bits[i], size);
  if (type.dtype == DType::boolean) {
    for (std::byte& b : bytes) b = b == std::byte{0} ? b : std::byte{1};
  }
  if (type.element == ElementType::plain) return Tensor::from_bytes(bytes, x.tensor.shape(), type.dtype);
  return {unpacked(bytes, x.tensor.shape(), info_of(type.element)), type.element};
}

}  // namespace ingot::onnx
