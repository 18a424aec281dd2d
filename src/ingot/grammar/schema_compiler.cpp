#include "ingot/grammar/schema_compiler.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/grammar/schema_shape.h"

namespace ingot::grammar {
namespace {

constexpr int kMostSchemaDepth = 400;  // of schemas within schemas
constexpr std::size_t kMostParts = 200;
constexpr std::size_t kMostSchemaBytes = 1 << 20;

constexpr std::array kTypeNames{"null", "boolean", "integer", "number", "string", "array", "object"};

// Whether JSON has one usual spelling of a text.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '/'; });
}

}  // namespace

const nlohmann::ordered_json* schema_member(const nlohmann::ordered_json& schema, const char* key) {
  if (!schema.is_object()) return nullptr;
  const auto found = schema.find(key);
  return found == schema.end() ? nullptr : &*found;
}

SchemaCompiler::SchemaCompiler(Rules& rules, const Json& root, const JsonText& text)
    : rules_(rules), root_(root), text_(text), check_(rules.automata(), root) {
  check_shape(root_, root_, good_shapes_);
}

Symbol SchemaCompiler::compile() {
  Parts parts;
  if (!add(parts, root_)) return Symbol::terminal(Expressions::kNothing);
  return compile(std::move(parts));
}

void SchemaCompiler::refuse(const Json& schema, const char* keyword, const std::string& why) const {
  const Json* value = schema_member(schema, keyword);
  throw InvalidConfig("json_schema", fmt::format("'{}' at {} {}", keyword,
                                                 pointer_to(root_, value != nullptr ? *value : schema), why));
}

void SchemaCompiler::refuse_all(const Parts& parts, std::initializer_list<const char*> keywords) const {
  for (const Part& part : parts) {
    for (const char* keyword : keywords) {
      if (schema_member(*part.schema, keyword) != nullptr)
        refuse(*part.schema, keyword, "cannot be enforced while a text is written: leave it out");
    }
  }
}

// True and {} say nothing, and are left out.
bool SchemaCompiler::add(Parts& parts, const Json& schema) const {
  if (schema.is_boolean()) return schema.get<bool>();
  const auto same = [&](const Part& part) { return part.schema == &schema; };
  if (!schema.empty() && std::ranges::none_of(parts, same)) parts.push_back({&schema, 0});
  INGOT_CHECK(parts.size() <= kMostParts,
              InvalidConfig("json_schema", "combines too many schemas by allOf and $ref"));
  return true;
}

// Adds a schema that `keyword` of parts[at] names: before that where the keyword stands before its
// properties, which is then the order of all of them.
bool SchemaCompiler::add_from(Parts& parts, std::size_t at, const char* keyword, const Json& schema) const {
  const Json& from = *parts[at].schema;
  const auto place = [&from](const char* key) { return std::distance(from.begin(), from.find(key)); };
  const std::size_t size = parts.size();
  if (!add(parts, schema)) return false;
  if (parts.size() > size && place(keyword) < place("properties"))
    std::rotate(parts.begin() + static_cast<std::ptrdiff_t>(at), parts.end() - 1, parts.end());
  return true;
}

// Follows references and allOf; false where nothing satisfies them all.
bool SchemaCompiler::expand(Parts& parts) {
  for (std::size_t i = 0; i < parts.size();) {
    if ((parts[i].done & kReferences) != 0) {
      ++i;
      continue;
    }
    parts[i].done |= kReferences;
    const Json& schema = *parts[i].schema;
    std::size_t at = i;  // of the schema, while others come before it
    const auto add_one = [&](const char* keyword, const Json& other) {
      const bool possible = add_from(parts, at, keyword, other);
      while (parts[at].schema != &schema) ++at;
      return possible;
    };
    if (const Json* reference = schema_member(schema, "$ref")) {
      const Json* target = find_reference(root_, reference->get_ref<const std::string&>());
      if (target == nullptr)
        refuse(schema, "$ref",
               fmt::format("names '{}', which this schema does not hold", reference->get<std::string>()));
      check_shape(root_, *target, good_shapes_);
      if (!add_one("$ref", *target)) return false;
    }
    if (const Json* all = schema_member(schema, "allOf")) {
      for (const Json& each : *all)
        if (!add_one("allOf", each)) return false;
    }
    for (const char* keyword : {"$dynamicRef", "$recursiveRef", "not", "then", "else"}) {
      const Json* found = schema_member(schema, keyword);
      const bool idle = (keyword[0] == 't' || keyword[0] == 'e') && schema_member(schema, "if") == nullptr;
      if (found != nullptr && !idle)
        refuse(schema, keyword, "cannot be enforced while a text is written: leave it out");
    }
  }
  std::erase_if(parts, [](const Part& part) { return !asserts(part); });
  return true;
}

