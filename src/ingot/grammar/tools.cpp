#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/grammar/char_set.h"
#include "ingot/grammar/grammar.h"
#include "ingot/grammar/program.h"
#include "ingot/grammar/schema_compiler.h"

namespace ingot::grammar {
namespace {

using Json = nlohmann::ordered_json;

// Any text without this marker.
ExprId text_without(Expressions& to, std::string_view marker) {
  const ExprId any = to.star(utf8(to, CharSet::all()));
  if (marker.empty()) return any;
  return to.both(any, to.no(to.concat(std::vector{any, to.literal(marker), any})));
}

// {"name": "...", "arguments": {...}}
Symbol call(Rules& rules, const ToolGrammar& form, const ToolGrammar::Tool& tool) {
  Expressions& to = rules.expressions();
  const JsonText text(to, true);
  const auto quoted = [&](std::string_view word) { return text.quoted(text.content_of(word)); };
  const ExprId head =
      to.concat(std::vector{text.opened('{'), quoted("name"), text.mark(':'), quoted(tool.name),
                            text.mark(','), quoted(form.arguments), text.mark(':')});
  Json schema = Json::parse(R"({"type":"object"})");
  if (!tool.parameters.empty()) {
    schema = parse_json<Json>(tool.parameters, fmt::format("parameters of the tool '{}'", tool.name));
    if (schema.is_object() && schema.empty()) schema["type"] = "object";
  }
  try {
    const Symbol arguments = SchemaCompiler(rules, schema, true).compile();
    return rules.either({{rules.terminal(head), arguments, rules.terminal(text.closed('}'))}});
  } catch (const InvalidConfig& error) {
    throw InvalidConfig(fmt::format("parameters of the tool '{}'", tool.name), error.what());
  }
}

}  // namespace

GrammarPtr from_tools(const Vocabulary& vocabulary, const ToolGrammar& form) {
  INGOT_CHECK(!form.tools.empty(), InvalidConfig("tools", "has no tool to call"));
  const auto has_patterns = [](const ToolGrammar::Tool& tool) {
    return tool.parameters.find("attern") != std::string::npos;
  };
  Rules rules(vocabulary, std::ranges::none_of(form.tools, has_patterns));
  Expressions& to = rules.expressions();
  const JsonText text(to, true);
  const ExprId line = to.optional(to.literal("\n"));
  std::vector<Production> each;
  for (const ToolGrammar::Tool& tool : form.tools) each.push_back({call(rules, form, tool)});
  const Symbol any_call = rules.either(each);
  const std::uint32_t most = form.several ? Expressions::kMany : 1;
  Production calls;
  const Symbol begin =
      rules.terminal(to.concat(to.literal(form.begin), form.begin.empty() ? Expressions::kEmpty : line));
  const Symbol end =
      rules.terminal(form.end.empty() ? Expressions::kEmpty : to.concat(line, to.literal(form.end)));
  if (form.list) {
    calls = {begin, rules.terminal(text.opened('['))};
    for (const Symbol& symbol : rules.repeat(any_call, 1, most, {rules.terminal(text.mark(','))}))
      calls.push_back(symbol);
    calls.push_back(rules.terminal(text.closed(']')));
    calls.push_back(end);
  } else {
    calls = rules.repeat(rules.either({{begin, any_call, end}}), 1, most, {rules.terminal(line)});
  }
  const std::uint32_t root = rules.add("tools");
  Production thoughts;
  if (form.reasoning) {
    const ExprId space = to.repeat(to.literal("\n"), 0, 2);
    const ExprId thought = to.concat(
        std::vector{to.literal("<think>"), text_without(to, "</think>"), to.literal("</think>"), space});
    thoughts.push_back(rules.terminal(to.optional(thought)));
  }
  if (form.required) {
    thoughts.insert(thoughts.end(), calls.begin(), calls.end());
    rules.produce(root, thoughts);
    return rules.finish(root);
  }
  // Text up to the first call.
  const ExprId words = text_without(to, form.begin);
  Production plain = thoughts;
  plain.push_back(rules.terminal(words));
  rules.produce(root, plain);
  plain.insert(plain.end(), calls.begin(), calls.end());
  rules.produce(root, std::move(plain));
  return rules.finish(root);
}

}  // namespace ingot::grammar
