#include "ingot/serve/chat_input.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/grammar/schema_shape.h"
#include "ingot/serve/api_error.h"

namespace ingot::serve {
namespace {

using nlohmann::json;

// Templates know a string; clients may send the same as a list of parts.
json content_text(const json& content, const std::string& field) {
  if (content.is_string() || content.is_null()) return content.is_null() ? json("") : content;
  if (!content.is_array()) throw bad_field(field, "must be a string or a list of parts");
  std::string text;
  for (const json& part : content) {
    const std::string type = part.is_object() ? part.value("type", "") : "";
    if (type != "text" || !part.contains("text") || !part["text"].is_string())
      throw bad_field(field, fmt::format("has a part of type '{}'; this model takes text alone", type));
    text += part["text"].get<std::string>();
  }
  return text;
}

// Arguments come as a string of JSON, and templates want the object.
void open_arguments(json& message, const std::string& field) {
  if (!message.contains("tool_calls") || message["tool_calls"].is_null()) return;
  if (!message["tool_calls"].is_array()) throw bad_field(field, "must be a list of calls");
  for (json& call : message["tool_calls"]) {
    if (!call.is_object()) throw bad_field(field, "must be a list of objects");
    if (!call.contains("function") || !call["function"].is_object()) continue;
    json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    const json parsed = parse_json_or_discard<json>(function["arguments"].get_ref<const std::string&>());
    if (parsed.is_object()) function["arguments"] = parsed;
  }
}

json read_messages(const Fields& body, const std::string& chat_template) {
  const json* given = body.array("messages");
  if (given == nullptr || given->empty())
    throw bad_field("messages", "must be a list of at least one message");
  json messages = *given;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string field = fmt::format("messages[{}]", i);
    json& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      throw bad_field(field, "must be an object with a role");
    // OpenAI's newer name, which few templates know.
    if (message["role"] == "developer" && chat_template.find("developer") == std::string::npos)
      message["role"] = "system";
    message["content"] =
        content_text(message.contains("content") ? message["content"] : json(), field + ".content");
    open_arguments(message, field + ".tool_calls");
    // gpt-oss' name of it.
    if (message.contains("reasoning_content") && !message.contains("thinking") && has_channels(chat_template))
      message["thinking"] = message["reasoning_content"];
  }
  return messages;
}

// The tools that the template is told of.
json read_tools(const Fields& body) {
  const json* tools = body.array("tools");
  const json* choice = body.any("tool_choice");
  if (tools == nullptr || tools->empty()) {
    if (choice != nullptr && *choice != "none" && *choice != "auto")
      throw bad_field("tool_choice", "needs 'tools'");
    return nullptr;
  }
  if (choice != nullptr && *choice == "none") return nullptr;
  for (const json& tool : *tools) {
    const bool good = tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
                      tool["function"].contains("name") && tool["function"]["name"].is_string();
    if (!good)
      throw bad_field("tools", "must be a list of {\"type\": \"function\", \"function\": {\"name\": ...}}");
  }
  return *tools;
}

// The name of the tool that has to be called; empty where any may be. `required`: whether one has to be.
std::string read_tool_choice(const Fields& body, const json& tools, bool& required) {
  const json* choice = body.any("tool_choice");
  required = choice != nullptr && *choice != "auto";
  if (!required || *choice == "required") return {};
  const json* function =
      choice->is_object() && choice->contains("function") ? &(*choice)["function"] : nullptr;
  if (function == nullptr || !function->is_object() || !function->contains("name") ||
      !(*function)["name"].is_string())
    throw bad_field("tool_choice",
                    "must be 'none', 'auto', 'required' or {\"type\": \"function\", \"function\": "
                    "{\"name\": ...}}");
  const std::string name = (*function)["name"];
  for (const json& tool : tools)
    if (tool["function"]["name"] == name) return name;
  throw bad_field("tool_choice", fmt::format("names '{}', which is not among 'tools'", name));
}

// Calls that have to come, or whose arguments are to be exact ("strict"), are written by a grammar.
infer::Constraint tool_constraint(const Fields& body, const json& tools, const ToolFormat& of_model) {
  bool required = false;
  const std::string named = read_tool_choice(body, tools, required);
  grammar::ToolGrammar format = of_model.grammar;
  format.required = required;
  format.several = named.empty() && body.boolean("parallel_tool_calls").value_or(true);
  bool strict = false;
  for (const json& tool : tools) {
    const json& function = tool["function"];
    if (!named.empty() && function["name"] != named) continue;
    strict = strict || (function.contains("strict") && function["strict"] == true);
    const bool described = function.contains("parameters") && function["parameters"].is_object();
    format.tools.push_back({function["name"], described ? dump_json(function["parameters"]) : std::string()});
  }
  if (!required && !strict) return {};
  return {.kind = infer::Constraint::Kind::tools, .tools = std::move(format)};
}

// Parameters that are not strings, of formats that write strings as they are.
JsonParameters json_parameters(const json& tools) {
  JsonParameters found;
  for (const json& tool : tools) {
    const json& function = tool["function"];
    const json& parameters = function.contains("parameters") ? function["parameters"] : json();
    if (!parameters.is_object() || !parameters.contains("properties")) continue;
    for (const auto& [name, schema] : parameters["properties"].items()) {
      if (!grammar::is_text_schema(nlohmann::ordered_json(schema))) found.emplace(function["name"], name);
    }
  }
  return found;
}

void keep_special_tokens(const text::Tokenizer& tokenizer, std::initializer_list<std::string_view> markers,
                         infer::SpecialText& special) {
  for (const std::string_view marker : markers)
    for (const std::int32_t id : tokenizer.encode(std::string(marker), {.add_special_tokens = false}))
      if (tokenizer.is_special(id)) special.kept.push_back(id);
}

void keep_markers(const text::Tokenizer& tokenizer, const ToolFormat& format, infer::SpecialText& special) {
  const grammar::ToolGrammar& marks = format.grammar;
  keep_special_tokens(tokenizer,
                      {marks.begin, marks.end, marks.open, marks.middle, marks.close, marks.between,
                       marks.key, marks.value, marks.value_end, marks.quote, format.id_mark},
                      special);
}

std::string_view trimmed_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

}  // namespace

