// Arrays and objects of a schema.
#include <algorithm>
#include <string>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/grammar/char_set.h"
#include "ingot/grammar/pattern.h"
#include "ingot/grammar/schema_compiler.h"
#include "ingot/grammar/schema_shape.h"

namespace ingot::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostCounted = 10'000;  // items
constexpr std::int64_t kMostProperties = 128;  // that minProperties and maxProperties count
constexpr std::size_t kMostDeclared = 4'000;   // properties
constexpr std::size_t kMostPatterns = 5;       // of patternProperties: each combination is a rule of its own

// The list of the first items, and the schema of the others, whatever the draft.
std::pair<const Json*, const Json*> items_of(const Json& schema) {
  const Json* items = schema_member(schema, "items");
  if (items != nullptr && items->is_array()) return {items, schema_member(schema, "additionalItems")};
  return {schema_member(schema, "prefixItems"), items};
}

std::int64_t largest(std::int64_t so_far, const Json* value) {
  return value == nullptr ? so_far : std::max(so_far, value->get<std::int64_t>());
}
std::int64_t smallest(std::int64_t so_far, const Json* value) {  // −1: none
  if (value == nullptr) return so_far;
  const auto own = value->get<std::int64_t>();
  return so_far < 0 ? own : std::min(so_far, own);
}

}  // namespace

SchemaCompiler::Parts SchemaCompiler::item_parts(const Parts& parts, std::size_t index,
                                                 bool& possible) const {
  Parts items;
  for (const Part& part : parts) {
    const auto [first, rest] = items_of(*part.schema);
    const bool listed = first != nullptr && index < first->size();
    if (listed) possible = add(items, (*first)[index]) && possible;
    if (!listed && rest != nullptr) possible = add(items, *rest) && possible;
  }
  return items;
}

Symbol SchemaCompiler::array(const Parts& parts) {
  std::int64_t least = 0, most = -1;
  std::size_t listed = 0;
  for (const Part& part : parts) {
    const Json& schema = *part.schema;
    least = largest(least, schema_member(schema, "minItems"));
    most = smallest(most, schema_member(schema, "maxItems"));
    if (const Json* first = items_of(schema).first) listed = std::max(listed, first->size());
  }
  for (const Part& part : parts) {
    const Json* unique = schema_member(*part.schema, "uniqueItems");
    if (unique != nullptr && unique->is_boolean() && unique->get<bool>() && (most < 0 || most > 1))
      refuse(*part.schema, "uniqueItems", "cannot be enforced while a text is written: leave it out");
    const Json* minimal = schema_member(*part.schema, "minContains");
    if (minimal == nullptr || *minimal != 0) refuse_all({part}, {"contains"});
    refuse_all({part}, {"unevaluatedItems"});
    if (least > kMostCounted) refuse(*part.schema, "minItems", fmt::format("is above {}", kMostCounted));
  }
  if (most > kMostCounted) most = -1;  // more than any context holds
  if (most >= 0 && least > most) return Symbol::terminal(Expressions::kNothing);
  const Symbol comma = rules_.terminal(text_.mark(','));
  const auto item = [&](std::size_t index) {
    bool possible = true;
    Parts of = item_parts(parts, index, possible);
    return possible ? compile(std::move(of)) : Symbol::terminal(Expressions::kNothing);
  };
  // From the back: what may follow so many items.
  const auto needed =
      static_cast<std::uint32_t>(std::max<std::int64_t>(least - static_cast<std::int64_t>(listed), 0));
  const std::uint32_t room =
      most < 0
          ? Expressions::kMany
          : static_cast<std::uint32_t>(std::max<std::int64_t>(most - static_cast<std::int64_t>(listed), 0));
  const Symbol other = item(listed);
  Production then;
  if (listed == 0) {
    then = rules_.repeat(other, needed, room, {comma});
  } else if (room > 0) {
    then = rules_.repeat(rules_.either({{comma, other}}), needed, room);
  }
  for (std::size_t i = listed; i-- > 0;) {
    const auto count = static_cast<std::int64_t>(i);
    std::vector<Production> choices;
    if (count >= least) choices.emplace_back();
    if (most < 0 || count < most) {
      Production more = i > 0 ? Production{comma, item(i)} : Production{item(i)};
      more.insert(more.end(), then.begin(), then.end());
      choices.push_back(std::move(more));
    }
    then = {rules_.either(choices)};
  }
  Production all{rules_.terminal(text_.opened('['))};
  all.insert(all.end(), then.begin(), then.end());
  all.push_back(rules_.terminal(text_.closed(']')));
  return rules_.either({all});
}

