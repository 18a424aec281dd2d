#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/api.h"
#include "ingot/serve/chat_format.h"
#include "ingot/serve/chat_input.h"
#include "ingot/serve/fields.h"

namespace ingot::serve {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kDefaultCompletionTokens = 16;  // OpenAI's
constexpr std::size_t kMostPrompts = 256;

AnswerOptions answer_options(const std::string& model, const GenerationParams& params, std::size_t prompts) {
  return {.model = model,
          .stream = params.stream,
          .usage_in_stream = params.usage_in_stream,
          .logprobs = params.logprobs >= 0,
          .choices = prompts * static_cast<std::size_t>(params.n)};
}

// Up to the end of the context, where the client does not say.
std::int64_t room_behind(const ServedModel& model, const Ids& prompt) {
  return std::max<std::int64_t>(1, model.context() - std::ssize(prompt));
}

void chat_completions(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  ServedModel& model = context.model;
  const std::string name = check_model(body, model);
  GenerationParams params = read_params(body, model.defaults());
  params.adapter = model.adapter(name);
  ChatInput input = read_chat(body, model);
  input.apply_to(params);
  if (!params.max_tokens) params.max_tokens = room_behind(model, input.tokens);
  auto format = chat_format(model.tokenizer(), answer_options(name, params, 1), input.parser);
  answer(exchange, model, context.metrics, {std::move(input.tokens)}, params, std::move(format));
}

// A string, a list of strings, of ids, or of lists of ids.
std::vector<Ids> read_prompts(const Fields& body, const ServedModel& model) {
  const json* prompt = body.any("prompt");
  if (prompt == nullptr) throw bad_field("prompt", "is missing");
  const bool ids = prompt->is_array() && !prompt->empty() && prompt->front().is_number();
  std::vector<Ids> prompts;
  if (ids) {
    prompts.push_back(*body.ids("prompt"));
  } else if (prompt->is_array() && !prompt->empty() && prompt->front().is_array()) {
    for (const json& each : *prompt) {
      const json one = {{"prompt", each}};
      prompts.push_back(*Fields(one).ids("prompt"));
    }
  } else {
    const auto texts = body.strings("prompt").value_or(std::vector<std::string>());
    for (const std::string& text : texts) prompts.push_back(model.session().encode(text));
  }
  if (prompts.empty() || prompts.size() > kMostPrompts)
    throw bad_field("prompt", fmt::format("must hold 1 to {} prompts, got {}", kMostPrompts, prompts.size()));
  return prompts;
}

void completions(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  ServedModel& model = context.model;
  const std::string name = check_model(body, model);
  GenerationParams params = read_params(body, model.defaults());
  params.adapter = model.adapter(name);
  if (!params.max_tokens) params.max_tokens = kDefaultCompletionTokens;
  const std::vector<Ids> prompts = read_prompts(body, model);
  std::vector<std::string> echoes;
  if (body.boolean("echo").value_or(false)) {
    if (params.logprobs >= 0) throw bad_field("echo", "with logprobs is not supported by this server");
    for (const Ids& prompt : prompts)
      echoes.insert(echoes.end(), static_cast<std::size_t>(params.n), model.tokenizer().decode(prompt));
  }
  auto format =
      completion_format(model.tokenizer(), answer_options(name, params, prompts.size()), std::move(echoes));
  answer(exchange, model, context.metrics, prompts, params, std::move(format));
}

Json model_json(const ServedModel& model, const std::string& name) {
  Json json = {{"id", name},          {"object", "model"},    {"created", model.created()},
               {"owned_by", "ingot"}, {"root", model.name()}, {"max_model_len", model.context()}};
  if (!model.adapter(name).empty()) json["parent"] = model.name();
  return json;
}

void list_models(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  for (const auto* names : {&context.model.names(), &context.model.adapters()})
    for (const std::string& name : *names) list.push_back(model_json(context.model, name));
  if (context.embedding != nullptr) {
    list.push_back({{"id", context.embedding->name()},
                    {"object", "model"},
                    {"created", context.model.created()},
                    {"owned_by", "ingot"},
                    {"max_model_len", context.embedding->embedder().max_length()}});
  }
  exchange->send({.body = dump_json(Json{{"object", "list"}, {"data", std::move(list)}})});
}

void show_model(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const json asked = {{"model", exchange->request().path.substr(std::string_view("/v1/models/").size())}};
  const std::string name = check_model(Fields(asked), context.model);
  exchange->send({.body = dump_json(model_json(context.model, name))});
}

// vLLM's fields, and llama-server's.
void tokenize(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  ServedModel& model = context.model;
  Ids ids;
  if (body.has("messages")) {
    ids = read_chat(body, model).tokens;
  } else {
    auto text = body.string("prompt");
    if (!text) text = body.string("content");
    if (!text) throw bad_field("prompt", "is missing: text to tokenize, or 'messages'");
    const bool add = body.boolean("add_special_tokens").value_or(body.boolean("add_special").value_or(true));
    ids = model.tokenizer().encode(*text, {.add_special_tokens = add});
  }
  Json answer = {{"count", ids.size()}, {"max_model_len", model.context()}, {"tokens", ids}};
  if (body.boolean("return_token_strs").value_or(false)) {
    for (const std::int32_t id : ids) answer["token_strs"].push_back(model.tokenizer().id_to_token(id));
  }
  exchange->send({.body = dump_json(answer)});
}

void detokenize(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const json parsed = parse_body(exchange->request().body);
  const auto ids = Fields(parsed).ids("tokens");
  if (!ids) throw bad_field("tokens", "is missing");
  const std::string text = context.model.tokenizer().decode(*ids, false);
  exchange->send({.body = dump_json(Json{{"prompt", text}, {"content", text}})});
}

void apply_template(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const json parsed = parse_body(exchange->request().body);
  const ChatInput input = read_chat(Fields(parsed), context.model);
  exchange->send({.body = dump_json(Json{{"prompt", input.prompt}})});
}

}  // namespace

std::vector<Route> openai_routes() {
  return {{"POST", "/v1/chat/completions", chat_completions},
          {"POST", "/v1/completions", completions},
          {"GET", "/v1/models", list_models},
          {"GET", "/v1/models/", show_model},
          {"POST", "/tokenize", tokenize},
          {"POST", "/detokenize", detokenize},
          {"POST", "/apply-template", apply_template}};
}

}  // namespace ingot::serve
