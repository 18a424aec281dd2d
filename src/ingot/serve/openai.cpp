#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/api.h"
#include "ingot/serve/chat_format.h"
#include "ingot/serve/chat_input.h"
#include "ingot/serve/fields.h"
#include "ingot/serve/fill_in_middle.h"
#include "ingot/serve/lora_choice.h"

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
          .prompt_logprobs = params.prompt_logprobs >= 0,
          .top_logprobs = params.logprobs,
          .top_prompt_logprobs = params.prompt_logprobs,
          .choices = prompts * static_cast<std::size_t>(params.n)};
}

void chat_completions(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const AskedModel asked = asked_model(context, exchange->request(), body);
  const auto& [lease, name] = asked;
  const ServedModel& model = *lease;
  GenerationParams params = read_params(body, model.defaults());
  choose_adapter(context, exchange->request(), body, asked, params);
  ChatInput input = read_chat(body, model);
  input.apply_to(params);
  if (!params.max_tokens) params.max_tokens = model.room_behind(input.tokens);
  auto format = chat_format(model.tokenizer(), answer_options(name, params, 1), input.parser);
  answer(context, exchange, lease, {std::move(input.tokens)}, params, std::move(format));
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
  const AskedModel asked = asked_model(context, exchange->request(), body);
  const auto& [lease, name] = asked;
  const ServedModel& model = *lease;
  GenerationParams params = read_params(body, model.defaults());
  choose_adapter(context, exchange->request(), body, asked, params);
  if (params.text.thinking_budget >= 0)
    throw bad_field("thinking_token_budget", "is of chats, whose template tells the markers of reasoning");
  if (!params.max_tokens) params.max_tokens = kDefaultCompletionTokens;
  std::vector<Ids> prompts = read_prompts(body, model);
  const AnswerOptions options = answer_options(name, params, prompts.size());
  std::vector<std::string> echoes;
  if (body.boolean("echo").value_or(false)) {
    if (body.has("suffix")) throw bad_field("echo", "and 'suffix' do not go together");
    if (params.logprobs >= 0 && params.stream)
      throw bad_field("echo", "with logprobs comes with answers at once alone, not with 'stream': true");
    if (params.logprobs >= 0) params.prompt_logprobs = std::max(params.prompt_logprobs, params.logprobs);
    for (const Ids& prompt : prompts)
      echoes.insert(echoes.end(), static_cast<std::size_t>(params.n), model.tokenizer().decode(prompt));
  }
  if (const auto suffix = body.string("suffix")) {
    const FillTokens tokens = fill_tokens(model.tokenizer());
    for (Ids& prompt : prompts) prompt = tokens.around(prompt, *suffix);
    params.stop_tokens.insert(params.stop_tokens.end(), tokens.stop.begin(), tokens.stop.end());
  }
  auto format = completion_format(model.tokenizer(), options, std::move(echoes));
  answer(context, exchange, lease, std::move(prompts), params, std::move(format));
}

// Of each name of the models and their adapters that the request may ask for.
Json model_list(const ApiContext& context, const HttpRequest& request) {
  Json list = Json::array();
  for (const ModelPool::Listed& model : context.models.list()) {
    for (const auto* names : {&model.names, &model.adapters}) {
      for (const std::string& name : *names) {
        if (!context.access.allows_model(request, name)) continue;
        Json json = {{"id", name},
                     {"object", "model"},
                     {"created", context.models.created()},
                     {"owned_by", "ingot"},
                     {"root", model.names.front()}};
        if (model.context > 0) json["max_model_len"] = model.context;
        if (names == &model.adapters) json["parent"] = model.names.front();
        json["status"] = {{"value", model.context > 0 ? "loaded" : "unloaded"}};  // as llama-server has it
        list.push_back(std::move(json));
      }
    }
  }
  const auto add = [&](const std::string& name, std::int64_t length) {
    if (!context.access.allows_model(request, name)) return;
    list.push_back({{"id", name},
                    {"object", "model"},
                    {"created", context.models.created()},
                    {"owned_by", "ingot"},
                    {"max_model_len", length}});
  };
  if (context.embedding != nullptr)
    add(context.embedding->name(), context.embedding->embedder().max_length());
  if (context.classifier != nullptr)
    add(context.classifier->name(), context.classifier->classifier().max_length());
  return list;
}

void list_models(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  exchange->send(
      {.body = dump_json(Json{{"object", "list"}, {"data", model_list(context, exchange->request())}})});
}

void show_model(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const std::string name = exchange->request().path.substr(std::string_view("/v1/models/").size());
  for (const Json& model : model_list(context, exchange->request()))
    if (model["id"] == name) return exchange->send({.body = dump_json(model)});
  context.models.check(name);
  context.access.check_model(exchange->request(), name);
}

// vLLM's fields, and llama-server's.
void tokenize(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const ModelLease lease = asked_model(context, exchange->request(), body).model;
  const ServedModel& model = *lease;
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
  const Fields body(parsed);
  const auto ids = body.ids("tokens");
  if (!ids) throw bad_field("tokens", "is missing");
  const std::string text =
      asked_model(context, exchange->request(), body).model->tokenizer().decode(*ids, false);
  exchange->send({.body = dump_json(Json{{"prompt", text}, {"content", text}})});
}

void apply_template(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const ChatInput input = read_chat(body, *asked_model(context, exchange->request(), body).model);
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
