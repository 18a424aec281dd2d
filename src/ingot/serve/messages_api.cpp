// Anthropic's API: POST /v1/messages and /v1/messages/count_tokens.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/api.h"
#include "ingot/serve/chat_input.h"
#include "ingot/serve/fields.h"
#include "ingot/serve/lora_choice.h"
#include "ingot/serve/message_parser.h"

namespace ingot::serve {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

// Anthropic has OpenAI's names for a client's mistakes, and its own for the server's.
std::string_view error_type(const ApiError& error) {
  if (error.status < 500) return error.type();
  return error.status == 503 ? "overloaded_error" : "api_error";
}

std::string messages_error(const ApiError& error) {
  return dump_json(
      Json{{"type", "error"}, {"error", {{"type", error_type(error)}, {"message", error.what()}}}});
}

// An event of a stream, named by its type.
std::string named_event(const Json& json) {
  return fmt::format("event: {}\ndata: {}\n\n", json["type"].get<std::string>(), dump_json(json));
}

// The text of a string or of a list of text blocks.
std::string block_text(const json& content, const std::string& field) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw bad_field(field, "must be a string or a list of blocks");
  std::string text;
  for (const json& block : content) {
    const std::string type = block.is_object() ? block.value("type", "") : "";
    if (type != "text" || !block.contains("text") || !block["text"].is_string())
      throw bad_field(field, fmt::format("has a block of type '{}'; this server takes text there", type));
    text += block["text"].get<std::string>();
  }
  return text;
}

// One message as OpenAI's API has it: calls beside the text, results of tools as messages of their own.
void add_message(json& to, const json& message, const std::string& field) {
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
      !message.contains("content"))
    throw bad_field(field, "must be an object with a role and content");
  const std::string role = message["role"].get<std::string>();
  if (role == "system")
    throw bad_field(field + ".role", "is 'system'; the field 'system' of the request holds that");
  if (role != "user" && role != "assistant")
    throw bad_field(field + ".role", fmt::format("must be user or assistant, got '{}'", role));
  const json& content = message["content"];
  json calls = json::array(), texts = json::array();
  for (const json& block : content.is_array() ? content : json::array()) {
    const std::string type = block.is_object() ? block.value("type", "") : "";
    if (type == "tool_use") {
      calls.push_back(
          {{"id", block.value("id", "")},
           {"type", "function"},
           {"function",
            {{"name", block.value("name", "")}, {"arguments", block.value("input", json::object())}}}});
    } else if (type == "tool_result") {
      const json result = block.contains("content") ? block["content"] : json("");
      to.push_back({{"role", "tool"},
                    {"tool_call_id", block.value("tool_use_id", "")},
                    {"content", block_text(result, field + ".content")}});
    } else if (type != "thinking" && type != "redacted_thinking") {
      texts.push_back(block);
    }
  }
  const bool only_results = content.is_array() && texts.empty() && calls.empty();
  if (only_results) return;
  json result = {{"role", role},
                 {"content", block_text(content.is_array() ? texts : content, field + ".content")}};
  if (!calls.empty()) result["tool_calls"] = std::move(calls);
  to.push_back(std::move(result));
}

json as_chat_choice(const json& choice) {
  const auto type = choice.find("type");
  const std::string name = type != choice.end() && type->is_string() ? type->get<std::string>() : "";
  if (name == "any") return "required";
  if (name == "tool") return {{"type", "function"}, {"function", {{"name", choice.value("name", "")}}}};
  if (name != "auto" && name != "none")
    throw bad_field("tool_choice.type", "must be auto, any, none or tool");
  return name;
}

// The request as OpenAI's chat API would have it.
json as_chat(const Fields& body) {
  json chat = json::object(), messages = json::array();
  if (const json* system = body.any("system"))
    messages.push_back({{"role", "system"}, {"content", block_text(*system, "system")}});
  const json* given = body.array("messages");
  if (given == nullptr || given->empty())
    throw bad_field("messages", "must be a list of at least one message");
  for (std::size_t i = 0; i < given->size(); ++i)
    add_message(messages, (*given)[i], fmt::format("messages[{}]", i));
  chat["messages"] = std::move(messages);
  if (const json* tools = body.array("tools")) {
    for (const json& tool : *tools) {
      if (!tool.is_object() || !tool.contains("name"))
        throw bad_field("tools", "must be a list of named tools");
      chat["tools"].push_back({{"type", "function"},
                               {"function",
                                {{"name", tool["name"]},
                                 {"description", tool.value("description", "")},
                                 {"parameters", tool.value("input_schema", json::object())}}}});
    }
  }
  if (const json* choice = body.object("tool_choice")) {
    chat["tool_choice"] = as_chat_choice(*choice);
    if (choice->value("disable_parallel_tool_use", false)) chat["parallel_tool_calls"] = false;
  }
  return chat;
}

std::string_view stop_reason(infer::StopReason reason, bool calls) {
  using infer::StopReason;
  if (reason == StopReason::stop_string) return "stop_sequence";
  if (reason == StopReason::max_tokens || reason == StopReason::context_full) return "max_tokens";
  return calls ? "tool_use" : "end_turn";
}

// Blocks of text, thinking and tool use, each opened, filled and closed in turn.
class MessagesFormat : public AnswerFormat {
 public:
  MessagesFormat(std::string model, bool stream, std::int64_t prompt_tokens,
                 const MessageParserOptions& parser)
      : model_(std::move(model)),
        stream_(stream),
        short_ids_(parser.tools != nullptr && parser.tools->short_ids),
        prompt_tokens_(prompt_tokens),
        parser_(parser) {}

