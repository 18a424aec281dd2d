// Random schemas, texts drawn by their masks, and a validator of its own that says whether these satisfy
// them. With INGOT_SCHEMA_SAMPLES=FILE they are written there too, for tests/grammar/validate_samples.py.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "tests/grammar/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"

namespace ingot::grammar {
namespace {

using nlohmann::json;
using test::small_vocabulary;

std::size_t characters(const std::string& text) {
  std::size_t count = 0;
  for (const char c : text) count += (c & 0xC0) != 0x80;
  return count;
}

// Of the keywords that SchemaMaker uses.
bool valid(const json& schema, const json& value, const json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  const auto sub = [&](const json& inner, const json& of) { return valid(inner, of, root); };
  if (schema.contains("$ref")) return sub(root["$defs"][schema["$ref"].get<std::string>().substr(8)], value);
  if (schema.contains("anyOf")) {
    bool any = false;
    for (const json& each : schema["anyOf"]) any = any || sub(each, value);
    if (!any) return false;
  }
  for (const json& each : schema.value("allOf", json::array()))
    if (!sub(each, value)) return false;
  if (schema.contains("enum")) {
    bool found = false;
    for (const json& each : schema["enum"]) found = found || each == value;
    if (!found) return false;
  }
  if (schema.contains("type")) {
    const std::string type = schema["type"];
    const bool whole = value.is_number() && std::floor(value.get<double>()) == value.get<double>();
    if (!(type == "integer" ? whole : type == value.type_name())) return false;
  }
  if (value.is_number()) {
    const double x = value.get<double>();
    if (schema.contains("multipleOf") && std::abs(x) < 1e15 &&
        std::fmod(x, schema["multipleOf"].get<double>()) != 0)
      return false;
    return !(x < schema.value("minimum", -1e300)) && !(x > schema.value("maximum", 1e300)) &&
           !(schema.contains("exclusiveMaximum") && x >= schema["exclusiveMaximum"].get<double>());
  }
  if (value.is_string()) {
    const std::string text = value;
    if (characters(text) < schema.value("minLength", 0U) ||
        characters(text) > schema.value("maxLength", 1'000'000U))
      return false;
    return !schema.contains("pattern") ||
           std::regex_search(text, std::regex(schema["pattern"].get<std::string>()));
  }
  if (value.is_array()) {
    if (value.size() < schema.value("minItems", 0U) || value.size() > schema.value("maxItems", 1'000'000U))
      return false;
    const json prefix = schema.value("prefixItems", json::array());
    for (std::size_t i = 0; i < value.size(); ++i)
      if (!sub(i < prefix.size() ? prefix[i] : schema.value("items", json(true)), value[i])) return false;
  }
  if (!value.is_object()) return true;
  if (value.size() < schema.value("minProperties", 0U) ||
      value.size() > schema.value("maxProperties", 1'000'000U))
    return false;
  for (const json& name : schema.value("required", json::array()))
    if (!value.contains(name.get<std::string>())) return false;
  const json properties = schema.value("properties", json::object());
  const json patterns = schema.value("patternProperties", json::object());
  for (const auto& [name, inner] : value.items()) {
    bool known = properties.contains(name);
    if (known && !sub(properties[name], inner)) return false;
    for (const auto& [pattern, of] : patterns.items()) {
      if (!std::regex_search(name, std::regex(pattern))) continue;
      known = true;
      if (!sub(of, inner)) return false;
    }
    if (!known && !sub(schema.value("additionalProperties", json(true)), inner)) return false;
  }
  return true;
}

class SchemaMaker {
 public:
  explicit SchemaMaker(std::mt19937_64& random) : random_(random) {}

