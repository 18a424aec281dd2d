#include "ingot/text/json_view.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/utf8.h"

namespace ingot::text {

namespace {

using nlohmann::ordered_json;

const ordered_json& json(const void* value) { return *static_cast<const ordered_json*>(value); }

}  // namespace

JsonDocument::JsonDocument(std::string_view text, std::string file, std::string field)
    : file_(std::move(file)), field_(std::move(field)) {
  value_ = std::make_shared<const ordered_json>(
      parse_json<ordered_json>(text, file_, field_.empty() ? "document" : field_));
}

void JsonView::fail(std::string_view problem) const {
  throw FormatError(*file_, -1, field_.empty() ? "document" : field_, problem);
}

void JsonView::wrong_type(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected, json(value_).type_name()));
}

bool JsonView::is_null() const { return json(value_).is_null(); }
bool JsonView::is_string() const { return json(value_).is_string(); }
bool JsonView::is_object() const { return json(value_).is_object(); }

bool JsonView::has(std::string_view key) const {
  if (!json(value_).is_object()) wrong_type("an object");
  const auto it = json(value_).find(key);
  return it != json(value_).end() && !it->is_null();
}

JsonView JsonView::at(std::string_view key) const {
  if (!json(value_).is_object()) wrong_type("an object");
  const auto it = json(value_).find(key);
  std::string field = field_.empty() ? std::string(key) : fmt::format("{}.{}", field_, key);
  if (it == json(value_).end()) throw FormatError(*file_, -1, field, "is missing");
  return JsonView(&*it, *file_, std::move(field));
}

std::vector<JsonView> JsonView::items() const {
  if (!json(value_).is_array()) wrong_type("an array");
  std::vector<JsonView> items;
  for (std::size_t i = 0; i < json(value_).size(); ++i)
    items.push_back(JsonView(&json(value_)[i], *file_, fmt::format("{}[{}]", field_, i)));
  return items;
}

std::vector<std::string> JsonView::keys() const {
  if (!json(value_).is_object()) wrong_type("an object");
  std::vector<std::string> keys;
  for (auto it = json(value_).begin(); it != json(value_).end(); ++it) keys.push_back(it.key());
  return keys;
}

std::string JsonView::string() const {
  if (!json(value_).is_string()) wrong_type("a string");
  return json(value_).get<std::string>();
}

bool JsonView::boolean() const {
  if (!json(value_).is_boolean()) wrong_type("true or false");
  return json(value_).get<bool>();
}

std::int64_t JsonView::integer() const {
  if (!json(value_).is_number_integer()) wrong_type("an integer");
  if (json(value_).is_number_unsigned() && json(value_).get<std::uint64_t>() > INT64_MAX)
    fail("the number is too large");
  return json(value_).get<std::int64_t>();
}

double JsonView::number() const {
  if (!json(value_).is_number()) wrong_type("a number");
  return json(value_).get<double>();
}

std::string JsonView::string(std::string_view key, std::string fallback) const {
  return has(key) ? at(key).string() : std::move(fallback);
}

bool JsonView::boolean(std::string_view key, bool fallback) const {
  return has(key) ? at(key).boolean() : fallback;
}

char32_t JsonView::character() const {
  const std::string text = string();
  std::size_t i = 0;
  const char32_t c = text.empty() ? 0 : decode_utf8(text, i);
  if (text.empty() || i != text.size()) fail(fmt::format("expected one character, found \"{}\"", text));
  return c;
}

std::string JsonView::dump() const { return dump_json(json(value_)); }

}  // namespace ingot::text
