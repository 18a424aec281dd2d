#include "tests/grammar/support.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"

namespace ingot::grammar {
namespace {

using test::accepts;
using test::small_vocabulary;

GrammarPtr schema(std::string_view text) { return from_json_schema(small_vocabulary(), text); }

struct Case {
  const char* schema;
  std::vector<const char*> accepted, refused;
};

// Texts that satisfy a schema, and texts that do not: one row for each keyword.
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"true",
       {"null", "1", "\"a\"", "[1, 2]", "{\"a\": {}}", "-0.5e3", "[]", "{ }"},
       {"", "tru", "[1,]", "{1:2}", "01"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],
           "additionalProperties":false})",
       {R"({"a": 1})", R"({"a":-12,"b":"x"})", "{\n  \"a\": 0,\n  \"b\": \"\"\n}"},
       {"{}", R"({"b":"x"})", R"({"a":1.5})", R"({"a":1,"c":2})", R"({"a":1,"b":2})", R"({"a":01})"}},
      {R"({"properties":{"a":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":null,"b":1})", R"({"x":1,"y":2})", "3"},
       {R"({"a":1})", R"({"x":"1"})", R"({"x":1,"a":2})"}},
      {R"({"enum":["red",1,null,{"a":[1,2]}]})",
       {"\"red\"", "1", "null", R"({"a": [1,2]})"},
       {"\"re\"", "2", "{}"}},
      {R"({"const":"caf\u00e9/\"x\""})",
       {"\"café/\\\"x\\\"\"", "\"caf\\u00e9\\/\\\"x\\\"\"", "\"caf\\u00E9/\\\"x\\\"\""},
       {"\"cafe\""}},
      {R"({"type":["string","null"],"maxLength":2})",
       {"null", "\"\"", "\"日本\"", "\"\\ud83d\\ude00a\""},
       {"\"abc\"", "1", "\"\\ud83d\""}},
      {R"({"type":"string","minLength":2})", {"\"ab\"", "\"日本語\""}, {"\"a\"", "\"日\""}},
      {R"({"type":"string","pattern":"^[a-c]+[0-9]{2}$"})",
       {"\"abc12\""},
       {"\"abc1\"", "\"d12\"", "\"a123\""}},
      {R"({"type":"string","pattern":"b+"})", {"\"abba\"", "\"b\"", "\"\\\"b\""}, {"\"ac\"", "\"\""}},
      {R"({"type":"string","pattern":"^(?!no)[a-z]+$"})", {"\"yes\"", "\"n\""}, {"\"nothing\"", "\"no\""}},
      {R"({"type":"string","pattern":"^a","maxLength":3})", {"\"abc\""}, {"\"abcd\"", "\"bac\""}},
      {R"({"type":"string","format":"date"})",
       {"\"2024-02-29\""},
       {"\"2023-02-29\"", "\"2023-13-01\"", "\"x\""}},
      {R"({"type":"string","format":"date-time"})",
       {"\"2024-02-29T23:59:59Z\"", "\"1990-12-31T15:59:50.5-08:00\""},
       {"\"2024-02-29\""}},
      {R"({"type":"string","format":"uuid"})",
       {"\"123e4567-e89b-12d3-a456-426614174000\""},
       {"\"123e4567\""}},
      {R"({"type":"string","format":"email"})",
       {"\"joe.b+x@example.com\""},
       {"\"joe\"", "\"@x.org\"", "\"a@b..c\""}},
      {R"({"type":"string","format":"ipv4"})", {"\"192.168.0.255\""}, {"\"256.1.1.1\"", "\"1.1.1\""}},
      {R"({"type":"string","format":"ipv6"})",
       {"\"::1\"", "\"2001:db8::8a2e:370:7334\"", "\"::ffff:1.2.3.4\"", "\"1:2:3:4:5:6:7:8\"", "\"::\""},
       {"\"1:2:3\"", "\"1::2::3\"", "\"12345::\""}},
      {R"({"type":"string","format":"hostname"})",
       {"\"example.com\"", "\"a-b.c\""},
       {"\"-a.com\"", "\"a..b\""}},
      {R"({"type":"string","format":"uri"})",
       {"\"http://a.b/c?d=e#f\"", "\"mailto:x@y.z\"", "\"file:///a/b.js\""},
       {"\"//a.b\"", "\"a b\""}},
      {R"({"allOf":[{"$ref":"#/$defs/a"}],"properties":{"b":{}},"$defs":{"a":{"properties":{"a":{}}}}})",
       {R"({"a":1,"b":2})", R"({"b":1})"},
       {R"({"b":1,"a":2})"}},
      {R"({"anyOf":[{"properties":{"a":{}}},{"properties":{"c":{}}}],"properties":{"b":{}}})",
       {R"({"a":1,"b":2})", R"({"c":1,"b":2})", R"({"b":1,"d":2})"},
       {R"({"a":1,"b":2,"b":3})"}},
      {R"({"properties":{"b":{}},"allOf":[{"properties":{"a":{}}}]})",
       {R"({"b":1,"a":2})"},
       {R"({"a":1,"b":2})"}},
      {R"({"type":"string","format":"time"})", {"\"12:30:00Z\""}, {"\"24:00:00Z\"", "\"12:30\""}},
      {R"({"type":"integer","minimum":-3,"maximum":120})",
       {"-3", "-1", "0", "7", "99", "120"},
       {"-4", "121", "1000", "1.5", "-10"}},
      {R"({"type":"integer","exclusiveMinimum":0})", {"1", "10", "999999"}, {"0", "-1"}},
      {R"({"type":"number","minimum":0.5,"exclusiveMaximum":2})",
       {"0.5", "0.51", "1", "1.999", "0.500"},
       {"0.4999", "2", "2.0", "0", "-1"}},
      {R"({"type":"number","maximum":-1.25})", {"-1.25", "-1.3", "-2", "-100"}, {"-1.2", "-1", "0", "1"}},
      {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "700"}, {"8", "15", "07"}},
      {R"({"type":"integer","multipleOf":5,"minimum":1,"maximum":20})", {"5", "20"}, {"0", "25", "6"}},
      {R"({"type":"integer","multipleOf":100})", {"0", "-200", "12300"}, {"50", "1"}},
      {R"({"type":"number","multipleOf":0.01})", {"1.25", "3", "-0.5"}, {"1.255"}},
      {R"({"type":"number","multipleOf":0.25})", {"1.25", "3", "0.750"}, {"1.3"}},
      {R"({"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3})",
       {"[true]", "[true, false,true]"},
       {"[]", "[1]", "[true,true,true,true]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[\"a\"]", "[1,\"a\",2]"}},
      {R"({"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"null"},"minItems":2})",
       {"[1,null]", "[1,null,null]"},
       {"[1]", "[1,2]"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
       {"12", "\"a\""},
       {"\"ab\"", "null"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"null"}]})", {"1", "null"}, {"\"a\""}},
      {R"({"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"],"type":"object"},
                     {"properties":{"k":{"const":"b"}},"required":["k"],"type":"object"}]})",
       {R"({"k":"a","x":1})", R"({"k":"b"})"},
       {R"({"k":"c"})", R"({"k":"a"})"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
                     {"properties":{"a":{"minimum":5},"b":{"type":"null"}},"required":["b"]}]})",
       {R"({"a":5,"b":null})"},
       {R"({"a":4,"b":null})", R"({"a":5})"}},
      {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},
           "required":["next"],"additionalProperties":false}}})",
       {R"({"next":null})", R"({"next":{"next":{"next":null}}})"},
       {R"({"next":1})", "{}"}},
      {R"({"type":"object","patternProperties":{"^x_":{"type":"integer"}},"additionalProperties":false})",
       {R"({"x_a":1})", "{}"},
       {R"({"y":1})", R"({"x_a":"1"})"}},
      {R"({"type":"object","propertyNames":{"pattern":"^[a-z]$"}})", {R"({"a":1})", "{}"}, {R"({"ab":1})"}},
      {R"({"type":"object","minProperties":1,"additionalProperties":{"type":"null"}})",
       {R"({"a":null})"},
       {"{}"}},
      {R"({"type":"object","properties":{"a":true,"b":true,"c":true},"additionalProperties":false,"minProperties":2,"maxProperties":2})",
       {R"({"a":1,"c":2})", R"({"b":1,"c":2})"},
       {"{}", R"({"a":1})", R"({"a":1,"b":1,"c":1})"}},
      {R"({"type":"object","properties":{"a":false,"b":{"type":"null"}},"additionalProperties":false})",
       {"{}", R"({"b":null})"},
       {R"({"a":1})"}},
      {R"({"type":"string","enum":["a","bb","ccc"],"minLength":2})", {"\"bb\"", "\"ccc\""}, {"\"a\""}},
      {R"({"required":["q"],"type":"object"})", {R"({"q":1})", R"({"q":1,"z":2})"}, {"{}", R"({"z":2})"}},
      {R"({"definitions":{"p":{"type":"integer","minimum":0}},"type":"array","items":{"$ref":"#/definitions/p"}})",
       {"[0,5]"},
       {"[-1]"}},
  };
  return kCases;
}

