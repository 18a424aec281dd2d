#pragma once

#include "ingot/serve/fields.h"
#include "ingot/serve/message_parser.h"
#include "ingot/serve/served_model.h"

namespace ingot::serve {

/// A conversation that a client sent, as the model's template writes it.
struct ChatInput {
  std::string prompt;
  std::vector<std::int32_t> tokens;
  MessageParserOptions parser{};  ///< what the answer may hold
};

/// From the fields `messages`, `tools`, `tool_choice`, `chat_template_kwargs`, `add_generation_prompt` of
/// OpenAI's chat API. Throws ApiError, TemplateError.
ChatInput read_chat(const Fields& body, const ServedModel& model);

}  // namespace ingot::serve
