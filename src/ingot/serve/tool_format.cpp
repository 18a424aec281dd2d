#include "ingot/serve/tool_format.h"

#include <algorithm>
#include <array>
#include <optional>

#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/channel_parser.h"
#include "ingot/serve/gemma_value.h"

namespace ingot::serve {
namespace {

using Json = nlohmann::ordered_json;
using Calls = std::vector<ToolCall>;
using grammar::ToolGrammar;
using Around = ToolGrammar::Around;

constexpr const char* kBlank = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  return first == text.npos ? std::string_view()
                            : text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

// The text up to a marker, which is taken away with it; nothing where it does not come.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view marker) {
  const std::size_t at = text.find(marker);
  if (at == text.npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + marker.size());
  return before;
}

std::string arguments_text(const Json& arguments) {
  if (!arguments.is_string()) return dump_json(arguments);
  const Json inner = parse_json_or_discard<Json>(arguments.get_ref<const std::string&>());
  return dump_json(inner.is_object() ? inner : arguments);
}

// Models take one family's keys for another's.
bool add_json_call(const Json& json, Calls& calls) {
  const auto member = [&](std::initializer_list<const char*> keys) -> const Json* {
    for (const char* key : keys)
      if (const auto found = json.find(key); found != json.end()) return &*found;
    return nullptr;
  };
  if (!json.is_object()) return false;
  const Json* name = member({"name", "tool_name"});
  const Json* arguments = member({"arguments", "parameters"});
  if (name == nullptr || !name->is_string()) return false;
  calls.push_back({name->get<std::string>(), arguments != nullptr ? arguments_text(*arguments) : "{}"});
  return true;
}

// Where the JSON value that a text begins with ends: an object or a list.
std::size_t json_length(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth <= 0) {
      return i + 1;
    }
  }
  return text.size();
}

// Objects or lists of them, concatenated.
Calls read_json(std::string_view body, const ToolFormat&, const JsonParameters&) {
  Calls calls;
  for (body = trimmed(body); !body.empty();) {
    const std::size_t length = json_length(body);
    const Json json = parse_json_or_discard<Json>(body.substr(0, length));
    for (const Json& each : json.is_array() ? json : Json::array({json}))
      if (!add_json_call(each, calls)) return {};
    body.remove_prefix(length);
    body.remove_prefix(std::min(body.find_first_not_of(" \t\r\n;,"), body.size()));
  }
  return calls;
}

bool add_call(std::string_view name, std::string_view arguments, Calls& calls) {
  const Json json = parse_json_or_discard<Json>(trimmed(arguments));
  if (trimmed(name).empty() || !json.is_object()) return false;
  calls.push_back({std::string(trimmed(name)), dump_json(json)});
  return true;
}

// NAME, perhaps with an id behind it, marker, JSON.
Calls read_named(std::string_view body, const ToolFormat& format, const JsonParameters&) {
  Calls calls;
  const auto name = take_until(body, format.grammar.middle);
  if (!name || !add_call(name->substr(0, name->find(format.id_mark)), body, calls)) return {};
  return calls;
}

// Calls with marks of their own; those before version 3.1 are "function", name and a block of code.
Calls read_deepseek(std::string_view body, const ToolFormat&, const JsonParameters&) {
  Calls calls;
  while (take_until(body, "<｜tool▁call▁begin｜>")) {
    auto call = take_until(body, "<｜tool▁call▁end｜>");
    if (!call) return {};
    auto name = take_until(*call, "<｜tool▁sep｜>");
    if (!name) return {};
    const std::size_t code = call->find("```json");
    if (code != call->npos) {
      name = call->substr(0, code);
      *call = call->substr(code + std::string_view("```json").size());
      *call = call->substr(0, call->rfind("```"));
    }
    if (!add_call(*name, *call, calls)) return {};
  }
  return calls;
}

// A value as a text: of parameters that are not strings it is JSON, where it can be read as such.
Json tagged_value(std::string_view text, bool json) {
  const Json parsed = json ? parse_json_or_discard<Json>(text) : Json(Json::value_t::discarded);
  return parsed.is_discarded() ? Json(text) : parsed;
}

// NAME and arguments between marks, all of them by the grammar's.
Calls read_tagged(std::string_view body, const ToolFormat& format, const JsonParameters& json) {
  const ToolGrammar& marks = format.grammar;
  const std::string_view key_mark = marks.key, value_mark = trimmed(marks.value),
                         end_mark = trimmed(marks.value_end);
  Calls calls;
  if (!marks.open.empty() && !take_until(body, marks.open)) return {};
  const std::string_view middle = trimmed(marks.middle);
  const auto name =
      middle.empty() ? std::optional(body.substr(0, body.find(key_mark))) : take_until(body, middle);
  if (!name || trimmed(*name).empty()) return {};
  ToolCall call{.name = std::string(trimmed(*name)), .arguments = {}};
  Json arguments = Json::object();
  while (take_until(body, key_mark)) {
    const auto key = take_until(body, value_mark);
    auto value = key ? take_until(body, end_mark) : std::nullopt;
    if (!value) return {};
    if (value->starts_with('\n')) value->remove_prefix(1);
    if (value->ends_with('\n')) value->remove_suffix(1);
    const std::string text(trimmed(*key));
    arguments[text] = tagged_value(*value, json.contains({call.name, text}));
  }
  call.arguments = dump_json(arguments);
  calls.push_back(std::move(call));
  return calls;
}