// Whether a part says anything that is not dealt with already.
bool SchemaCompiler::asserts(const Part& part) {
  static constexpr std::array kIdle{
      "title",       "description",      "default",        "examples", "example",
      "deprecated",  "readOnly",         "writeOnly",      "$schema",  "$id",
      "id",          "$anchor",          "$comment",       "$defs",    "definitions",
      "$vocabulary", "contentMediaType", "contentEncoding"};
  for (const auto& [key, value] : part.schema->items()) {
    if ((key == "$ref" || key == "allOf") && (part.done & kReferences) != 0) continue;
    if (key == "anyOf" && (part.done & kAnyOf) != 0) continue;
    if (key == "oneOf" && (part.done & kOneOf) != 0) continue;
    if (std::ranges::find(kIdle, std::string_view(key)) == kIdle.end()) return true;
  }
  return false;
}

// A rule for each list of parts, so that schemas may refer to themselves.
Symbol SchemaCompiler::compile(Parts parts) {
  if (!expand(parts)) return Symbol::terminal(Expressions::kNothing);
  if (const auto found = known_.find(parts); found != known_.end()) return found->second;
  INGOT_CHECK(depth_ < kMostSchemaDepth,
              InvalidConfig("json_schema", fmt::format("nests deeper than {} schemas", kMostSchemaDepth)));
  const std::uint32_t rule = rules_.add(parts.empty() ? "value" : pointer_to(root_, *parts.front().schema));
  known_.emplace(parts, Symbol::rule(rule));
  ++depth_;
  build(rule, parts);
  --depth_;
  const Production* only = rules_.only_production(rule);
  if (only != nullptr && only->size() == 1 && only->front().kind == Symbol::Kind::terminal)
    known_[parts] = only->front();
  return known_[parts];
}

void SchemaCompiler::build(std::uint32_t rule, const Parts& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if ((parts[i].done & kAnyOf) == 0 && schema_member(*parts[i].schema, "anyOf") != nullptr)
      return branch(rule, parts, i, "anyOf", kAnyOf);
    if ((parts[i].done & kOneOf) == 0 && schema_member(*parts[i].schema, "oneOf") != nullptr)
      return branch(rule, parts, i, "oneOf", kOneOf);
  }
  build_plain(rule, parts);
}

void SchemaCompiler::branch(std::uint32_t rule, const Parts& parts, std::size_t at, const char* keyword,
                            Done done) {
  const Json& schema = *parts[at].schema;
  std::vector<Parts> branches;
  for (const Json& each : *schema_member(schema, keyword)) {
    Parts with = parts;
    with[at].done |= done;
    if (add_from(with, at, keyword, each)) branches.push_back(std::move(with));
  }
  if (done == kOneOf) {
    for (std::size_t i = 0; i < branches.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (!disjoint(branches[j], branches[i], 0))
          refuse(schema, "oneOf",
                 fmt::format("has branches ({} and {}) that may both match a value, so that "
                             "'exactly one' cannot be enforced: write anyOf",
                             j, i));
      }
    }
  }
  for (Parts& each : branches) rules_.produce(rule, {compile(std::move(each))});
}

