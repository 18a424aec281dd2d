#include "ingot/grammar/schema_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/grammar/json_text.h"
#include "ingot/grammar/pattern.h"

namespace ingot::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostCheckDepth = 200;

const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// "~1" and "%20" of a pointer within a URI.
std::string unescaped(std::string_view token) {
  std::string text;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size()) {
      text += token[++i] == '1' ? '/' : '~';
    } else if (token[i] == '%' && i + 2 < token.size() &&
               std::isxdigit(static_cast<unsigned char>(token[i + 1])) &&
               std::isxdigit(static_cast<unsigned char>(token[i + 2]))) {
      text += static_cast<char>(std::stoi(std::string(token.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      text += token[i];
    }
  }
  return text;
}

const Json* find_named(const Json& in, const char* key, std::string_view name) {
  if (in.is_object()) {
    if (const Json* own = member(in, key);
        own != nullptr && own->is_string() && own->get_ref<const std::string&>() == name)
      return &in;
  }
  if (!in.is_structured()) return nullptr;
  for (const Json& inner : in)
    if (const Json* found = find_named(inner, key, name)) return found;
  return nullptr;
}

const Json* find_pointer(const Json& root, std::string_view pointer) {
  const Json* at = &root;
  while (!pointer.empty()) {
    if (pointer.front() != '/') return nullptr;
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string token = unescaped(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (at->is_object()) {
      at = member(*at, token.c_str());
    } else if (at->is_array() && !token.empty() && token.size() < 9 &&
               token.find_first_not_of("0123456789") == token.npos) {
      const auto index = static_cast<std::size_t>(std::stoul(token));
      at = index < at->size() ? &(*at)[index] : nullptr;
    } else {
      at = nullptr;
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

}  // namespace

const Json* find_reference(const Json& root, std::string_view reference) {
  const std::size_t hash = std::min(reference.find('#'), reference.size());
  const Json* base = &root;
  if (const std::string_view id = reference.substr(0, hash); !id.empty()) {
    base = find_named(root, "$id", id);
    if (base == nullptr) base = find_named(root, "id", id);
    if (base == nullptr) return nullptr;
  }
  const std::string_view fragment = reference.substr(std::min(hash + 1, reference.size()));
  if (fragment.empty() || fragment.front() == '/') return find_pointer(*base, fragment);
  if (const Json* found = find_named(*base, "$anchor", fragment)) return found;
  return find_named(*base, "$id", "#" + std::string(fragment));
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
  return type == "number" ? value.is_number() : type == value.type_name();
}

bool SchemaCheck::found(std::string_view pattern, std::string_view text) {
  return automata_.matches(compile_pattern(automata_.expressions(), pattern, {.search = true}, "pattern"),
                           text);
}

bool SchemaCheck::accepts(const Json& schema, const Json& value, int depth) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object()) return true;
  INGOT_CHECK(depth < kMostCheckDepth, InvalidConfig("$ref", "goes around in a circle"));
  if (!accepts_value(schema, value) || !accepts_combined(schema, value, depth)) return false;
  if (value.is_number()) return accepts_number(schema, value.get<double>());
  if (value.is_string()) return accepts_string(schema, value.get_ref<const std::string&>());
  if (value.is_array()) return accepts_array(schema, value, depth);
  return !value.is_object() || accepts_object(schema, value, depth);
}

bool SchemaCheck::accepts_value(const Json& schema, const Json& value) const {
  if (const Json* type = member(schema, "type")) {
    const auto fits = [&](const Json& each) {
      return each.is_string() && has_type(value, each.get<std::string>());
    };
    if (type->is_array() ? std::ranges::none_of(*type, fits) : !fits(*type)) return false;
  }
  if (const Json* values = member(schema, "enum"))
    if (std::ranges::find(*values, value) == values->end()) return false;
  const Json* constant = member(schema, "const");
  return constant == nullptr || *constant == value;
}

bool SchemaCheck::accepts_combined(const Json& schema, const Json& value, int depth) {
  const auto fits = [&](const Json& each) { return accepts(each, value, depth + 1); };
  if (const Json* reference = member(schema, "$ref"); reference != nullptr && reference->is_string()) {
    const Json* target = find_reference(root_, reference->get<std::string>());
    if (target == nullptr || !fits(*target)) return false;
  }
  if (const Json* all = member(schema, "allOf"))
    if (!std::ranges::all_of(*all, fits)) return false;
  if (const Json* any = member(schema, "anyOf"))
    if (std::ranges::none_of(*any, fits)) return false;
  if (const Json* one = member(schema, "oneOf"))
    if (std::ranges::count_if(*one, fits) != 1) return false;
  const Json* refused = member(schema, "not");
  return refused == nullptr || !fits(*refused);
}

bool SchemaCheck::accepts_number(const Json& schema, double value) const {
  const auto bound = [&](const char* key) {
    const Json* found = member(schema, key);
    return found != nullptr && found->is_number() ? found->get<double>() : std::nan("");
  };
  const auto strict = [&](const char* key) {  // draft 4
    const Json* found = member(schema, key);
    return found != nullptr && found->is_boolean() && found->get<bool>();
  };
  const double least = bound("minimum"), most = bound("maximum"), step = bound("multipleOf");
  if (value < least || value <= bound("exclusiveMinimum")) return false;
  if (value > most || value >= bound("exclusiveMaximum")) return false;
  if ((value == least && strict("exclusiveMinimum")) || (value == most && strict("exclusiveMaximum")))
    return false;
  return std::isnan(step) || std::abs(value / step - std::round(value / step)) < 1e-9;
}

bool SchemaCheck::accepts_string(const Json& schema, const std::string& value) {
  const auto length = static_cast<std::int64_t>(to_utf32(value).size());
  if (const Json* least = member(schema, "minLength");
      least != nullptr && length < least->get<std::int64_t>())
    return false;
  if (const Json* most = member(schema, "maxLength"); most != nullptr && length > most->get<std::int64_t>())
    return false;
  if (const Json* pattern = member(schema, "pattern"))
    if (!found(pattern->get<std::string>(), value)) return false;
  const Json* format = member(schema, "format");
  if (format == nullptr) return true;
  const auto expr = string_format(automata_.expressions(), format->get<std::string>(), false);
  return !expr || automata_.matches(*expr, value);
}

bool SchemaCheck::accepts_array(const Json& schema, const Json& value, int depth) {
  const auto size = static_cast<std::int64_t>(value.size());
  if (const Json* least = member(schema, "minItems"); least != nullptr && size < least->get<std::int64_t>())
    return false;
  if (const Json* most = member(schema, "maxItems"); most != nullptr && size > most->get<std::int64_t>())
    return false;
  const Json* items = member(schema, "items");
  const Json* first = member(schema, "prefixItems");
  if (first == nullptr && items != nullptr && items->is_array()) {  // before 2020-12
    first = items;
    items = member(schema, "additionalItems");
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const bool listed = first != nullptr && i < first->size();
    if (listed && !accepts((*first)[i], value[i], depth + 1)) return false;
    if (!listed && items != nullptr && !accepts(*items, value[i], depth + 1)) return false;
  }
  const Json* unique = member(schema, "uniqueItems");
  if (unique == nullptr || !unique->is_boolean() || !unique->get<bool>()) return true;
  for (std::size_t i = 0; i < value.size(); ++i)
    if (std::find(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(i), value[i]) !=
        value.begin() + static_cast<std::ptrdiff_t>(i))
      return false;
  return true;
}

bool SchemaCheck::accepts_object(const Json& schema, const Json& value, int depth) {
  const auto size = static_cast<std::int64_t>(value.size());
  if (const Json* least = member(schema, "minProperties");
      least != nullptr && size < least->get<std::int64_t>())
    return false;
  if (const Json* most = member(schema, "maxProperties"); most != nullptr && size > most->get<std::int64_t>())
    return false;
  if (const Json* required = member(schema, "required"); required != nullptr && required->is_array()) {
    for (const Json& name : *required)
      if (!value.contains(name.get<std::string>())) return false;
  }
  for (const auto& [name, inner] : value.items())
    if (!accepts_property(schema, name, inner, depth)) return false;
  return true;
}

bool SchemaCheck::accepts_property(const Json& schema, const std::string& name, const Json& value,
                                   int depth) {
  bool listed = false;
  if (const Json* properties = member(schema, "properties");
      properties != nullptr && properties->contains(name)) {
    listed = true;
    if (!accepts((*properties)[name], value, depth + 1)) return false;
  }
  if (const Json* patterns = member(schema, "patternProperties")) {
    for (const auto& [pattern, inner] : patterns->items()) {
      if (!found(pattern, name)) continue;
      listed = true;
      if (!accepts(inner, value, depth + 1)) return false;
    }
  }
  if (const Json* names = member(schema, "propertyNames");
      names != nullptr && !accepts(*names, name, depth + 1))
    return false;
  const Json* additional = member(schema, "additionalProperties");
  return listed || additional == nullptr || accepts(*additional, value, depth + 1);
}

}  // namespace ingot::grammar
