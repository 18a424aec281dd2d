#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ingot/serve/answer.h"
#include "ingot/serve/message_parser.h"

namespace ingot::serve {

struct AnswerOptions {
  std::string model;  ///< as the client named it
  bool stream = false;
  bool usage_in_stream = false;
  bool logprobs = false;
  bool prompt_logprobs = false;
  std::int64_t top_logprobs = 0, top_prompt_logprobs = 0;  ///< most probable tokens beside each
  std::size_t choices = 1;
};

/// chat.completion and chat.completion.chunk. `tokenizer` outlives the format, as everywhere here.
std::unique_ptr<AnswerFormat> chat_format(const text::Tokenizer& tokenizer, const AnswerOptions& options,
                                          const MessageParserOptions& parser);

/// text_completion. `echoes`: what stands before each choice's text; empty: nothing.
std::unique_ptr<AnswerFormat> completion_format(const text::Tokenizer& tokenizer,
                                                const AnswerOptions& options,
                                                std::vector<std::string> echoes);

}  // namespace ingot::serve
