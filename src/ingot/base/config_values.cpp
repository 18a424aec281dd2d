#include "ingot/base/config_values.h"

#include <cmath>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/config_tree.h"

namespace ingot::config_detail {

template <class T>
std::string value_text(const T& value) {
  if constexpr (kIsVector<T>) {
    std::vector<std::string> items;
    items.reserve(value.size());
    for (const auto& item : value) items.push_back(value_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.empty() ? "\"\"" : quote_if_needed(value);
  } else {
    return fmt::format("{}", value);
  }
}

template std::string value_text(const bool&);
template std::string value_text(const int&);
template std::string value_text(const std::int64_t&);
template std::string value_text(const std::uint64_t&);
template std::string value_text(const float&);
template std::string value_text(const double&);
template std::string value_text(const std::string&);
template std::string value_text(const std::vector<std::int64_t>&);
template std::string value_text(const std::vector<double>&);
template std::string value_text(const std::vector<std::string>&);

std::string bounds_text(const Bounds& b) {
  const bool low = std::isfinite(b.min), high = std::isfinite(b.max);
  const std::string from = fmt::format("{} {}", b.above_min ? "above" : "at least", b.min);
  const std::string to = fmt::format("{} {}", b.below_max ? "below" : "at most", b.max);
  if (low && high) return from + " and " + to;
  return low ? from : to;
}

}  // namespace ingot::config_detail
