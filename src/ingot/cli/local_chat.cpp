#include "ingot/base/error.h"
#include "ingot/cli/chat_model.h"

namespace ingot::cli {
namespace {

class LocalChat : public ChatModel {
 public:
  LocalChat(infer::Session& session, const infer::TextOptions& text, const std::string& system,
            infer::FullContext full)
      : session_(session), chat_(session, text, system, full) {}

  void reset() override { chat_.reset(); }
  void set_system(const std::string& system) override { chat_.set_system(system); }
  ChatAnswer answer(const std::string& question, const infer::OnText& on_text) override {
    return told(chat_.answer(question, on_text));
  }
  ChatAnswer retry(const infer::OnText& on_text) override { return told(chat_.retry(on_text)); }
  std::vector<text::ChatMessage> transcript() const override { return chat_.transcript(); }
  std::int64_t forgotten() const override { return chat_.forgotten(); }
  bool summarized() const override { return !chat_.summary().empty(); }
  std::int64_t context() const override { return session_.engine().context(); }
  std::vector<std::string> models() override { return {session_.path()}; }
  const std::string& model() const override { return session_.path(); }
  void choose_model(const std::string&) override {
    throw InvalidConfig("/model", "chooses among the models of a server (ingot chat --server URL)");
  }

 private:
  ChatAnswer told(const infer::WrittenText& answer) const {
    const infer::Generation& g = answer.generation;
    return {.first_seconds = g.prompt_seconds,
            .rest_seconds = g.decode_seconds,
            .tokens = static_cast<std::int64_t>(g.tokens.size()),
            .conversation_tokens = chat_.tokens()};
  }

  infer::Session& session_;
  infer::Chat chat_;
};

}  // namespace

std::unique_ptr<ChatModel> local_chat(infer::Session& session, const infer::TextOptions& text,
                                      const std::string& system, infer::FullContext full) {
  return std::make_unique<LocalChat>(session, text, system, full);
}

}  // namespace ingot::cli
