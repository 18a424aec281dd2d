#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/infer/scheduler.h"
#include "ingot/serve/api_error.h"
#include "ingot/serve/generation_params.h"
#include "ingot/serve/http.h"
#include "ingot/serve/metrics.h"
#include "ingot/serve/model_pool.h"

namespace ingot::serve {

struct ApiContext;

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

/// The shape of one API's answers: pieces of text in, bytes for the client out. Not for several threads at
/// once. In a stream each function's result is sent; of an answer that comes at once only that of end().
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  virtual std::string_view stream_type() const { return "text/event-stream"; }
  virtual std::string begin() { return {}; }
  virtual std::string piece(std::size_t choice, const infer::TextPiece& piece) = 0;
  /// What the model thought of the choice's prompt, where the request asks for it; before choice_end().
  virtual void prompt(std::size_t, std::span<const std::int32_t>, std::span<const infer::PromptLogprob>) {}
  virtual std::string choice_end(std::size_t choice, infer::StopReason reason) = 0;
  virtual std::string end(const Usage& usage) = 0;
  /// In a stream that has begun.
  virtual std::string error(const ApiError& error) = 0;
  /// The body of an answer that is an error alone: OpenAI's shape.
  virtual std::string refusal(const ApiError& error) { return error_json(error); }
};

/// Continues each prompt `params.n` times and sends the choices in the format's shape as they come; choice
/// i · n + k is the k-th of prompt i. With `params.best_of` it continues each so many times and sends the n
/// most probable once all have come. A client that goes cancels its request, and the end of its time fails
/// it. What takes long before the first step, such as compiling a grammar, is done by
/// ApiContext::compile_queue. Throws what the prompts or a queue refuse.
void answer(const ApiContext& context, const std::shared_ptr<Exchange>& exchange, const ModelLease& model,
            std::vector<std::vector<std::int32_t>> prompts, const GenerationParams& params,
            std::unique_ptr<AnswerFormat> format);

/// "data: {...}\n\n"
std::string event(const std::string& json);
/// "stop" or "length".
std::string_view finish_reason(infer::StopReason reason);
/// "chatcmpl-" and 24 random letters and digits, or so many.
std::string new_id(std::string_view prefix, int length = 24);

}  // namespace ingot::serve
