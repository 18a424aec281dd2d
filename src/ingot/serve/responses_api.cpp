// OpenAI's POST /v1/responses. Nothing is stored: a client sends the conversation each time.
#include <ctime>

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

// The text of a string or of a list of parts.
std::string part_text(const json& content, const std::string& field) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw bad_field(field, "must be a string or a list of parts");
  std::string text;
  for (const json& part : content) {
    const std::string type = part.is_object() ? part.value("type", "") : "";
    const bool is_text = type == "input_text" || type == "output_text" || type == "text";
    if (!is_text || !part.contains("text") || !part["text"].is_string())
      throw bad_field(field, fmt::format("has a part of type '{}'; this server takes text there", type));
    text += part["text"].get<std::string>();
  }
  return text;
}

// Calls of one turn are one message of the assistant.
void add_call_item(json& messages, const json& item) {
  const bool continues = !messages.empty() && messages.back()["role"] == "assistant";
  if (!continues) messages.push_back({{"role", "assistant"}, {"content", ""}});
  messages.back()["tool_calls"].push_back(
      {{"id", item.value("call_id", "")},
       {"type", "function"},
       {"function", {{"name", item.value("name", "")}, {"arguments", item.value("arguments", "{}")}}}});
}

void add_item(json& messages, const json& item, const std::string& field) {
  if (!item.is_object()) throw bad_field(field, "must be an object");
  const std::string type = item.value("type", "message");
  if (type == "function_call") return add_call_item(messages, item);
  if (type == "reasoning") return;  // templates leave the reasoning of earlier turns out
  if (type == "function_call_output") {
    const json output = item.contains("output") ? item["output"] : json("");
    messages.push_back({{"role", "tool"},
                        {"tool_call_id", item.value("call_id", "")},
                        {"content", part_text(output, field + ".output")}});
    return;
  }
  if (type != "message") throw bad_field(field, fmt::format("of type '{}' is not supported", type));
  if (!item.contains("role") || !item["role"].is_string() || !item.contains("content"))
    throw bad_field(field, "must have a role and content");
  messages.push_back({{"role", item["role"]}, {"content", part_text(item["content"], field + ".content")}});
}

json read_input(const Fields& body) {
  json messages = json::array();
  if (const auto instructions = body.string("instructions"))
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  const json* input = body.any("input");
  if (input == nullptr) throw bad_field("input", "is missing");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
  } else {
    const json& items = *body.array("input");
    for (std::size_t i = 0; i < items.size(); ++i) add_item(messages, items[i], fmt::format("input[{}]", i));
  }
  return messages;
}

