#include "ingot/serve/chat_format.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/token_text.h"

namespace ingot::serve {
namespace {

using Json = nlohmann::ordered_json;

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::string stream_error(const ApiError& error) { return event(error_json(error)) + event("[DONE]"); }

// What the answers of both of OpenAI's APIs begin with.
Json answer_head(const std::string& id, std::string_view object, std::int64_t created,
                 const std::string& model) {
  return {{"id", id}, {"object", object}, {"created", created}, {"model", model}};
}

class ChatFormat : public AnswerFormat {
 public:
  ChatFormat(const text::Tokenizer& tokenizer, const AnswerOptions& options,
             const MessageParserOptions& parser)
      : tokenizer_(tokenizer),
        options_(options),
        short_ids_(parser.tools != nullptr && parser.tools->short_ids) {
    for (std::size_t i = 0; i < options.choices; ++i) choices_.emplace_back(parser);
  }

  std::string begin() override {
    std::string events;
    for (std::size_t i = 0; i < choices_.size(); ++i)
      events += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
    return events;
  }

  std::string piece(std::size_t i, const infer::TextPiece& piece) override {
    Choice& choice = choices_[i];
    for (std::size_t k = 0; k < piece.logprobs.size(); ++k)
      choice.logprobs.push_back(chat_logprob(tokenizer_, piece.tokens[k], piece.logprobs[k]));
    return take(i, choice.parser.push(piece.text));
  }

  std::string choice_end(std::size_t i, infer::StopReason reason) override {
    Choice& choice = choices_[i];
    std::string events = take(i, choice.parser.finish());
    choice.reason = finish_reason(reason);
    if (!choice.calls.empty() && choice.reason == "stop") choice.reason = "tool_calls";
    if (options_.stream) events += chunk(i, Json::object(), choice.reason, take_logprobs(choice));
    return events;
  }

  std::string end(const Usage& usage) override {
    if (options_.stream) {
      std::string events;
      if (options_.usage_in_stream) {
        Json json = head("chat.completion.chunk");
        json["choices"] = Json::array();
        json["usage"] = usage_json(usage);
        events = event(dump_json(json));
      }
      return events + event("[DONE]");
    }
    Json json = head("chat.completion"), choices = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) choices.push_back(whole(i));
    json["choices"] = std::move(choices);
    json["usage"] = usage_json(usage);
    if (options_.prompt_logprobs) json["prompt_logprobs"] = prompt_logprobs_;
    return dump_json(json);
  }

  void prompt(std::size_t, std::span<const std::int32_t> ids,
              std::span<const infer::PromptLogprob> logprobs) override {
    prompt_logprobs_ = prompt_logprobs(tokenizer_, ids, logprobs, options_.top_prompt_logprobs);
  }

  std::string error(const ApiError& error) override { return stream_error(error); }

 private:
  struct Choice {
    explicit Choice(const MessageParserOptions& options) : parser(options) {}
    MessageParser parser;
    std::string content{}, reasoning{};
    std::string_view reason{};
    Json logprobs = Json::array();  // that are not sent yet
    Json calls = Json::array();
  };

  Json head(std::string_view object) const { return answer_head(id_, object, created_, options_.model); }

  Json take_logprobs(Choice& choice) const {
    if (!options_.logprobs || (options_.stream && choice.logprobs.empty())) return nullptr;
    return {{"content", std::exchange(choice.logprobs, Json::array())}};
  }

  std::string chunk(std::size_t i, Json delta, const Json& reason, Json logprobs) const {
    Json json = head("chat.completion.chunk");
    json["choices"] = Json::array({{{"index", i},
                                    {"delta", std::move(delta)},
                                    {"logprobs", std::move(logprobs)},
                                    {"finish_reason", reason}}});
    if (options_.usage_in_stream) json["usage"] = nullptr;
    return event(dump_json(json));
  }

