#include "ingot/base/json_number.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

namespace ingot {

template <class Json>
std::optional<std::int64_t> whole_number(const Json& json) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond, an f64 may stand for another number
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (json.is_number_unsigned() && json.template get<std::uint64_t>() > kMost) return std::nullopt;
  if (json.is_number_integer()) return json.template get<std::int64_t>();
  if (!json.is_number_float()) return std::nullopt;
  const auto value = json.template get<double>();
  if (!(std::abs(value) <= kExact) || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

template std::optional<std::int64_t> whole_number(const nlohmann::json&);
template std::optional<std::int64_t> whole_number(const nlohmann::ordered_json&);

}  // namespace ingot