// What the value of a property has to satisfy.
SchemaCompiler::Parts SchemaCompiler::property_parts(const Parts& parts, const std::string& name,
                                                     bool& possible) {
  Parts of;
  const Json as_value(name);
  for (const Part& part : parts) {
    const Json& schema = *part.schema;
    bool listed = false;
    if (const Json* properties = schema_member(schema, "properties")) {
      if (const Json* own = schema_member(*properties, name.c_str())) {
        listed = true;
        possible = add(of, *own) && possible;
      }
    }
    if (const Json* patterns = schema_member(schema, "patternProperties")) {
      for (const auto& [pattern, inner] : patterns->items()) {
        if (!check_.found(pattern, name)) continue;
        listed = true;
        possible = add(of, inner) && possible;
      }
    }
    for (const char* keyword : {"additionalProperties", "unevaluatedProperties"}) {
      const Json* others = schema_member(schema, keyword);
      if (!listed && others != nullptr) possible = add(of, *others) && possible;
    }
    const Json* names = schema_member(schema, "propertyNames");
    if (names != nullptr) possible = check_.accepts(*names, as_value) && possible;
  }
  return of;
}

// Properties that are not declared, sorted by the patterns that their names match.
std::vector<SchemaCompiler::Key> SchemaCompiler::other_keys(const Parts& parts,
                                                            const std::vector<std::string>& declared) {
  Expressions& to = rules_.expressions();
  std::vector<ExprId> names{to.star(text_.plain_char())};
  std::vector<ExprId> taken;
  taken.reserve(declared.size());
  for (const std::string& name : declared) taken.push_back(text_.content_of(name));
  if (!taken.empty()) names.push_back(to.no(to.either(std::move(taken))));
  struct Pattern {
    const Part* part;
    ExprId expr;
    const Json* schema;
  };
  std::vector<Pattern> patterns;
  for (const Part& part : parts) {
    if (const Json* restricted = schema_member(*part.schema, "propertyNames")) {
      Parts of_name;
      if (!add(of_name, *restricted) || !expand(of_name)) return {};
      for (const char* keyword : {"anyOf", "oneOf"}) refuse_all(of_name, {keyword});
      if (const auto values = listed_values(of_name)) {
        std::vector<ExprId> contents;
        for (const Json* value : *values)
          if (value->is_string()) contents.push_back(text_.content_of(value->get_ref<const std::string&>()));
        names.push_back(to.either(std::move(contents)));
      } else {
        names.push_back(string_content(of_name, true));
      }
    }
    const Json* own = schema_member(*part.schema, "patternProperties");
    if (own == nullptr) continue;
    for (const auto& [pattern, schema] : own->items()) {
      const std::string where = "json_schema: a pattern of " + pointer_to(root_, *own);
      patterns.push_back(
          {&part, compile_pattern(to, pattern, {.json_string = text_.has_escapes(), .search = true}, where),
           &schema});
    }
    if (patterns.size() > kMostPatterns)
      refuse(*part.schema, "patternProperties", fmt::format("has more than {} patterns", kMostPatterns));
  }
  std::vector<Key> keys;
  for (std::uint32_t subset = 0; subset < (1U << patterns.size()); ++subset) {
    std::vector<ExprId> all = names;
    Parts value;
    bool possible = true;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const bool matches = ((subset >> i) & 1U) != 0;
      all.push_back(matches ? patterns[i].expr : to.no(patterns[i].expr));
      if (matches) possible = add(value, *patterns[i].schema) && possible;
    }
    for (const Part& part : parts) {
      bool listed = false;
      for (std::size_t i = 0; i < patterns.size(); ++i)
        listed = listed || (patterns[i].part == &part && ((subset >> i) & 1U) != 0);
      for (const char* keyword : {"additionalProperties", "unevaluatedProperties"}) {
        const Json* others = schema_member(*part.schema, keyword);
        if (!listed && others != nullptr) possible = add(value, *others) && possible;
      }
    }
    const ExprId name = to.both(std::move(all));
    if (possible && !rules_.automata().is_nothing(name)) keys.push_back({name, std::move(value)});
  }
  return keys;
}