  std::string take(std::size_t i, MessageDelta delta) {
    Choice& choice = choices_[i];
    if (delta.empty()) return {};
    Json json = Json::object(), calls = Json::array();
    if (!delta.reasoning.empty()) json["reasoning_content"] = delta.reasoning;
    if (!delta.content.empty()) json["content"] = delta.content;
    for (ToolCall& call : delta.calls) {
      Json entry = {{"id", short_ids_ ? new_id("", 9) : new_id("call_")},
                    {"type", "function"},
                    {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
      choice.calls.push_back(entry);
      entry["index"] = choice.calls.size() - 1;
      calls.push_back(std::move(entry));
    }
    if (!calls.empty()) json["tool_calls"] = std::move(calls);
    choice.content += delta.content;
    choice.reasoning += delta.reasoning;
    return options_.stream ? chunk(i, std::move(json), nullptr, take_logprobs(choice)) : std::string();
  }

  Json whole(std::size_t i) {
    Choice& choice = choices_[i];
    Json message = {{"role", "assistant"}, {"content", choice.content}};
    if (choice.content.empty() && !choice.calls.empty()) message["content"] = nullptr;
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    if (!choice.calls.empty()) message["tool_calls"] = choice.calls;
    return {{"index", i},
            {"message", std::move(message)},
            {"logprobs", take_logprobs(choice)},
            {"finish_reason", choice.reason}};
  }

  const text::Tokenizer& tokenizer_;
  const AnswerOptions options_;
  const bool short_ids_;
  Json prompt_logprobs_;
  const std::string id_ = new_id("chatcmpl-");
  const std::int64_t created_ = std::time(nullptr);
  std::vector<Choice> choices_;
};

class CompletionFormat : public AnswerFormat {
 public:
  CompletionFormat(const text::Tokenizer& tokenizer, const AnswerOptions& options,
                   std::vector<std::string> echoes)
      : tokenizer_(tokenizer), options_(options), choices_(options.choices), echoes_(std::move(echoes)) {
    for (std::size_t i = 0; i < echoes_.size(); ++i) choices_[i].text = choices_[i].offset = echoes_[i];
  }

  std::string begin() override {
    std::string events;
    for (std::size_t i = 0; i < echoes_.size(); ++i) events += chunk(i, echoes_[i], nullptr);
    return events;
  }

  std::string piece(std::size_t i, const infer::TextPiece& piece) override {
    Choice& choice = choices_[i];
    for (std::size_t k = 0; k < piece.logprobs.size(); ++k)
      add_logprob(choice, piece.tokens[k], piece.logprobs[k]);
    choice.text += piece.text;
    return options_.stream ? chunk(i, piece.text, nullptr) : std::string();
  }

  // In OpenAI's shape they stand before those of the text, where the prompt does; in vLLM's apart.
  void prompt(std::size_t i, std::span<const std::int32_t> ids,
              std::span<const infer::PromptLogprob> logprobs) override {
    Choice& choice = choices_[i];
    if (options_.prompt_logprobs)
      choice.prompt_logprobs = prompt_logprobs(tokenizer_, ids, logprobs, options_.top_prompt_logprobs);
    if (!options_.logprobs || echoes_.empty()) return;
    const Logprobs of_text = std::exchange(choice.logprobs, {});
    choice.offset.clear();
    add_first_logprob(choice, ids.front());
    for (std::size_t k = 0; k < logprobs.size(); ++k) {
      infer::DrawnLogprob drawn = logprobs[k].drawn;
      drawn.top.resize(std::min(drawn.top.size(), static_cast<std::size_t>(options_.top_logprobs)));
      add_logprob(choice, ids[k + 1], drawn);
    }
    for (const auto part : {&Logprobs::tokens, &Logprobs::token_logprobs, &Logprobs::top, &Logprobs::offsets})
      for (const Json& each : of_text.*part) (choice.logprobs.*part).push_back(each);
  }

  std::string choice_end(std::size_t i, infer::StopReason reason) override {
    choices_[i].reason = finish_reason(reason);
    return options_.stream ? chunk(i, "", choices_[i].reason) : std::string();
  }

  std::string end(const Usage& usage) override {
    Json json = head();
    if (options_.stream) {
      json["choices"] = Json::array();
      json["usage"] = usage_json(usage);
      return (options_.usage_in_stream ? event(dump_json(json)) : std::string()) + event("[DONE]");
    }
    Json choices = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      choices.push_back({{"index", i},
                         {"text", choices_[i].text},
                         {"logprobs", take_logprobs(choices_[i])},
                         {"finish_reason", choices_[i].reason}});
      if (options_.prompt_logprobs) choices.back()["prompt_logprobs"] = choices_[i].prompt_logprobs;
    }
    json["choices"] = std::move(choices);
    json["usage"] = usage_json(usage);
    return dump_json(json);
  }

  std::string error(const ApiError& error) override { return stream_error(error); }

 private:
  struct Logprobs {
    Json tokens = Json::array(), token_logprobs = Json::array(), top = Json::array(), offsets = Json::array();
  };
  struct Choice {
    std::string text{}, offset{};  // offset: the text before the next token
    std::string_view reason{};
    Logprobs logprobs{};  // that are not sent yet
    Json prompt_logprobs{};
  };

  Json head() const { return answer_head(id_, "text_completion", created_, options_.model); }

  void add_first_logprob(Choice& choice, std::int32_t id) const {
    add_logprob(choice, id, {});
    choice.logprobs.token_logprobs.back() = choice.logprobs.top.back() = nullptr;
  }

  void add_logprob(Choice& choice, std::int32_t id, const infer::DrawnLogprob& drawn) const {
    const std::string token = token_bytes(tokenizer_, id);
    Json top = Json::object();
    for (const infer::TokenLogprob& each : drawn.top) top[token_bytes(tokenizer_, each.id)] = each.logprob;
    choice.logprobs.tokens.push_back(token);
    choice.logprobs.token_logprobs.push_back(drawn.logprob);
    choice.logprobs.top.push_back(std::move(top));
    choice.logprobs.offsets.push_back(choice.offset.size());
    choice.offset += token;
  }

  Json take_logprobs(Choice& choice) const {
    if (!options_.logprobs) return nullptr;
    Logprobs taken = std::exchange(choice.logprobs, {});
    return {{"tokens", std::move(taken.tokens)},
            {"token_logprobs", std::move(taken.token_logprobs)},
            {"top_logprobs", std::move(taken.top)},
            {"text_offset", std::move(taken.offsets)}};
  }

  std::string chunk(std::size_t i, const std::string& text, const Json& reason) {
    Json json = head();
    json["choices"] = Json::array({{{"index", i},
                                    {"text", text},
                                    {"logprobs", take_logprobs(choices_[i])},
                                    {"finish_reason", reason}}});
    if (options_.usage_in_stream) json["usage"] = nullptr;
    return event(dump_json(json));
  }

  const text::Tokenizer& tokenizer_;
  const AnswerOptions options_;
  const std::string id_ = new_id("cmpl-");
  const std::int64_t created_ = std::time(nullptr);
  std::vector<Choice> choices_;
  const std::vector<std::string> echoes_;
};

}  // namespace

std::unique_ptr<AnswerFormat> chat_format(const text::Tokenizer& tokenizer, const AnswerOptions& options,
                                          const MessageParserOptions& parser) {
  return std::make_unique<ChatFormat>(tokenizer, options, parser);
}

std::unique_ptr<AnswerFormat> completion_format(const text::Tokenizer& tokenizer,
                                                const AnswerOptions& options,
                                                std::vector<std::string> echoes) {
  return std::make_unique<CompletionFormat>(tokenizer, options, std::move(echoes));
}

}  // namespace ingot::serve
