#pragma once

#include <cstdint>
#include <span>

#include "ingot/data/preference.h"
#include "ingot/models/language/decoder.h"

namespace ingot {

/// Prompts with their answers as rows of one batch, padded behind.
struct AnswerBatch {
  Tensor tokens;       ///< i32 [rows, length]
  Tensor all_targets;  ///< i32 [rows, length]: the next token of prompt and answer; -100 in padding
  Tensor predicting;   ///< i32 [n]: of the flattened tokens, those whose next one is of an answer
  Tensor targets;      ///< i32 [n]: these next ones; -100 in padding
  Tensor slots;        ///< i32 [rows * longest]: which of the n each token of an answer is; padding: 0
  Tensor mask;         ///< f32 [rows, longest]: 1 where an answer has a token
  Tensor lengths;      ///< f32 [rows]: tokens of each answer
  std::int64_t longest = 0;
  std::int64_t length = 0;
  std::int64_t answer_tokens = 0;  ///< n, a multiple of 64

  std::int64_t rows() const { return tokens.dim(0); }
};

/// `most`: tokens of a row at most; what is longer is cut off.
AnswerBatch make_answer_batch(std::span<const data::PromptedAnswer* const> answers, std::int32_t pad_id,
                              std::int64_t most, Device device);

/// What the model gives, before its head: [rows, length, hidden].
Tensor hidden_of(const LanguageModel& model, const AnswerBatch& batch);
/// The log-probability of each token of the answers, f32 [rows, longest]; 0 in padding. `hidden` is
/// hidden_of(); logits are divided by `temperature`. All logits never exist at once: in chunks, they are made
/// again for the gradients.
Tensor answer_log_probs(const LanguageModel& model, const Tensor& hidden, const AnswerBatch& batch,
                        double temperature = 1);

}  // namespace ingot
