#pragma once

#include "ingot/serve/fields.h"
#include "ingot/serve/generation_params.h"
#include "ingot/serve/message_parser.h"
#include "ingot/serve/served_model.h"

namespace ingot::serve {

/// A conversation that a client sent, as the model's template writes it.
struct ChatInput {
  std::string prompt;
  std::vector<std::int32_t> tokens;
  MessageParserOptions parser{};  ///< what the answer may hold
  infer::Constraint tools{};      ///< what calls of tools have to be; none where nothing is asked of them
  infer::SpecialText special{};   ///< the special tokens that mark calls and reasoning are text

  /// Has the answer written as it will be read: the constraint of the tools, or that of the request behind
  /// the model's reasoning. ApiError where both are there.
  void apply_to(GenerationParams& params) const;

 private:
  void put_thoughts_into(GenerationParams& params) const;
};

/// From the fields `messages`, `tools`, `tool_choice`, `chat_template_kwargs`, `add_generation_prompt` of
/// OpenAI's chat API. Throws ApiError, TemplateError.
ChatInput read_chat(const Fields& body, const ServedModel& model);

}  // namespace ingot::serve