  json root() {
    json schema = make(3);
    schema["$defs"] = {
        {"small", make(0)},
        {"node",
         {{"type", "object"},
          {"properties",
           {{"v", make(0)}, {"next", {{"anyOf", {{{"type", "null"}}, {{"$ref", "#/$defs/node"}}}}}}}},
          {"required", {"v"}}}}};
    return schema;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool often() { return below(2) == 0; }

  json make(int depth) {
    switch (below(depth > 0 ? 9 : 5)) {
      case 0:
        return number();
      case 1:
        return string();
      case 2:
        return {{"type", often() ? "null" : "boolean"}};
      case 3:
        return {{"enum", {"a", "é\n\"", 1, nullptr, {{"k", {1, 2}}}, -2.5}}};
      case 4:
        return number();
      case 5:
        return array(depth);
      case 6:
        return object(depth);
      case 7: {
        json schema = {
            {often() ? "anyOf" : "allOf", {object(depth), often() ? object(depth) : make(depth - 1)}}};
        return schema.contains("allOf") ? json{{"allOf", {object(depth), object(depth)}}} : schema;
      }
      default:
        return {{"$ref", often() ? "#/$defs/small" : "#/$defs/node"}};
    }
  }
  json number() {
    json schema = {{"type", often() ? "integer" : "number"}};
    const auto bound = static_cast<std::int64_t>(below(2000)) - 1000;
    if (often()) schema["minimum"] = often() ? json(bound) : json(static_cast<double>(bound) / 8);
    if (often())
      schema[often() ? "maximum" : "exclusiveMaximum"] = bound + 1 + static_cast<std::int64_t>(below(50));
    if (!schema.contains("minimum") && schema.size() == 1 && below(3) == 0)
      schema["multipleOf"] = 1 + below(12);
    return schema;
  }
  json string() {
    json schema = {{"type", "string"}};
    const std::uint64_t least = below(4);
    if (often()) schema["minLength"] = least;
    if (often()) schema["maxLength"] = least + 4 + below(30);
    static const char* kPatterns[] = {"^[a-c]*", "b", "^(x|yy)+", "[0-9]{2}$", "^[^a]*$"};
    if (below(3) == 0) schema["pattern"] = kPatterns[below(5)];
    return schema;
  }
  json array(int depth) {
    json schema = {{"type", "array"}, {"items", make(depth - 1)}};
    if (often()) schema["prefixItems"] = {make(0), make(depth - 1)};
    const std::uint64_t least = below(4);
    if (often()) schema["minItems"] = least;
    if (often()) schema["maxItems"] = least + below(3);
    return schema;
  }
  json object(int depth) {
    json schema = {{"type", "object"}};
    for (const char* name : {"name", "b", "c\"é"})
      if (often()) schema["properties"][name] = make(depth - 1);
    if (often()) schema["required"] = {often() ? "name" : "other"};
    if (often()) schema["patternProperties"] = {{"^[x-z]", make(0)}};
    if (often()) schema["additionalProperties"] = often() ? json(true) : make(0);
    if (below(4) == 0) schema["minProperties"] = 1;
    if (below(4) == 0) schema["maxProperties"] = 4;
    return schema;
  }
  std::mt19937_64& random_;
};

TEST(JsonSchemaProperty, WhatTheMasksWriteSatisfiesTheSchema) {
  std::mt19937_64 random(11);
  const char* file = std::getenv("INGOT_SCHEMA_SAMPLES");
  std::ofstream samples(file != nullptr ? file : "/dev/null");
  const int schemas = file != nullptr ? 2000 : 60;
  int texts = 0, compiled = 0;
  for (int i = 0; i < schemas; ++i) {
    const json schema = SchemaMaker(random).root();
    GrammarPtr grammar;
    try {
      grammar = from_json_schema(small_vocabulary(), schema.dump());
    } catch (const InvalidConfig& error) {
      // Two allOf branches may exclude each other, or give multiples open bounds.
      const std::string message = error.what();
      EXPECT_TRUE(message.find("matches no text") != message.npos ||
                  message.find("'multipleOf'") != message.npos)
          << schema << "\n"
          << message;
      continue;
    }
    ++compiled;
    for (int k = 0; k < 3; ++k) {
      const std::string text = test::sample(grammar, small_vocabulary(), random, 150);
      if (text.empty()) continue;  // not finished within so many tokens
      ++texts;
      const json value = json::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << schema << "\n" << text;
      ASSERT_TRUE(valid(schema, value, schema)) << schema << "\n" << text;
      // What it wrote, in another layout, it takes as well.
      const bool sorted = nlohmann::ordered_json::parse(text).dump() == text;
      if (sorted)
        EXPECT_TRUE(test::accepts(grammar, nlohmann::ordered_json::parse(text).dump(2))) << schema << "\n"
                                                                                         << text;
      samples << json{{"schema", schema}, {"text", text}}.dump() << "\n";
    }
  }
  EXPECT_GT(texts, schemas);
  EXPECT_GT(compiled, schemas * 3 / 4);
}

}  // namespace
}  // namespace ingot::grammar
