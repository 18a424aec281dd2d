#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/grammar/char_set.h"
#include "ingot/grammar/grammar.h"
#include "ingot/grammar/program.h"
#include "ingot/grammar/schema_compiler.h"
#include "ingot/grammar/schema_shape.h"
#include "ingot/grammar/token_trie.h"

namespace ingot::grammar {
namespace {

using Json = nlohmann::ordered_json;
using Around = ToolGrammar::Around;

ExprId any_text(Expressions& to) { return to.star(utf8(to, CharSet::all())); }

// Any text without this marker.
ExprId text_without(Expressions& to, std::string_view marker) {
  const ExprId any = any_text(to);
  return to.both(any, to.no(to.concat(std::vector{any, to.literal(marker), any})));
}

// Text that cannot be taken for a call that stands there without a marker.
ExprId text_not_of_json(Expressions& to) {
  const ExprId space = to.star(utf8(to, white_space(false)));
  CharSet other({{'{', '{'}});
  other.add(white_space(false));
  const ExprId word = to.concat(utf8(to, other.complement()), any_text(to));
  return to.concat(space, to.optional(word));
}

// Writes calls of one format.
class ToolRules {
 public:
  ToolRules(Rules& rules, const ToolGrammar& form)
      : rules_(rules), to_(rules.expressions()), text_(to_, true), form_(form) {
    const TokenTrie& trie = rules.automata().trie();
    for (std::int32_t id = 0; id < trie.vocab_size(); ++id) {
      if (trie.bytes(id).size() > 1 && trie.bytes(id)[0] == kSpecialMark)
        specials_.emplace_back(trie.bytes(id).substr(1));
    }
    std::ranges::sort(specials_, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  }

  /// What comes in front of calls and of text: reasoning, where a message has it as a part.
  Production reasoning() {
    if (form_.reasoning_begin.empty()) return {};
    const ExprId whole = to_.concat(std::vector{
        marker(form_.reasoning_begin), text_without(to_, form_.reasoning_end), marker(form_.reasoning_end)});
    return {rules_.terminal(to_.optional(whole))};
  }
  /// Text instead of calls, in such a message.
  Production plain_text() {
    Production all = reasoning();
    all.push_back(rules_.terminal(to_.concat(marker(form_.text), any_text(to_))));
    return all;
  }

  // All that may come where calls come.
  Production calls() {
    Production all = reasoning();
    const Production each = calls_alone();
    all.insert(all.end(), each.begin(), each.end());
    return all;
  }

 private:
  Production calls_alone() {
    std::vector<Production> each;
    for (const ToolGrammar::Tool& tool : form_.tools) each.push_back({call(tool)});
    const Symbol any_call = rules_.either(each);
    const std::uint32_t most = form_.several ? Expressions::kMany : 1;
    const ExprId line = to_.optional(to_.literal("\n"));
    const ExprId begin = form_.begin.empty() ? Expressions::kEmpty : to_.concat(marker(form_.begin), line);
    const ExprId end = form_.end.empty() ? Expressions::kEmpty : to_.concat(line, marker(form_.end));
    if (form_.around == Around::each_call) {
      const Symbol whole = rules_.either({{rules_.terminal(begin), any_call, rules_.terminal(end)}});
      return rules_.repeat(whole, 1, most, {rules_.terminal(to_.concat(marker(form_.between), line))});
    }
    const bool list = form_.around == Around::json_list;
    const ExprId between = list ? text_.mark(',') : to_.concat(marker(form_.between), line);
    Production all{rules_.terminal(begin)};
    if (list) all.push_back(rules_.terminal(text_.opened('[')));
    const Production inner = rules_.repeat(any_call, 1, most, {rules_.terminal(between)});
    all.insert(all.end(), inner.begin(), inner.end());
    if (list) all.push_back(rules_.terminal(text_.closed(']')));
    all.push_back(rules_.terminal(end));
    return all;
  }

  ExprId marker(std::string_view text) { return to_.literal(spelled(text)); }
  // A text in which special tokens are what they are.
  std::string spelled(std::string_view text) const {
    std::string spelled;
    while (!text.empty()) {
      const auto found =
          std::ranges::find_if(specials_, [&](const std::string& each) { return text.starts_with(each); });
      const std::size_t length = found != specials_.end() ? found->size() : 1;
      if (found != specials_.end()) spelled += kSpecialMark;
      spelled += text.substr(0, length);
      text.remove_prefix(length);
    }
    return spelled;
  }

  Json schema_of(const ToolGrammar::Tool& tool) const {
    Json schema = Json::object();
    if (!tool.parameters.empty())
      schema = parse_json<Json>(tool.parameters, fmt::format("parameters of the tool '{}'", tool.name));
    if (schema.is_object() && schema.empty()) schema["type"] = "object";
    return schema;
  }

  Symbol call(const ToolGrammar::Tool& tool) {
    const Json schema = schema_of(tool);
    try {
      Production parts;
      if (form_.open.empty() && form_.middle.empty()) {
        parts = {rules_.terminal(json_head(tool.name)), json(schema), rules_.terminal(text_.closed('}'))};
      } else {
        parts = arguments(schema);
        parts.insert(parts.begin(), rules_.terminal(marker(form_.open + tool.name + form_.middle)));
        parts.push_back(rules_.terminal(marker(form_.close)));
      }
      return rules_.either({parts});
    } catch (const InvalidConfig& error) {
      throw InvalidConfig(fmt::format("parameters of the tool '{}'", tool.name), error.what());
    }
  }

  // {"name": "...", "arguments":
  ExprId json_head(const std::string& name) {
    const auto quoted = [&](std::string_view word) { return text_.quoted(text_.content_of(word)); };
    return to_.concat(std::vector{text_.opened('{'), quoted(form_.name_key), text_.mark(':'), quoted(name),
                                  text_.mark(','), quoted(form_.arguments_key), text_.mark(':')});
  }

  Production arguments(const Json& schema) {
    if (form_.key.empty()) return {json(schema)};
    Production all;
    std::unordered_set<const void*> seen;
    check_shape(schema, schema, seen);
    const Json* properties = schema_member(schema, "properties");
    const Json* required = schema_member(schema, "required");
    if (properties == nullptr) return {};
    for (const auto& [name, property] : properties->items()) {
      const bool needed = required != nullptr && std::ranges::find(*required, Json(name)) != required->end();
      const Production one{rules_.terminal(marker(form_.key + name + form_.value)), value(schema, property),
                           rules_.terminal(marker(form_.value_end))};
      if (needed) all.insert(all.end(), one.begin(), one.end());
      if (!needed) all.push_back(rules_.either({one, {}}));
    }
    return all;
  }

  Symbol value(const Json& schema, Json property) {
    if (const Json* words = schema_member(property, "enum"); words != nullptr && is_text_schema(property)) {
      std::vector<std::string> texts;
      for (const Json& word : *words)
        if (word.is_string()) texts.push_back(word.get<std::string>());
      return rules_.terminal(to_.one_of(std::move(texts)));
    }
    if (is_text_schema(property)) return rules_.terminal(text_without(to_, form_.value_end));
    for (const char* key : {"$defs", "definitions"}) {  // what the property's references name
      if (schema.contains(key) && property.is_object()) property[key] = schema[key];
    }
    return json(property);
  }
  Symbol json(const Json& schema) {
    const JsonText values =
        form_.quote.empty() ? text_ : JsonText::between_marks(to_, form_.quote, spelled(form_.quote));
    return SchemaCompiler(rules_, schema, values).compile();
  }

  Rules& rules_;
  Expressions& to_;
  JsonText text_;
  const ToolGrammar& form_;
  std::vector<std::string> specials_;  // the longest first
};

}  // namespace

GrammarPtr from_tools(const Vocabulary& vocabulary, const ToolGrammar& form) {
  INGOT_CHECK(!form.tools.empty(), InvalidConfig("tools", "has no tool to call"));
  const auto has_patterns = [](const ToolGrammar::Tool& tool) {
    return tool.parameters.find("attern") != std::string::npos;
  };
  Rules rules(vocabulary, std::ranges::none_of(form.tools, has_patterns));
  Expressions& to = rules.expressions();
  ToolRules tools(rules, form);
  const Production calls = tools.calls();
  const std::uint32_t root = rules.add("tools");
  if (form.required) {
    rules.produce(root, calls);
    return rules.finish(root);
  }
  if (form.begin.empty()) {
    rules.produce(root,
                  form.text.empty() ? Production{rules.terminal(text_not_of_json(to))} : tools.plain_text());
    rules.produce(root, calls);
    return rules.finish(root);
  }
  // Text up to the first call.
  Production plain{rules.terminal(text_without(to, form.begin))};
  rules.produce(root, plain);
  plain.insert(plain.end(), calls.begin(), calls.end());
  rules.produce(root, std::move(plain));
  return rules.finish(root);
}

}  // namespace ingot::grammar
