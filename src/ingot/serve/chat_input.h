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
  infer::Constraint tools{};      ///< what calls of tools have to be; none where nothing is asked of them

  /// Puts the constraint of the tools where the request has none of its own. ApiError where both are there.
  void constrain(infer::TextOptions& options) const;
};

/// From the fields `messages`, `tools`, `tool_choice`, `chat_template_kwargs`, `add_generation_prompt` of
/// OpenAI's chat API. Throws ApiError, TemplateError.
ChatInput read_chat(const Fields& body, const ServedModel& model);

}  // namespace ingot::serve
