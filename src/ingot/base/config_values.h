#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ingot/base/config.h"

/// What configurations say of values, to those who read them: in messages, in dumps and in the reference.
namespace ingot::config_detail {

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <class T>
constexpr std::string_view expected_kind() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_unsigned_v<T>) return "a whole number of at least 0";
  if constexpr (std::is_integral_v<T>) return "a whole number";
  if constexpr (std::is_floating_point_v<T>) return "a number";
  return "text";
}

/// As YAML.
template <class T>
std::string value_text(const T& value);

/// "at least 1 and below 5".
std::string bounds_text(const Bounds& b);

template <class T>
bool within(T value, const Bounds& b) {
  const auto v = static_cast<double>(value);
  return (b.above_min ? v > b.min : v >= b.min) && (b.below_max ? v < b.max : v <= b.max);
}

}  // namespace ingot::config_detail