ChatInput read_chat(const Fields& body, const ServedModel& model) {
  const infer::ChatPrompt& chat = model.chat();
  const json tools = read_tools(body);
  const json* variables = body.object("chat_template_kwargs");
  ChatInput input;
  input.prompt = chat.render({.messages = dump_json(read_messages(body, chat.source())),
                              .tools = dump_json(tools),
                              .variables = variables != nullptr ? dump_json(*variables) : "{}",
                              .add_generation_prompt = body.boolean("add_generation_prompt").value_or(true)});
  input.tokens = model.tokenizer().encode(input.prompt, {.add_special_tokens = false});
  grammar::Thoughts& thoughts = input.parser.thoughts;
  input.parser.channels = has_channels(chat.source());
  if (input.parser.channels) {  // a grammar is that of the last channel, all others are free
    thoughts = {.end = std::string(kFinalChannel), .begun = true};
    input.special.skip = false;
  } else {
    thoughts = find_thoughts(chat.source());
    thoughts.begun =
        !thoughts.end.empty() && trimmed_end(input.prompt).ends_with(trimmed_end(thoughts.begin));
    keep_special_tokens(model.tokenizer(), {thoughts.begin, thoughts.end}, input.special);
  }
  const ToolFormat& format = find_tool_format(chat.source());
  keep_markers(model.tokenizer(), format, input.special);  // a history with calls makes it write more of them
  if (!tools.is_null()) {
    input.parser.tools = &format;
    input.parser.json_parameters = json_parameters(tools);
    input.tools = tool_constraint(body, tools, format);
  }
  return input;
}

// The markers that a budget counts between.
void ChatInput::put_thoughts_into(GenerationParams& params) const {
  constexpr const char* kField = "thinking_token_budget";
  infer::TextOptions& text = params.text;
  if (text.thinking_budget < 0) return;
  if (parser.thoughts.end.empty())
    throw bad_field(kField, "has no use: this model's template knows no reasoning");
  if (!text.constraint.tools.reasoning_begin.empty())
    throw bad_field(kField, "cannot stand beside forced or strict tools of this model");
  text.thoughts = parser.thoughts;
  if (!parser.channels) return;
  text.thoughts = {.begin = "<|channel|>analysis<|message|>", .end = "<|end|>"};
  text.thoughts_closing = "<|end|><|start|>assistant" + std::string(kFinalChannel);
}

void ChatInput::apply_to(GenerationParams& params) const {
  using Kind = infer::Constraint::Kind;
  infer::Constraint& constraint = params.text.constraint;
  if (tools.kind != Kind::none) {
    if (constraint.kind != Kind::none)
      throw bad_field("response_format", "cannot stand beside forced or strict tools");
    constraint = tools;
  }
  put_thoughts_into(params);
  const bool has_reasoning = !constraint.tools.reasoning_begin.empty();  // the grammar itself
  if (!has_reasoning) constraint.thoughts = parser.thoughts;
  params.special.kept = special.kept;
  params.special.skip = params.special.skip && special.skip;
}

}  // namespace ingot::serve