// call:NAME{KEY:VALUE,...}
Calls read_gemma(std::string_view body, const ToolFormat& format, const JsonParameters&) {
  body = trimmed(body);
  if (!body.starts_with("call:")) return {};
  body.remove_prefix(5);
  const std::size_t brace = body.find('{');
  const auto arguments = read_gemma_object(body.substr(std::min(brace, body.size())), format.grammar.quote);
  const std::string_view name = trimmed(body.substr(0, std::min(brace, body.size())));
  if (name.empty() || !arguments) return {};
  return {{std::string(name), *arguments}};
}

// The first format whose signs a template holds is its format.
const std::vector<ToolFormat>& tool_formats() {
  static const std::vector<ToolFormat> kFormats{
      // gpt-oss: ChannelParser reads these
      {{"<|channel|>", "<|message|>"},
       {.open = "<|channel|>commentary to=functions.",
        .middle = " <|constrain|>json<|message|>",
        .between = "<|call|><|start|>assistant",
        .reasoning_begin = "<|channel|>analysis<|message|>",
        .reasoning_end = "<|end|><|start|>assistant",
        .text = std::string(kFinalChannel)},
       read_json},
      // Qwen3-Coder
      {{"<function="},
       {.begin = "<tool_call>",
        .end = "</tool_call>",
        .open = "<function=",
        .middle = ">\n",
        .close = "</function>",
        .key = "<parameter=",
        .value = ">\n",
        .value_end = "\n</parameter>\n"},
       read_tagged},
      // GLM 4.5
      {{"<arg_key>"},
       {.begin = "<tool_call>",
        .end = "</tool_call>",
        .middle = "\n",
        .key = "<arg_key>",
        .value = "</arg_key>\n<arg_value>",
        .value_end = "</arg_value>\n"},
       read_tagged},
      // Mistral, from its eleventh tokenizer on, and before
      {{"[TOOL_CALLS]", "[ARGS]"},
       {.begin = "[TOOL_CALLS]", .middle = "[ARGS]"},
       read_named,
       true,
       "[CALL_ID]"},
      {{"[TOOL_CALLS]"}, {.around = Around::json_list, .begin = "[TOOL_CALLS]"}, read_json, true},
      // DeepSeek 3 and R1, and 3.1
      {{"<｜tool▁calls▁begin｜>", "```json"},
       {.around = Around::all_calls,
        .begin = "<｜tool▁calls▁begin｜>",
        .end = "<｜tool▁calls▁end｜>",
        .open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        .middle = "\n```json\n",
        .close = "\n```<｜tool▁call▁end｜>"},
       read_deepseek},
      {{"<｜tool▁calls▁begin｜>"},
       {.around = Around::all_calls,
        .begin = "<｜tool▁calls▁begin｜>",
        .end = "<｜tool▁calls▁end｜>",
        .open = "<｜tool▁call▁begin｜>",
        .middle = "<｜tool▁sep｜>",
        .close = "<｜tool▁call▁end｜>"},
       read_deepseek},
      // FunctionGemma, and Gemma 4
      {{"<start_function_call>"},
       {.begin = "<start_function_call>", .end = "<end_function_call>", .open = "call:", .quote = "<escape>"},
       read_gemma},
      {{"<|tool_call>"},
       {.begin = "<|tool_call>", .end = "<tool_call|>", .open = "call:", .quote = "<|\"|>"},
       read_gemma},
      // Phi 4 mini, Granite 3
      {{"<|/tool_call|>"},
       {.around = Around::json_list, .begin = "<|tool_call|>", .end = "<|/tool_call|>"},
       read_json},
      {{"<|tool_call|>"}, {.around = Around::json_list, .begin = "<|tool_call|>"}, read_json},
      // Command R7B and A
      {{"<|START_ACTION|>"},
       {.around = Around::json_list,
        .begin = "<|START_ACTION|>",
        .end = "<|END_ACTION|>",
        .name_key = "tool_name",
        .arguments_key = "parameters"},
       read_json},
      // Llama 3.1 to 3.3: the whole message is a call
      {{"dictionary of argument name and its value"},
       {.arguments_key = "parameters", .between = "; "},
       read_json},
      // Hermes, Qwen 2.5 and 3, SmolLM3, ...
      {{}, {.begin = "<tool_call>", .end = "</tool_call>"}, read_json}};
  return kFormats;
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kThoughts{
    {{"<think>", "</think>"},
     {"[THINK]", "[/THINK]"},
     {"<seed:think>", "</seed:think>"},
     {"<|START_THINKING|>", "<|END_THINKING|>"},
     {"<|channel>thought\n", "<channel|>"}}};

}  // namespace

const ToolFormat& find_tool_format(std::string_view chat_template) {
  const auto& formats = tool_formats();
  return *std::ranges::find_if(formats, [&](const ToolFormat& format) {
    return std::ranges::all_of(
        format.signs, [&](std::string_view sign) { return chat_template.find(sign) != chat_template.npos; });
  });
}

grammar::Thoughts find_thoughts(std::string_view chat_template) {
  for (const auto& [begin, end] : kThoughts) {
    if (chat_template.find(begin) != chat_template.npos) return {std::string(begin), std::string(end)};
  }
  return {};
}

}  // namespace ingot::serve
