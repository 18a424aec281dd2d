#include "ingot/onnx/text_cast.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/printable.h"
#include "ingot/onnx/host.h"

namespace ingot::onnx {
namespace {

bool is_unsigned(const StoredType& type) {
  return type.element == ElementType::u16 || type.element == ElementType::u32 ||
         type.element == ElementType::u64 || type.dtype == DType::u8 || type.dtype == DType::boolean;
}

/// As few digits as give the same number of its type.
std::string float_text(double v, bool is_double) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
  return is_double ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
}

/// A number in a string.
struct NumberText {
  std::string_view digits;  ///< without white space and sign
  bool negative = false;
};

NumberText read_text(std::string_view text) {
  constexpr std::string_view kWhite = " \t\n\r\f\v";
  const std::size_t begin = std::min(text.find_first_not_of(kWhite), text.size());
  NumberText number{text.substr(begin, text.find_last_not_of(kWhite) + 1 - begin)};
  const bool has_sign = number.digits.starts_with('-') || number.digits.starts_with('+');
  number.negative = number.digits.starts_with('-');
  if (has_sign) number.digits.remove_prefix(1);
  if (number.digits.starts_with('-')) number.digits = {};  // which from_chars would read
  return number;
}

[[noreturn]] void refuse_text(std::string_view text, const char* expected) {
  constexpr std::size_t kShown = 64;
  throw Error(
      fmt::format("the string '{}' is not {}", printable(std::string(text.substr(0, kShown))), expected));
}

double float_of(std::string_view text) {
  auto [digits, negative] = read_text(text);
  const bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
  if (hexadecimal) digits.remove_prefix(2);
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value,
                                    hexadecimal ? std::chars_format::hex : std::chars_format::general);
  if (read.ec != std::errc{} || read.ptr != end) refuse_text(text, "a number that f64 holds");
  return negative ? -value : value;
}

std::int64_t integer_of(std::string_view text, bool of_unsigned) {
  const auto [digits, negative] = read_text(text);
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  const std::uint64_t most = of_unsigned ? UINT64_MAX : std::uint64_t{INT64_MAX} + (negative ? 1 : 0);
  if (read.ec != std::errc{} || read.ptr != end || value > most)
    refuse_text(text, "a whole number of 64 bits");
  return static_cast<std::int64_t>(negative ? 0 - value : value);
}

Value as_texts(const Value& x, Texts& texts) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(x.tensor.numel()));
  if (is_floating_point(x.tensor.dtype())) {
    const bool is_double = x.tensor.dtype() == DType::f64;
    for (const double v : as_doubles(x.tensor)) numbers.push_back(texts.number_of(float_text(v, is_double)));
  } else {
    for (const std::int64_t v : as_integers(x.tensor))
      numbers.push_back(texts.number_of(
          x.type == ElementType::u64 ? std::to_string(static_cast<std::uint64_t>(v)) : std::to_string(v)));
  }
  return {Tensor::from(numbers, x.tensor.shape()), ElementType::text};
}

Value as_numbers(const Value& x, const StoredType& type, const Texts& texts) {
  const std::vector<std::int64_t> numbers = as_integers(x.tensor);
  if (is_floating_point(type.dtype)) {
    std::vector<double> values;
    values.reserve(numbers.size());
    for (const std::int64_t number : numbers) values.push_back(float_of(texts.text_of(number)));
    return converted_to(Tensor::from(values, x.tensor.shape()), type, true);
  }
  std::vector<std::int64_t> values;
  values.reserve(numbers.size());
  for (const std::int64_t number : numbers)
    values.push_back(integer_of(texts.text_of(number), is_unsigned(type)));
  return converted_to(Tensor::from(values, x.tensor.shape()), type, true);
}

}  // namespace

Value cast_text(const Value& x, const StoredType& type, Texts& texts) {
  return type.element == ElementType::text ? as_texts(x, texts) : as_numbers(x, type, texts);
}

}  // namespace ingot::onnx