  std::string begin() override {
    Json message = head();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = {{"input_tokens", prompt_tokens_}, {"output_tokens", 0}};
    return named_event({{"type", "message_start"}, {"message", std::move(message)}});
  }
  std::string piece(std::size_t, const infer::TextPiece& piece) override {
    return take(parser_.push(piece.text));
  }
  std::string choice_end(std::size_t, infer::StopReason reason) override {
    std::string events = take(parser_.finish());
    events += close_block();
    reason_ = reason;
    return events;
  }
  std::string end(const Usage& usage) override {
    const std::string_view reason = stop_reason(reason_, calls_);
    const Json used = {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
                       {"cache_read_input_tokens", usage.cached_tokens},
                       {"output_tokens", usage.completion_tokens}};
    if (stream_) {
      return named_event({{"type", "message_delta"},
                          {"delta", {{"stop_reason", reason}, {"stop_sequence", nullptr}}},
                          {"usage", used}}) +
             named_event({{"type", "message_stop"}});
    }
    Json message = head();
    message["content"] = std::move(blocks_);
    message["stop_reason"] = reason;
    message["stop_sequence"] = nullptr;
    message["usage"] = used;
    return dump_json(message);
  }
  std::string error(const ApiError& error) override {
    return "event: error\ndata: " + messages_error(error) + "\n\n";
  }
  std::string refusal(const ApiError& error) override { return messages_error(error); }

 private:
  Json head() const { return {{"id", id_}, {"type", "message"}, {"role", "assistant"}, {"model", model_}}; }

  std::string take(const MessageDelta& delta) {
    std::string events = add("thinking", "thinking", delta.reasoning);
    events += add("text", "text", delta.content);
    for (const ToolCall& call : delta.calls) events += add_call(call);
    return events;
  }

  std::string add(const char* type, const char* key, const std::string& text) {
    if (text.empty()) return {};
    std::string events;
    if (open_ != type) {
      events = close_block();
      events += open_block({{"type", type}, {key, ""}});
      open_ = type;
    }
    blocks_.back()[key] = blocks_.back()[key].get<std::string>() + text;
    return events + delta_event({{"type", fmt::format("{}_delta", type)}, {key, text}});
  }

  std::string add_call(const ToolCall& call) {
    calls_ = true;
    Json block = {{"type", "tool_use"},
                  {"id", short_ids_ ? new_id("", 9) : new_id("toolu_")},
                  {"name", call.name},
                  {"input", Json::object()}};
    std::string events = close_block();
    events += open_block(std::move(block));
    open_ = "tool_use";
    blocks_.back()["input"] = parse_json_or_discard<Json>(call.arguments);
    events += delta_event({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
    return events += close_block();
  }

  std::string open_block(Json block) {
    const Json event = {{"type", "content_block_start"}, {"index", blocks_.size()}, {"content_block", block}};
    blocks_.push_back(std::move(block));
    return stream_ ? named_event(event) : std::string();
  }
  std::string delta_event(Json delta) const {
    if (!stream_) return {};
    return named_event(
        {{"type", "content_block_delta"}, {"index", blocks_.size() - 1}, {"delta", std::move(delta)}});
  }
  std::string close_block() {
    if (open_.empty()) return {};
    open_.clear();
    return stream_ ? named_event({{"type", "content_block_stop"}, {"index", blocks_.size() - 1}})
                   : std::string();
  }

  const std::string model_;
  const bool stream_, short_ids_;
  const std::int64_t prompt_tokens_;
  const std::string id_ = new_id("msg_");
  MessageParser parser_;
  Json blocks_ = Json::array();
  std::string open_;  // type of the block that is being filled; empty: none
  bool calls_ = false;
  infer::StopReason reason_{};
};

GenerationParams messages_params(const Fields& body, const ServedModel& model) {
  GenerationParams params = read_params(body, model.defaults());
  if (!params.max_tokens) throw bad_field("max_tokens", "is missing");
  if (const auto stop = body.strings("stop_sequences"))
    params.text.stop.insert(params.text.stop.end(), stop->begin(), stop->end());
  keep_to_one_choice(params);
  return params;
}

// Where the model thinks: for how many tokens.
void read_thinking(const Fields& body, const ChatInput& input, GenerationParams& params) {
  const json* thinking = body.object("thinking");
  if (thinking == nullptr || input.parser.thoughts.end.empty()) return;
  const Fields fields(*thinking, "thinking.");
  if (fields.string("type") != "enabled") return;
  fields.read("budget_tokens", params.text.thinking_budget);
  if (params.text.thinking_budget < -1)
    throw bad_field("thinking.budget_tokens",
                    fmt::format("must be 0 or more, got {}", params.text.thinking_budget));
}

void messages(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const AskedModel asked = asked_model(context, exchange->request(), body);
  const auto& [lease, name] = asked;
  const ServedModel& model = *lease;
  GenerationParams params = messages_params(body, model);
  choose_adapter(context, exchange->request(), body, asked, params);
  const json chat = as_chat(body);
  ChatInput input = read_chat(Fields(chat), model);
  read_thinking(body, input, params);
  input.apply_to(params);
  auto format = std::make_unique<MessagesFormat>(name, params.stream, std::ssize(input.tokens), input.parser);
  answer(context, exchange, lease, {std::move(input.tokens)}, params, std::move(format));
}

void count_tokens(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const json chat = as_chat(body);
  const ChatInput input = read_chat(Fields(chat), *asked_model(context, exchange->request(), body).model);
  exchange->send({.body = dump_json(Json{{"input_tokens", input.tokens.size()}})});
}

}  // namespace

std::vector<Route> messages_routes() {
  return {{.method = "POST", .path = "/v1/messages", .handler = messages, .error_body = messages_error},
          {.method = "POST",
           .path = "/v1/messages/count_tokens",
           .handler = count_tokens,
           .error_body = messages_error}};
}

}  // namespace ingot::serve
