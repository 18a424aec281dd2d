#include "ingot/serve/structured_output.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/api_error.h"

namespace ingot::serve {
namespace {

using infer::Constraint;
using nlohmann::json;
using Kind = Constraint::Kind;

// A schema as an object, or as text of JSON.
Constraint of_schema(const json& schema, const char* field) {
  if (schema.is_string()) return {.kind = Kind::json_schema, .source = schema.get<std::string>()};
  if (!schema.is_object() && !schema.is_boolean()) throw bad_field(field, "must be a JSON Schema");
  return {.kind = Kind::json_schema, .source = dump_json(schema)};
}

Constraint of_string(Kind kind, const json& source, const char* field) {
  if (!source.is_string() || source.get_ref<const std::string&>().empty())
    throw bad_field(field, "must be a string that is not empty");
  return {.kind = kind, .source = source.get<std::string>()};
}

Constraint of_grammar(const json& source, const char* field) {
  return infer::grammar_constraint(of_string(Kind::gbnf, source, field).source);
}

Constraint of_choice(const json& choice, const char* field) {
  Constraint constraint{.kind = Kind::choice};
  for (const json& each : choice.is_array() ? choice : json::array()) {
    if (!each.is_string()) throw bad_field(field, "must be a list of strings");
    constraint.choices.push_back(each.get<std::string>());
  }
  if (constraint.choices.empty()) throw bad_field(field, "must be a list of at least one string");
  return constraint;
}

Constraint of_response_format(const json& format) {
  const std::string type = Fields(format, "response_format.").string("type").value_or("text");
  if (type == "text") return {};
  if (type == "json_object") {  // llama-server takes a schema here, too
    return format.contains("schema") ? of_schema(format["schema"], "response_format.schema")
                                     : Constraint{.kind = Kind::json_object};
  }
  if (type != "json_schema")
    throw bad_field(
        "response_format",
        fmt::format("of type '{}' is not known: 'text', 'json_object' and 'json_schema' are", type));
  const json* named = Fields(format, "response_format.").object("json_schema");
  if (named == nullptr || !named->contains("schema"))
    throw bad_field("response_format", "of type 'json_schema' needs json_schema.schema");
  return of_schema((*named)["schema"], "response_format.json_schema.schema");
}

}  // namespace

Constraint read_constraint(const Fields& body) {
  std::vector<std::pair<const char*, Constraint>> asked;
  const auto take = [&](const Fields& from, const char* field, auto read) {
    const json* value = from.any(field);
    if (value == nullptr) return;
    Constraint constraint = read(*value, field);
    if (constraint.kind != Kind::none) asked.emplace_back(field, std::move(constraint));
  };
  const auto regex = [](const json& value, const char* field) {
    return of_string(Kind::regex, value, field);
  };
  take(body, "json_schema", of_schema);
  take(body, "guided_json", of_schema);
  take(body, "guided_regex", regex);
  take(body, "guided_choice", of_choice);
  take(body, "guided_grammar", of_grammar);
  take(body, "grammar", [](const json& value, const char* field) {
    if (value.is_string() && value.get_ref<const std::string&>().empty()) return Constraint{};
    return of_grammar(value, field);
  });
  if (const json* format = body.object("response_format")) {
    Constraint constraint = of_response_format(*format);
    if (constraint.kind != Kind::none) asked.emplace_back("response_format", std::move(constraint));
  }
  if (const json* outputs = body.object("structured_outputs")) {
    const Fields fields(*outputs, "structured_outputs.");
    take(fields, "json", of_schema);
    take(fields, "regex", regex);
    take(fields, "choice", of_choice);
    take(fields, "grammar", of_grammar);
    if (fields.has("structural_tag"))
      throw bad_field("structured_outputs.structural_tag", "is not supported by this server");
    if (fields.boolean("json_object").value_or(false))
      asked.emplace_back("structured_outputs", Constraint{.kind = Kind::json_object});
  }
  if (asked.size() > 1)
    throw bad_field(asked[1].first,
                    fmt::format("cannot stand beside '{}': ask for one of them", asked[0].first));
  return asked.empty() ? Constraint{} : std::move(asked.front().second);
}

Constraint read_format(const json& format) {
  if (format.is_string() && format.get_ref<const std::string&>().empty()) return {};
  if (format == "json") return {.kind = Kind::json_object};
  if (!format.is_object()) throw bad_field("format", "must be 'json' or a JSON Schema");
  return of_schema(format, "format");
}

}  // namespace ingot::serve
