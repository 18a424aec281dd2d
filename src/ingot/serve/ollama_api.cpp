// Ollama's API: POST /api/chat, /api/generate, /api/show; GET /api/tags, /api/version. Streams are lines of
// JSON, and are what a client gets that does not say.
#include <chrono>
#include <ctime>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/api.h"
#include "ingot/serve/chat_input.h"
#include "ingot/serve/fields.h"
#include "ingot/serve/lora_choice.h"
#include "ingot/serve/message_parser.h"
#include "ingot/serve/structured_output.h"

namespace ingot::serve {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

std::string timestamp(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

AskedModel ollama_model(const ApiContext& context, const HttpRequest& request, const Fields& body) {
  const std::string name =
      body.string("model").value_or(body.string("name").value_or(context.models.default_name()));
  return asked_model(context, request, without_latest(name));
}

// Options stand in an object of their own, under llama.cpp's names.
GenerationParams ollama_params(const Fields& body, const ServedModel& model) {
  const json* options = body.object("options");
  const json settings = options != nullptr ? *options : json::object();
  const Fields fields(settings, "options.");
  GenerationParams params = read_params(fields, model.defaults());
  if (const json* format = body.any("format")) params.text.constraint = read_format(*format);
  const std::int64_t most = fields.integer("num_predict").value_or(-1);
  if (most > 0) params.max_tokens = most;
  params.stream = body.boolean("stream").value_or(true);
  keep_to_one_choice(params);
  params.logprobs = -1;
  return params;
}

class OllamaFormat : public AnswerFormat {
 public:
  OllamaFormat(std::string model, bool chat, bool stream, const MessageParserOptions& parser)
      : model_(std::move(model)), chat_(chat), stream_(stream), parser_(parser) {}

  std::string_view stream_type() const override { return "application/x-ndjson"; }
  std::string piece(std::size_t, const infer::TextPiece& piece) override {
    return take(parser_.push(piece.text));
  }
  std::string choice_end(std::size_t, infer::StopReason reason) override {
    reason_ = reason;
    return take(parser_.finish());
  }
  std::string end(const Usage& usage) override {
    Json json = line(stream_ ? MessageDelta{} : whole_);
    json["done"] = true;
    json["done_reason"] = finish_reason(reason_);
    const auto total = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
    const auto prompt = std::chrono::duration_cast<std::chrono::nanoseconds>(first_ - start_).count();
    json["total_duration"] = total;
    json["load_duration"] = 0;
    json["prompt_eval_count"] = usage.prompt_tokens;
    json["prompt_eval_duration"] = prompt;
    json["eval_count"] = usage.completion_tokens;
    json["eval_duration"] = total - prompt;
    return dump_json(json) + (stream_ ? "\n" : "");
  }
  std::string error(const ApiError& error) override { return refusal(error) + "\n"; }
  std::string refusal(const ApiError& error) override { return ollama_error_json(error); }

 private:
  Json line(const MessageDelta& delta) const {
    Json json = {{"model", model_}, {"created_at", timestamp(std::time(nullptr))}};
    if (!chat_) {
      json["response"] = delta.content;
      if (!delta.reasoning.empty()) json["thinking"] = delta.reasoning;
    } else {
      json["message"] = {{"role", "assistant"}, {"content", delta.content}};
      if (!delta.reasoning.empty()) json["message"]["thinking"] = delta.reasoning;
      for (const ToolCall& call : delta.calls) {
        json["message"]["tool_calls"].push_back(
            {{"function",
              {{"name", call.name}, {"arguments", parse_json_or_discard<Json>(call.arguments)}}}});
      }
    }
    json["done"] = false;
    return json;
  }

  std::string take(MessageDelta delta) {
    if (first_ == start_) first_ = Clock::now();
    if (delta.empty()) return {};
    if (stream_) return dump_json(line(delta)) + "\n";
    whole_.content += delta.content;
    whole_.reasoning += delta.reasoning;
    whole_.calls.insert(whole_.calls.end(), delta.calls.begin(), delta.calls.end());
    return {};
  }

  const std::string model_;
  const bool chat_, stream_;
  MessageParser parser_;
  MessageDelta whole_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point first_ = start_;
  infer::StopReason reason_{};
};

void write_answer(ApiContext& context, const std::shared_ptr<Exchange>& exchange, const Fields& body,
                  bool chat, const AskedModel& asked, ChatInput input) {
  const auto& [lease, name] = asked;
  const ServedModel& model = *lease;
  GenerationParams params = ollama_params(body, model);
  choose_adapter(context, exchange->request(), body, asked, params);
  input.apply_to(params);
  if (!params.max_tokens) params.max_tokens = model.room_behind(input.tokens);
  auto format = std::make_unique<OllamaFormat>(name, chat, params.stream, input.parser);
  answer(context, exchange, lease, {std::move(input.tokens)}, params, std::move(format));
}

void chat(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const AskedModel asked = ollama_model(context, exchange->request(), body);
  write_answer(context, exchange, body, true, asked, read_chat(body, *asked.model));
}

// A prompt goes through the chat template as a user's message, unless it is raw.
void generate(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  for (const char* name : {"suffix", "images", "template", "context"}) {
    if (body.has(name)) throw bad_field(name, "is not supported by this server");
  }
  const std::string prompt = body.string("prompt").value_or("");
  const AskedModel asked = ollama_model(context, exchange->request(), body);
  ChatInput input;
  if (body.boolean("raw").value_or(false)) {
    input.tokens = asked.model->session().encode(prompt);
  } else {
    json conversation = {{"messages", json::array()}};
    if (const auto system = body.string("system"))
      conversation["messages"].push_back({{"role", "system"}, {"content", *system}});
    conversation["messages"].push_back({{"role", "user"}, {"content", prompt}});
    input = read_chat(Fields(conversation), *asked.model);
  }
  write_answer(context, exchange, body, false, asked, std::move(input));
}

Json details() {
  return {{"format", "ingot"},    {"family", ""},       {"families", Json::array()},
          {"parameter_size", ""}, {"parent_model", ""}, {"quantization_level", ""}};
}

void tags(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  Json models = Json::array();
  for (const ModelPool::Listed& model : context.models.list()) {
    for (const std::string& name : model.names) {
      if (!context.access.allows_model(exchange->request(), name)) continue;
      models.push_back({{"name", name},
                        {"model", name},
                        {"modified_at", timestamp(context.models.created())},
                        {"size", 0},
                        {"digest", ""},
                        {"details", details()}});
    }
  }
  exchange->send({.body = dump_json(Json{{"models", std::move(models)}})});
}

void show(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const json parsed = parse_body(exchange->request().body);
  const ModelLease model = ollama_model(context, exchange->request(), Fields(parsed)).model;
  const std::string& source = model->tokenizer().config().chat_template;
  exchange->send({.body = dump_json(Json{{"modelfile", ""},
                                         {"parameters", ""},
                                         {"template", source},
                                         {"details", details()},
                                         {"model_info", {{"general.context_length", model->context()}}},
                                         {"capabilities", {"completion"}}})});
}

// Clients ask for the version before they use what came with it.
void version(ApiContext&, const std::shared_ptr<Exchange>& exchange) {
  exchange->send({.body = R"({"version":"0.6.0"})"});
}

}  // namespace

std::string ollama_error_json(const ApiError& error) { return dump_json(Json{{"error", error.what()}}); }

std::string without_latest(std::string name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  return name;
}

std::vector<Route> ollama_routes() {
  const auto route = [](const char* method, const char* path, RouteHandler handler) {
    return Route{.method = method, .path = path, .handler = handler, .error_body = ollama_error_json};
  };
  return {route("POST", "/api/chat", chat), route("POST", "/api/generate", generate),
          route("POST", "/api/show", show), route("GET", "/api/tags", tags),
          route("GET", "/api/version", version)};
}

}  // namespace ingot::serve