// The request as OpenAI's chat API would have it.
json as_chat_request(const Fields& body) {
  for (const char* name : {"previous_response_id", "conversation", "prompt", "background"}) {
    const json* value = body.any(name);
    if (value != nullptr && *value != false)
      throw bad_field(name, "is not supported: this server stores nothing, send the conversation as 'input'");
  }
  json chat = {{"messages", read_input(body)}};
  const json* tools = body.array("tools");
  for (const json& tool : tools != nullptr ? *tools : json::array()) {
    if (!tool.is_object() || tool.value("type", "") != "function")
      throw bad_field("tools", "must be functions; this server runs no tools of its own");
    json function = tool;
    function.erase("type");
    chat["tools"].push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  if (const json* choice = body.any("tool_choice")) {
    chat["tool_choice"] =
        choice->is_object() ? json{{"type", "function"}, {"function", {{"name", choice->value("name", "")}}}}
                            : *choice;
  }
  for (const char* name : {"parallel_tool_calls", "chat_template_kwargs"})
    if (const json* value = body.any(name)) chat[name] = *value;
  return chat;
}

// Names differ from those of the chat API.
GenerationParams responses_params(const Fields& body, const json& parsed, const ServedModel& model) {
  json renamed = parsed;
  if (const auto most = body.integer("max_output_tokens")) renamed["max_tokens"] = *most;
  if (const json* text = body.object("text"); text != nullptr && text->contains("format")) {
    json format = (*text)["format"];
    if (format.is_object() && format.value("type", "") == "json_schema")
      format = {{"type", "json_schema"}, {"json_schema", format}};
    renamed["response_format"] = std::move(format);
  }
  for (const char* name : {"top_logprobs", "stream_options"}) renamed.erase(name);
  GenerationParams params = read_params(Fields(renamed), model.defaults());
  keep_to_one_choice(params);
  return params;
}

// Items of reasoning, text and calls, each opened, filled and closed in turn.
class ResponsesFormat : public AnswerFormat {
 public:
  ResponsesFormat(Json head, bool stream, const MessageParserOptions& parser)
      : head_(std::move(head)),
        stream_(stream),
        short_ids_(parser.tools != nullptr && parser.tools->short_ids),
        parser_(parser) {}

  std::string begin() override {
    std::string events = event_of("response.created", {{"response", response("in_progress")}});
    return events += event_of("response.in_progress", {{"response", response("in_progress")}});
  }
  std::string piece(std::size_t, const infer::TextPiece& piece) override {
    const MessageDelta delta = parser_.push(piece.text);
    if (!delta.reasoning.empty() && delta.content.empty())
      reasoning_tokens_ += static_cast<std::int64_t>(piece.tokens.size());
    return take(delta);
  }
  std::string choice_end(std::size_t, infer::StopReason reason) override {
    cut_off_ = finish_reason(reason) == "length";
    std::string events = take(parser_.finish());
    return events += close_item();
  }
  std::string end(const Usage& usage) override {
    Json done = response(cut_off_ ? "incomplete" : "completed");
    if (cut_off_) done["incomplete_details"] = {{"reason", "max_output_tokens"}};
    done["usage"] = {{"input_tokens", usage.prompt_tokens},
                     {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                     {"output_tokens", usage.completion_tokens},
                     {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens_}}},
                     {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
    if (!stream_) return dump_json(done);
    return event_of(cut_off_ ? "response.incomplete" : "response.completed", {{"response", std::move(done)}});
  }
  std::string error(const ApiError& error) override {
    return event_of("error", {{"code", error.code}, {"message", error.what()}, {"param", nullptr}});
  }

 private:
  // Each event has its type and number in it.
  std::string event_of(std::string_view type, Json fields) {
    if (!stream_) return {};
    Json json = {{"type", type}, {"sequence_number", sequence_++}};
    json.update(fields);
    return fmt::format("event: {}\ndata: {}\n\n", type, dump_json(json));
  }
  Json response(std::string_view status) const {
    Json json = head_;
    json["status"] = status;
    json["output"] = items_;
    return json;
  }

  std::string take(const MessageDelta& delta) {
    std::string events = add(kReasoning, delta.reasoning);
    events += add(kText, delta.content);
    for (const ToolCall& call : delta.calls) events += add_call(call);
    return events;
  }

  // What an item of text or reasoning consists of.
  struct Kind {
    const char *item, *part, *event, *id;
  };
  static constexpr Kind kText{"message", "output_text", "response.output_text", "msg_"};
  static constexpr Kind kReasoning{"reasoning", "reasoning_text", "response.reasoning_text", "rs_"};

  static Json part(const Kind& kind, const std::string& text) {
    Json json = {{"type", kind.part}, {"text", text}};
    if (&kind == &kText) json.update({{"annotations", Json::array()}, {"logprobs", Json::array()}});
    return json;
  }
  // Where an event belongs.
  Json place(Json more, bool in_content) const {
    Json json = {{"item_id", items_.back()["id"]}, {"output_index", items_.size() - 1}};
    if (in_content) json["content_index"] = 0;
    json.update(more);
    return json;
  }

  std::string add(const Kind& kind, const std::string& text) {
    if (text.empty()) return {};
    std::string events;
    if (open_ != &kind) {
      events = close_item();
      Json item = {{"id", new_id(kind.id)}, {"type", kind.item}, {"status", "in_progress"}};
      if (&kind == &kText) item["role"] = "assistant";
      if (&kind == &kReasoning) item["summary"] = Json::array();
      item["content"] = Json::array();
      items_.push_back(item);
      open_ = &kind;
      events += event_of("response.output_item.added", {{"output_index", items_.size() - 1}, {"item", item}});
      events += event_of("response.content_part.added", place({{"part", part(kind, "")}}, true));
    }
    text_ += text;
    Json delta = {{"delta", text}};
    if (&kind == &kText) delta["logprobs"] = Json::array();
    return events += event_of(std::string(kind.event) + ".delta", place(std::move(delta), true));
  }

  std::string close_item() {
    if (open_ == nullptr) return {};
    const Kind& kind = *std::exchange(open_, nullptr);
    const std::string text = std::exchange(text_, {});
    Json done = {{"text", text}};
    if (&kind == &kText) done["logprobs"] = Json::array();
    std::string events = event_of(std::string(kind.event) + ".done", place(std::move(done), true));
    events += event_of("response.content_part.done", place({{"part", part(kind, text)}}, true));
    items_.back()["content"].push_back(part(kind, text));
    return events += finish_item();
  }
  std::string finish_item() {
    items_.back()["status"] = "completed";
    return event_of("response.output_item.done",
                    {{"output_index", items_.size() - 1}, {"item", items_.back()}});
  }

  std::string add_call(const ToolCall& call) {
    std::string events = close_item();
    items_.push_back({{"id", new_id("fc_")},
                      {"type", "function_call"},
                      {"status", "in_progress"},
                      {"call_id", short_ids_ ? new_id("", 9) : new_id("call_")},
                      {"name", call.name},
                      {"arguments", ""}});
    events += event_of("response.output_item.added",
                       {{"output_index", items_.size() - 1}, {"item", items_.back()}});
    items_.back()["arguments"] = call.arguments;
    const char* name = "response.function_call_arguments";
    events += event_of(fmt::format("{}.delta", name), place({{"delta", call.arguments}}, false));
    events += event_of(fmt::format("{}.done", name),
                       place({{"name", call.name}, {"arguments", call.arguments}}, false));
    return events += finish_item();
  }

  const Json head_;
  const bool stream_, short_ids_;
  MessageParser parser_;
  Json items_ = Json::array();
  const Kind* open_ = nullptr;  // of the last item, while it is filled
  std::string text_;            // of it
  std::int64_t reasoning_tokens_ = 0, sequence_ = 0;
  bool cut_off_ = false;
};

// What a response repeats of its request.
Json response_head(const std::string& model, const Fields& body, const GenerationParams& params) {
  const auto given = [&](const char* name, Json otherwise) {
    const json* value = body.any(name);
    return value != nullptr ? Json(*value) : otherwise;
  };
  return {{"id", new_id("resp_")},
          {"object", "response"},
          {"created_at", std::time(nullptr)},
          {"status", "in_progress"},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", given("instructions", nullptr)},
          {"max_output_tokens", given("max_output_tokens", nullptr)},
          {"model", model},
          {"output", Json::array()},
          {"parallel_tool_calls", given("parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"store", false},
          {"temperature", params.text.sampling.temperature},
          {"text", given("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", given("tool_choice", "auto")},
          {"tools", given("tools", Json::array())},
          {"top_p", params.text.sampling.top_p},
          {"truncation", "disabled"},
          {"usage", nullptr},
          {"metadata", given("metadata", Json::object())}};
}

void responses(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const AskedModel asked = asked_model(context, exchange->request(), body);
  const auto& [lease, name] = asked;
  const ServedModel& model = *lease;
  const json chat = as_chat_request(body);
  ChatInput input = read_chat(Fields(chat), model);
  GenerationParams params = responses_params(body, parsed, model);
  choose_adapter(context, exchange->request(), body, asked, params);
  input.apply_to(params);
  if (!params.max_tokens) params.max_tokens = model.room_behind(input.tokens);
  auto format =
      std::make_unique<ResponsesFormat>(response_head(name, body, params), params.stream, input.parser);
  answer(context, exchange, lease, {std::move(input.tokens)}, params, std::move(format));
}

}  // namespace

std::vector<Route> responses_routes() { return {{"POST", "/v1/responses", responses}}; }

}  // namespace ingot::serve