Symbol SchemaCompiler::object(const Parts& parts) {
  refuse_all(parts, {"dependentRequired", "dependentSchemas", "dependencies"});
  std::int64_t least = 0, most = -1;
  std::vector<std::string> declared;
  std::unordered_set<std::string> known, required;
  const auto declare = [&](const Json& schema, const std::string& name) {
    if (known.insert(name).second) declared.push_back(name);
    if (declared.size() > kMostDeclared)
      refuse(schema, "properties", fmt::format("has more than {} names", kMostDeclared));
  };
  for (const Part& part : parts) {
    const Json& schema = *part.schema;
    least = largest(least, schema_member(schema, "minProperties"));
    most = smallest(most, schema_member(schema, "maxProperties"));
    if (const Json* properties = schema_member(schema, "properties"))
      for (const auto& [name, inner] : properties->items()) declare(schema, name);
    // It sees what stands beside it, and in this list of schemas that is not told apart.
    if (schema_member(schema, "unevaluatedProperties") != nullptr && parts.size() > 1)
      refuse(schema, "unevaluatedProperties",
             "cannot be enforced beside other schemas: write additionalProperties");
    if (std::max(least, most) > kMostProperties)
      refuse(schema, least > kMostProperties ? "minProperties" : "maxProperties",
             fmt::format("is above {}", kMostProperties));
  }
  for (const Part& part : parts) {  // behind the declared ones
    const Json* names = schema_member(*part.schema, "required");
    for (const Json& name : names != nullptr && names->is_array() ? *names : Json::array()) {
      required.insert(name.get<std::string>());
      declare(*part.schema, name.get<std::string>());
    }
  }
  const Symbol comma = rules_.terminal(text_.mark(','));
  Expressions& to = rules_.expressions();
  std::vector<Production> others;  // a property that is not declared
  for (Key& key : other_keys(parts, declared)) {
    others.push_back(
        {rules_.terminal(to.concat(text_.key(key.name), text_.mark(':'))), compile(std::move(key.value))});
  }
  // rest[count]: what follows the properties so far, of which there are so many (`counted` or more).
  const std::int64_t counted = std::max({std::int64_t{1}, least, most});
  const auto slots = static_cast<std::size_t>(counted) + 1;
  std::vector<Symbol> rest(slots, Symbol::terminal(Expressions::kNothing));
  const Symbol other = others.empty() ? Symbol::terminal(Expressions::kNothing) : rules_.either(others);
  for (std::int64_t count = 0; count <= counted; ++count) {
    std::vector<Production> choices;
    if (count >= least) choices.emplace_back();
    // Two others may have one name: only the first of them counts for certain.
    if (!others.empty() && count + 1 >= least && (most < 0 || count < most)) {
      const std::uint32_t room = most < 0 ? Expressions::kMany : static_cast<std::uint32_t>(most - count);
      choices.push_back(count == 0 ? rules_.repeat(other, 1, room, {comma})
                                   : rules_.repeat(rules_.either({{comma, other}}), 1, room));
    }
    if (!choices.empty()) rest[static_cast<std::size_t>(count)] = rules_.either(choices);
  }
  for (std::size_t i = declared.size(); i-- > 0;) {
    bool possible = true;
    Parts of = property_parts(parts, declared[i], possible);
    const bool needed = required.contains(declared[i]);
    const Symbol value = possible ? compile(std::move(of)) : Symbol::terminal(Expressions::kNothing);
    const ExprId key = to.concat(text_.key(text_.content_of(declared[i])), text_.mark(':'));
    std::vector<Symbol> before(slots, Symbol::terminal(Expressions::kNothing));
    for (std::int64_t count = 0; count <= counted; ++count) {
      const auto slot = static_cast<std::size_t>(count);
      const auto next = static_cast<std::size_t>(std::min(count + 1, counted));
      std::vector<Production> choices;
      if (most < 0 || count < most) {
        const ExprId begin = count > 0 ? to.concat(text_.mark(','), key) : key;
        choices.push_back({rules_.terminal(begin), value, rest[next]});
      }
      if (!needed) choices.push_back({rest[slot]});
      if (!choices.empty()) before[slot] = rules_.either(choices);
    }
    rest = std::move(before);
  }
  return rules_.either(
      {{rules_.terminal(text_.opened('{')), rest.front(), rules_.terminal(text_.closed('}'))}});
}

}  // namespace ingot::grammar
