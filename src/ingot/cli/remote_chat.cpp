#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/cli/chat_model.h"
#include "ingot/hub/http.h"
#include "ingot/hub/url.h"
#include "ingot/serve/event_stream.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kLongestSilence = 600;  // seconds: a busy server may first have others to answer

// What openai's clients call base_url.
std::string api_base(const std::string& server) {
  const hub::Url url = hub::parse_url(server);
  std::string base = server;
  while (base.ends_with('/')) base.pop_back();
  return url.path.empty() || url.path == "/" ? base + "/v1" : base;
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t count_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

// The message of an error as OpenAI's API, llama-server, Ollama or FastAPI write it.
std::string message_of_answer(const Json& answer) {
  const Json error = answer.is_object() ? answer.value("error", Json()) : Json();
  for (std::string text : {text_of(error, "message"), text_of(answer, "error"), text_of(answer, "message"),
                           text_of(answer, "detail")})
    if (!text.empty()) return text;
  return {};
}

bool says_that_context_is_full(const std::string& body) {
  for (const char* words : {"context_length_exceeded", "exceed_context_size", "maximum context length"})
    if (body.find(words) != body.npos) return true;
  return false;
}

/// Reads an answer that comes as events, or at once from a server that does not stream.
class AnswerReader {
 public:
  explicit AnswerReader(const infer::OnText& on_text) : on_text_(on_text) {}

  /// False: no more is wanted.
  bool take(const hub::HttpResponse& head, std::span<const std::byte> bytes) {
    const std::string_view piece(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    streams_ = !head.header("content-type").starts_with("application/json");
    if (streams_) {
      events_.take(piece, [this](const std::string& data) { take_event(data); });
    } else {
      whole_ += piece;
    }
    return wanted_;
  }

  /// HttpError where the server said that it failed, or broke off.
  ChatAnswer finish(const std::string& url, bool stopped) {
    if (!streams_) take_event(std::exchange(whole_, {}));
    if (std::exchange(thinking_, false)) show("\n</think>\n");
    if (!error_.empty()) throw hub::HttpError(url, error_);
    if (wanted_ && !stopped && !ended_) throw hub::HttpError(url, "ended its answer before its time");
    const double whole = seconds(), first = first_ < 0 ? whole : first_;
    return {.first_seconds = first,
            .rest_seconds = whole - first,
            .tokens = tokens_,
            .conversation_tokens = all_tokens_};
  }
  const std::string& text() const { return text_; }

 private:
  void take_event(const std::string& data) {
    if (data == "[DONE]") {
      ended_ = true;
      return;
    }
    const Json json = parse_json_or_discard<Json>(data);
    if (!json.is_object()) return;
    if (json.contains("error")) error_ = message_of_answer(json);
    if (json.contains("usage")) {
      tokens_ = count_of(json["usage"], "completion_tokens");
      all_tokens_ = count_of(json["usage"], "total_tokens");
    }
    const auto choices = json.find("choices");
    if (choices == json.end() || !choices->is_array() || choices->empty()) return;
    const Json& choice = choices->front();
    ended_ = ended_ || !text_of(choice, "finish_reason").empty();
    const Json part = choice.value(choice.contains("delta") ? "delta" : "message", Json());
    for (const char* key : {"reasoning_content", "reasoning"}) {
      if (std::string thought = text_of(part, key); !thought.empty()) {
        show(std::exchange(thinking_, true) ? thought : "<think>\n" + thought);
        break;
      }
    }
    if (const std::string text = text_of(part, "content"); !text.empty()) {
      text_ += text;
      show(std::exchange(thinking_, false) ? "\n</think>\n" + text : text);
    }
  }
  void show(const std::string& piece) {
    if (first_ < 0) first_ = seconds();
    wanted_ = wanted_ && (!on_text_ || on_text_(piece));
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  const infer::OnText& on_text_;
  const Clock::time_point start_ = Clock::now();
  serve::EventReader events_;
  std::string whole_, text_, error_;
  double first_ = -1;
  std::int64_t tokens_ = -1, all_tokens_ = -1;
  bool streams_ = true, wanted_ = true, ended_ = false, thinking_ = false;
};

class RemoteChat : public ChatModel {
 public:
  explicit RemoteChat(RemoteChatOptions options)
      : options_(std::move(options)),
        base_(api_base(options_.server)),
        fields_(parse_json_or_discard<Json>(options_.fields)),
        http_({.stall_seconds = kLongestSilence, .least_bytes_per_second = 0}) {
    if (options_.model.empty()) {
      const std::vector<std::string> names = models();
      if (!names.empty()) options_.model = names.front();
    }
    reset();
  }

  void reset() override {
    messages_.clear();
    forgotten_.clear();
    set_system(options_.system);
  }
  void set_system(const std::string& system) override {
    options_.system = system;
    if (has_system()) messages_.erase(messages_.begin());
    if (!system.empty()) messages_.insert(messages_.begin(), {"system", system});
  }
  ChatAnswer answer(const std::string& question, const infer::OnText& on_text) override;
  ChatAnswer retry(const infer::OnText& on_text) override;
  std::vector<text::ChatMessage> transcript() const override {
    std::vector<text::ChatMessage> all = messages_;
    all.insert(all.begin() + first_turn(), forgotten_.begin(), forgotten_.end());
    return all;
  }
  std::int64_t forgotten() const override { return std::ssize(forgotten_) / 2; }
  std::vector<std::string> models() override;
  const std::string& model() const override { return options_.model; }
  void choose_model(const std::string& name) override { options_.model = name; }

 private:
  bool has_system() const { return !messages_.empty() && messages_.front().role == "system"; }
  std::ptrdiff_t first_turn() const { return has_system() ? 1 : 0; }
  bool stopped() const { return options_.stopped && options_.stopped(); }
  Json body() const;
  bool forget_oldest();
  hub::HttpError refusal(const std::string& url, const hub::HttpResponse& response) const;

  RemoteChatOptions options_;
  const std::string base_;
  Json fields_;
  hub::HttpClient http_;
  std::vector<text::ChatMessage> messages_, forgotten_;
};

Json RemoteChat::body() const {
  Json body = fields_;
  if (!options_.model.empty()) body["model"] = options_.model;
  Json& messages = body["messages"] = Json::array();
  for (const text::ChatMessage& message : messages_)
    messages.push_back({{"role", message.role}, {"content", message.content}});
  body["stream"] = true;
  if (options_.usage) body["stream_options"] = {{"include_usage", true}};
  return body;
}

// Half of the turns; false where none can go.
bool RemoteChat::forget_oldest() {
  const std::ptrdiff_t turns = (std::ssize(messages_) - first_turn() - 1) / 2;
  if (turns < 1) return false;
  const auto first = messages_.begin() + first_turn(), end = first + 2 * ((turns + 1) / 2);
  forgotten_.insert(forgotten_.end(), first, end);
  messages_.erase(first, end);
  return true;
}

hub::HttpError RemoteChat::refusal(const std::string& url, const hub::HttpResponse& response) const {
  std::string problem = message_of_answer(parse_json_or_discard<Json>(response.body));
  problem = problem.empty() ? fmt::format("the server answers {}", response.status)
                            : fmt::format("{} ({})", problem, response.status);
  if (response.status == 401 || response.status == 403)
    problem += options_.key.empty() ? "; give --api-key, or set OPENAI_API_KEY"
                                    : "; it does not take the key that was sent";
  if (response.status == 404) problem += "; check the address, which ends in /v1 mostly, and the model";
  return {url, problem, response.status};
}

ChatAnswer RemoteChat::answer(const std::string& question, const infer::OnText& on_text) {
  messages_.push_back({"user", question});
  try {
    while (true) {
      hub::HttpRequest request = hub::json_post(base_ + "/chat/completions", dump_json(body()));
      request.bearer = options_.key;
      request.cancelled = options_.stopped;
      AnswerReader reader(on_text);
      const hub::HttpResponse response =
          http_.exchange(request, [&](const hub::HttpResponse& head, std::span<const std::byte> piece) {
            return reader.take(head, piece);
          });
      if (response.status == 200 || response.status == 0) {  // 0: it was stopped
        const ChatAnswer answer = reader.finish(request.url, stopped());
        messages_.push_back({"assistant", reader.text()});
        return answer;
      }
      const bool full = options_.slide && says_that_context_is_full(response.body);
      if (!full || !forget_oldest()) throw refusal(request.url, response);
    }
  } catch (...) {
    messages_.pop_back();
    throw;
  }
}

ChatAnswer RemoteChat::retry(const infer::OnText& on_text) {
  const bool asked = !messages_.empty() && messages_.back().role == "assistant";
  INGOT_CHECK(asked, InvalidConfig("retry", "nothing was asked yet"));
  const text::ChatMessage answered = messages_.back(), question = messages_[messages_.size() - 2];
  messages_.resize(messages_.size() - 2);
  if (fields_.contains("seed")) fields_["seed"] = fields_["seed"].get<std::uint64_t>() + 1;
  try {
    return answer(question.content, on_text);
  } catch (...) {
    messages_.insert(messages_.end(), {question, answered});
    throw;
  }
}

std::vector<std::string> RemoteChat::models() {
  hub::HttpRequest request{.url = base_ + "/models"};
  request.bearer = options_.key;
  const hub::HttpResponse response = http_.exchange(request);
  if (response.status != 200) throw refusal(request.url, response);
  std::vector<std::string> names;
  const Json list = parse_json_or_discard<Json>(response.body);
  const Json data = list.is_object() ? list.value("data", Json()) : Json();
  for (const Json& each : data)
    if (std::string name = text_of(each, "id"); !name.empty()) names.push_back(std::move(name));
  return names;
}

}  // namespace

std::unique_ptr<ChatModel> remote_chat(RemoteChatOptions options) {
  return std::make_unique<RemoteChat>(std::move(options));
}

}  // namespace ingot::cli
