#include "ingot/serve/fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/api_error.h"

namespace ingot::serve {
namespace {

using nlohmann::json;

std::optional<std::int64_t> whole(const json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
    return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(number) != number || std::abs(number) > kExact) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

Fields::Fields(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

const json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::wrong(const char* name, const char* wanted) const {
  throw bad_field(path_ + name, fmt::format("must be {}, got {}", wanted, excerpt(*find(name), 60)));
}

bool Fields::has(const char* name) const { return find(name) != nullptr; }

std::optional<bool> Fields::boolean(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) wrong(name, "true or false");
  return value->get<bool>();
}

std::optional<std::int64_t> Fields::integer(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = whole(*value);
  if (!number) wrong(name, "a whole number");
  return number;
}

std::optional<double> Fields::number(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) wrong(name, "a number");
  return value->get<double>();
}

std::optional<std::string> Fields::string(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong(name, "a string");
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> Fields::strings(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::vector{value->get<std::string>()};
  if (!value->is_array()) wrong(name, "a string or a list of strings");
  std::vector<std::string> result;
  for (const json& each : *value) {
    if (!each.is_string()) wrong(name, "a string or a list of strings");
    result.push_back(each.get<std::string>());
  }
  return result;
}

std::optional<std::vector<std::int32_t>> Fields::ids(const char* name) const {
  const json* value = array(name);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int32_t> result;
  for (const json& each : *value) {
    const auto id = whole(each);
    if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) wrong(name, "a list of token ids");
    result.push_back(static_cast<std::int32_t>(*id));
  }
  return result;
}

const json* Fields::object(const char* name) const {
  const json* value = find(name);
  if (value != nullptr && !value->is_object()) wrong(name, "an object");
  return value;
}

const json* Fields::array(const char* name) const {
  const json* value = find(name);
  if (value != nullptr && !value->is_array()) wrong(name, "a list");
  return value;
}

const json* Fields::any(const char* name) const { return find(name); }

void Fields::read(const char* name, bool& value) const { value = boolean(name).value_or(value); }
void Fields::read(const char* name, std::int64_t& value) const { value = integer(name).value_or(value); }
void Fields::read(const char* name, double& value) const { value = number(name).value_or(value); }

json parse_body(const std::string& body) {
  json value;
  try {
    value = parse_json<json>(body, "the request", "body");
  } catch (const FormatError& error) {
    throw ApiError(400, error.what());
  }
  if (!value.is_object()) throw ApiError(400, "the body must be a JSON object, got " + excerpt(value, 60));
  return value;
}

}  // namespace ingot::serve