// The types that all parts allow.
unsigned SchemaCompiler::types(const Parts& parts) const {
  unsigned all = kNull | kBoolean | kInteger | kNumber | kString | kArray | kObject;
  const auto bit = [](const Json& name) {
    const auto at = std::ranges::find(kTypeNames, name.get_ref<const std::string&>()) - kTypeNames.begin();
    const unsigned type = 1U << static_cast<unsigned>(at);
    return type == kNumber ? kNumber | kInteger : type;
  };
  for (const Part& part : parts) {
    const Json* type = schema_member(*part.schema, "type");
    if (type == nullptr) continue;
    unsigned own = 0;
    for (const Json& each : type->is_array() ? *type : Json::array({*type})) own |= bit(each);
    all &= own;
  }
  return all;
}

// The values that enum and const leave; nothing where neither is there.
std::optional<std::vector<const nlohmann::ordered_json*>> SchemaCompiler::listed_values(const Parts& parts) {
  const Part* lists = nullptr;
  for (const Part& part : parts) {
    const bool has =
        schema_member(*part.schema, "const") != nullptr || schema_member(*part.schema, "enum") != nullptr;
    if (has && lists == nullptr) lists = &part;
  }
  if (lists == nullptr) return std::nullopt;
  std::vector<const Json*> candidates;
  Json others = *lists->schema;  // what else it says of them
  if (const Json* constant = schema_member(*lists->schema, "const")) {
    candidates.push_back(constant);
    others.erase("const");
  } else {
    for (const Json& each : *schema_member(*lists->schema, "enum")) candidates.push_back(&each);
    others.erase("enum");
  }
  std::erase_if(candidates, [&](const Json* value) {
    return std::ranges::any_of(parts, [&](const Part& part) {
      return !check_.accepts(&part == lists ? others : *part.schema, *value);
    });
  });
  return candidates;
}

// Without combinators: each type that is left by itself.
void SchemaCompiler::build_plain(std::uint32_t rule, const Parts& parts) {
  std::vector<ExprId> terminals;
  if (const auto values = listed_values(parts)) {
    std::vector<std::string> words;  // with one spelling alone: together they take less
    for (const Json* value : *values) {
      const bool plain = value->is_string() && is_plain(value->get_ref<const std::string&>());
      if (plain) words.push_back(value->get<std::string>());
      if (!plain) terminals.push_back(text_.value(*value));
    }
    if (!words.empty()) terminals.push_back(text_.quoted(rules_.expressions().one_of(std::move(words))));
    return rules_.produce(rule, {rules_.terminal(rules_.expressions().either(std::move(terminals)))});
  }
  const unsigned allowed = types(parts);
  Expressions& to = rules_.expressions();
  std::vector<Production> others;
  if ((allowed & kNull) != 0) terminals.push_back(to.literal("null"));
  if ((allowed & kBoolean) != 0) terminals.push_back(to.one_of({"true", "false"}));
  if ((allowed & (kInteger | kNumber)) != 0)
    terminals.push_back(number(parts, (allowed & kNumber) == 0, others));
  if ((allowed & kString) != 0) terminals.push_back(text_.quoted(string_content(parts, false)));
  if ((allowed & kArray) != 0) others.push_back({array(parts)});
  if ((allowed & kObject) != 0) others.push_back({object(parts)});
  for (const Production& each : others) rules_.produce(rule, each);
  const ExprId terminal = to.either(std::move(terminals));
  if (terminal != Expressions::kNothing) rules_.produce(rule, {rules_.terminal(terminal)});
}

GrammarPtr from_json_schema(const Vocabulary& vocabulary, std::string_view schema,
                            const JsonSchemaOptions& options) {
  INGOT_CHECK(schema.size() <= kMostSchemaBytes,
              InvalidConfig("json_schema",
                            fmt::format("has {} bytes; {} are the most", schema.size(), kMostSchemaBytes)));
  const auto root = parse_json<nlohmann::ordered_json>(schema, "json_schema");
  Rules rules(vocabulary, schema.find("attern") == schema.npos);
  const std::uint32_t start = rules.add("json_schema");
  const JsonText text(rules.expressions(), options.white_space);
  rules.produce(start, {SchemaCompiler(rules, root, text).compile()});
  return rules.finish(start);
}

GrammarPtr any_json_object(const Vocabulary& vocabulary) {
  return from_json_schema(vocabulary, R"({"type":"object"})");
}

}  // namespace ingot::grammar