TEST(JsonSchema, AcceptsWhatSatisfiesItAndRefusesWhatDoesNot) {
  for (const Case& each : cases()) {
    const GrammarPtr grammar = schema(each.schema);
    for (const char* text : each.accepted) EXPECT_TRUE(accepts(grammar, text)) << each.schema << "\n" << text;
    for (const char* text : each.refused) EXPECT_FALSE(accepts(grammar, text)) << each.schema << "\n" << text;
  }
}

TEST(JsonSchema, SampledTextsAreJson) {
  std::mt19937_64 random(1);
  for (const Case& each : cases()) {
    const GrammarPtr grammar = schema(each.schema);
    for (int i = 0; i < 5; ++i) {
      const std::string text = test::sample(grammar, small_vocabulary(), random);
      if (text.empty()) continue;
      EXPECT_TRUE(nlohmann::json::accept(text)) << each.schema << "\n" << text;
    }
  }
}

TEST(JsonSchema, RefusesByNameAndPointerWhatItCannotEnforce) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      schema(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  const auto expect = [&](std::string_view text, std::vector<std::string> parts) {
    for (const std::string& part : parts)
      EXPECT_NE(message(text).find(part), std::string::npos) << message(text);
  };
  expect(R"({"type":"array","uniqueItems":true})", {"uniqueItems", "#/uniqueItems"});
  expect(R"({"properties":{"a/b":{"not":{"type":"null"}}}})", {"'not'", "#/properties/a~1b/not"});
  expect(R"({"properties":{"a":{"minLength":"x"}}})", {"#/properties/a/minLength", "whole number", "\"x\""});
  expect(R"({"type":"strin"})", {"#/type", "null, boolean", "strin"});
  expect(R"({"$ref":"#/$defs/none"})", {"$ref", "#/$defs/none"});
  expect(R"({"$ref":"http://x.y/z.json"})", {"$ref", "http://x.y/z.json"});
  expect(R"({"type":"string","pattern":"(a"})", {"#/pattern", "( without its )"});
  expect(R"({"type":"string","pattern":"(a)\\1"})", {"#/pattern", "\\1"});
  expect(R"({"type":"string","format":"color"})", {"#/format", "color"});
  expect(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", {"#/oneOf", "anyOf"});
  expect(R"({"type":"object","required":["a"],"properties":{"a":false}})", {"matches no text"});
  expect("{", {"json_schema", "byte"});
  expect("3", {"#", "schema"});
}

}  // namespace
}  // namespace ingot::grammar
