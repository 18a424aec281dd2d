#include "ingot/train/reporters/tracking_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "ingot/base/env.h"
#include "ingot/base/json.h"

namespace ingot {

using Json = nlohmann::ordered_json;

Json setting_json(const std::string& text) {
  Json json = parse_json_or_discard<Json>(text);
  return json.is_number() || json.is_boolean() ? json : Json(text);
}

Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

std::string set_or_variable(const std::string& set, std::initializer_list<const char*> variables) {
  return set.empty() ? first_variable(variables) : set;
}

}  // namespace ingot
