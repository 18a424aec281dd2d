#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/text/chat_template.h"
#include "ingot/text/tokenizer.h"

namespace ingot::infer {

/// A tokenizer's chat template, given that tokenizer's special tokens.
class ChatPrompt {
 public:
  /// InvalidConfig where the tokenizer has no chat template, TemplateError where it is not understood.
  /// `model` names the model in errors.
  ChatPrompt(text::Tokenizer tokenizer, const std::string& model);

  /// With the special tokens of the tokenizer instead of those of `input`. Throws TemplateError: what the
  /// template raises.
  std::string render(text::ChatInput input) const;
  std::string render(const std::vector<text::ChatMessage>& messages, bool add_generation_prompt) const;
  /// The prompt to answer: ids, the special tokens as the template writes them.
  std::vector<std::int32_t> encode(const std::vector<text::ChatMessage>& messages) const;
  const std::string& source() const { return tokenizer_.config().chat_template; }

 private:
  text::Tokenizer tokenizer_;
  text::ChatTemplate template_;
};

}  // namespace ingot::infer
