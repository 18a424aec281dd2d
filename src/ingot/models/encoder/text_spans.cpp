#include "ingot/models/encoder/text_spans.h"

#include <algorithm>
#include <span>

#include "ingot/base/error.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// The texts of packed rows: tokens with one start follow one another.
std::vector<TextSpan> packed_spans(const Tensor& doc_start) {
  const std::int64_t batch = doc_start.dim(0), sequence = doc_start.dim(1);
  const std::vector<std::int32_t> starts = doc_start.to_vector<std::int32_t>();
  std::vector<TextSpan> spans;
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::int32_t* first = starts.data() + row * sequence;
    for (std::int64_t at = 0, end = 0; at < sequence; at = end) {
      while (end < sequence && first[end] == first[at]) ++end;
      spans.push_back({row, at, end - at});
    }
  }
  return spans;
}

}  // namespace

std::vector<TextSpan> text_spans(const EncoderInput& input) {
  if (input.doc_start.defined()) return packed_spans(input.doc_start);
  const std::int64_t batch = input.tokens.dim(0), sequence = input.tokens.dim(1);
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(batch), static_cast<std::int32_t>(sequence));
  if (input.lengths.defined()) lengths = input.lengths.to_vector<std::int32_t>();
  std::vector<TextSpan> spans;
  spans.reserve(lengths.size());
  for (std::int64_t row = 0; row < batch; ++row)
    spans.push_back({row, 0, lengths[static_cast<std::size_t>(row)]});
  return spans;
}

Tensor rows_of_text(const Tensor& x, const TextSpan& text) {
  return narrow(select(x, 0, text.row), 0, text.first, text.count);
}

Tensor for_each_text(const EncoderInput& input, const std::function<Tensor(const TextSpan&)>& rows_of) {
  const std::int64_t batch = input.tokens.dim(0), sequence = input.tokens.dim(1);
  std::vector<Tensor> pieces;
  Shape padding;  // of one row of it
  std::int64_t missing = 0, at = 0;
  for (const TextSpan& text : text_spans(input)) {
    const Tensor rows = rows_of(text);
    missing = text.row * sequence + text.first - at;
    if (missing > 0)
      pieces.push_back(Tensor::zeros(rows.shape().with(0, missing), rows.dtype(), rows.device()));
    pieces.push_back(rows);
    padding = rows.shape();
    at = text.row * sequence + text.first + text.count;
  }
  INGOT_CHECK(!pieces.empty(), DimensionMismatch("an encoder's input holds no text"));
  missing = batch * sequence - at;
  const Tensor& last = pieces.back();
  if (missing > 0) pieces.push_back(Tensor::zeros(padding.with(0, missing), last.dtype(), last.device()));
  std::vector<std::int64_t> shape = padding.to_vector();
  shape[0] = sequence;
  shape.insert(shape.begin(), batch);
  return reshape(concat(pieces), Shape{std::span<const std::int64_t>(shape)});
}

std::int64_t longest_text(const EncoderInput& input) {
  const std::vector<TextSpan> spans = text_spans(input);
  const auto longest = std::ranges::max_element(spans, {}, &TextSpan::count);
  return longest == spans.end() ? 0 : longest->count;
}

EncoderInput with_doc_start(EncoderInput input) {
  if (input.doc_start.defined() || !input.lengths.defined()) return input;
  const std::int64_t batch = input.tokens.dim(0), sequence = input.tokens.dim(1);
  std::vector<std::int32_t> starts(static_cast<std::size_t>(batch * sequence), 0);
  for (const TextSpan& text : text_spans(input)) {
    const auto row = starts.begin() + text.row * sequence;
    std::fill(row + text.count, row + sequence, static_cast<std::int32_t>(text.count));
  }
  input.doc_start = Tensor::from(starts, {batch, sequence}, input.tokens.device());
  input.lengths = {};
  return input;
}

}  // namespace ingot
