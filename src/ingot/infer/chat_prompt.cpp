#include "ingot/infer/chat_prompt.h"

#include "ingot/base/error.h"

namespace ingot::infer {
namespace {

text::ChatTemplate template_of(const text::Tokenizer& tokenizer, const std::string& model) {
  const std::string& source = tokenizer.config().chat_template;
  INGOT_CHECK(
      !source.empty(),
      InvalidConfig("chat_template", model + " has none (chat_template.jinja, tokenizer_config.json), so "
                                             "it was not made for conversation; 'ingot generate' "
                                             "continues a text with it"));
  return text::ChatTemplate(source);
}

}  // namespace

ChatPrompt::ChatPrompt(text::Tokenizer tokenizer, const std::string& model)
    : tokenizer_(std::move(tokenizer)), template_(template_of(tokenizer_, model)) {}

std::string ChatPrompt::render(text::ChatInput input) const {
  const text::TokenizerConfig& config = tokenizer_.config();
  input.bos_token = config.bos_token;
  input.eos_token = config.eos_token;
  input.unk_token = config.unk_token;
  input.pad_token = config.pad_token;
  return template_.render(input);
}

std::string ChatPrompt::render(const std::vector<text::ChatMessage>& messages,
                               bool add_generation_prompt) const {
  return render({.messages = text::messages_json(messages), .add_generation_prompt = add_generation_prompt});
}

std::vector<std::int32_t> ChatPrompt::encode(const std::vector<text::ChatMessage>& messages) const {
  return tokenizer_.encode(render(messages, true), {.add_special_tokens = false});
}

}  // namespace ingot::infer
