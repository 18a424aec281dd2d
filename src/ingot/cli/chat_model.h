#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ingot/infer/chat.h"

namespace ingot::cli {

/// An answer and what it took.
struct ChatAnswer {
  double first_seconds = 0, rest_seconds = 0;  ///< until the first piece of text, and from then on
  std::int64_t tokens = -1;                    ///< that were written; -1: not known
  std::int64_t conversation_tokens = -1;       ///< up to the end of the answer; -1: not known
};

/// What answers in `ingot chat`: a model on this machine, or one on a server. A question that gets no answer,
/// for an error, is forgotten.
class ChatModel {
 public:
  virtual ~ChatModel() = default;
  /// Begins a new conversation.
  virtual void reset() = 0;
  /// From the next answer on the model is told this before the conversation; empty: nothing.
  virtual void set_system(const std::string& system) = 0;
  /// `on_text` gets the answer piece by piece, and ends it by false.
  virtual ChatAnswer answer(const std::string& question, const infer::OnText& on_text) = 0;
  /// Answers the last question once more. InvalidConfig where none was asked.
  virtual ChatAnswer retry(const infer::OnText& on_text) = 0;
  /// All that was said, also what the model no longer sees.
  virtual std::vector<text::ChatMessage> transcript() const = 0;
  /// Questions that were dropped, with their answers.
  virtual std::int64_t forgotten() const = 0;
  /// Whether they were summed up.
  virtual bool summarized() const { return false; }
  /// Tokens of the longest conversation; 0: not known.
  virtual std::int64_t context() const { return 0; }
  /// The models that can be asked, and the one that is. InvalidConfig where there is no choice.
  virtual std::vector<std::string> models() = 0;
  virtual const std::string& model() const = 0;
  virtual void choose_model(const std::string& name) = 0;
};

/// `session` has to outlive it.
std::unique_ptr<ChatModel> local_chat(infer::Session& session, const infer::TextOptions& text,
                                      const std::string& system, infer::FullContext full);

struct RemoteChatOptions {
  /// Of a server with OpenAI's API, as its clients have it in base_url; without a path "/v1" is added.
  std::string server;
  std::string key{};    ///< empty: none is sent
  std::string model{};  ///< empty: the first that the server lists
  std::string system{};
  std::string fields = "{}";  ///< of each request beside the conversation: a JSON object
  bool slide = true;          ///< forget the oldest turns where the server says that the context is full
  bool usage = false;         ///< ask for the number of tokens
  std::function<bool()> stopped{};  ///< true ends an answer that is awaited
};

/// Throws InvalidConfig for an address that is wrong, HttpError where the server cannot be asked.
std::unique_ptr<ChatModel> remote_chat(RemoteChatOptions options);

}  // namespace ingot::cli
