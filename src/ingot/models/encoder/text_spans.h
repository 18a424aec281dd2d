#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ingot/models/encoder/input.h"

namespace ingot {

/// A text of an input: tokens [first, first + count) of batch row `row`.
struct TextSpan {
  std::int64_t row, first, count;
};

/// The texts of an input in their order, without padding. Waits for the device that has lengths or doc_start.
std::vector<TextSpan> text_spans(const EncoderInput& input);

/// What `rows_of` makes of each text, [count, ...], as [batch, sequence, ...] with zeros for padding.
Tensor for_each_text(const EncoderInput& input, const std::function<Tensor(const TextSpan&)>& rows_of);

/// The rows of a text: x [batch, sequence, ...] -> [count, ...].
Tensor rows_of_text(const Tensor& x, const TextSpan& text);

/// The length of the longest text.
std::int64_t longest_text(const EncoderInput& input);

/// The same input with texts told apart by doc_start, padding being a text of its own: attention with a
/// window needs it so, because lengths count a query's position from the end.
EncoderInput with_doc_start(EncoderInput input);

}  // namespace ingot
