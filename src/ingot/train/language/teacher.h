#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ingot/models/language/decoder.h"
#include "ingot/text/tokenizer.h"
#include "ingot/train/language/distillation_config.h"

namespace ingot {

/// The teacher of a run as a frozen model, in the format that its files have. InvalidConfig where its
/// vocabulary is not that of `tokenizer`, or lacks a token of the data (the largest is `max_token`).
std::unique_ptr<LanguageModel> load_teacher(const std::string& path, const text::Tokenizer& tokenizer,
                                            std::int32_t max_token, DType dtype, Device device);
/// Bytes of its weights; 0 where there is none.
std::size_t teacher_bytes(const DistillationConfig& config, DType dtype);

/// Its hidden states of the tokens at `positions` of the flattened input, [n, hidden]; without gradients.
Tensor teacher_states(const LanguageModel& teacher, const DecoderInput& input, const Tensor& positions);
/// Logits of the first `classes` tokens, f32 [n, classes], of its hidden states; without gradients.
Tensor teacher_logits(const LanguageModel& teacher, const Tensor& states, std::int64_t classes);

/// Rows `positions` of hidden states whose other axes are flattened: [n, hidden].
Tensor picked_states(const Tensor& hidden, const Tensor& positions);
/// The first `classes` columns, in f32.
Tensor first_classes(const Tensor& logits, std::int64_t classes);
/// How many tokens' logits, and what is computed of them, may be there at a time.
std::int64_t distilled_at_once(std::int64_t tokens, std::int64_t classes, Device device);

}  // namespace ingot
