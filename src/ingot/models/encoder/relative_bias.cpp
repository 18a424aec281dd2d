#include "ingot/models/encoder/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Rows [first, first + count) of batch row `row`.
struct Span {
  std::int64_t row, first, count;
};

// The texts of packed rows: tokens with one start follow one another.
std::vector<Span> packed_spans(const Tensor& doc_start) {
  const std::int64_t batch = doc_start.dim(0), sequence = doc_start.dim(1);
  const std::vector<std::int32_t> starts = doc_start.to_vector<std::int32_t>();
  std::vector<Span> spans;
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::int32_t* first = starts.data() + row * sequence;
    for (std::int64_t at = 0, end = 0; at < sequence; at = end) {
      while (end < sequence && first[end] == first[at]) ++end;
      spans.push_back({row, at, end - at});
    }
  }
  return spans;
}

std::vector<Span> spans_of(const EncoderInput& input) {
  if (input.doc_start.defined()) return packed_spans(input.doc_start);
  const std::int64_t batch = input.tokens.dim(0), sequence = input.tokens.dim(1);
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(batch), static_cast<std::int32_t>(sequence));
  if (input.lengths.defined()) lengths = input.lengths.to_vector<std::int32_t>();
  std::vector<Span> spans;
  for (std::int64_t row = 0; row < batch; ++row)
    spans.push_back({row, 0, lengths[static_cast<std::size_t>(row)]});
  return spans;
}

// One text's heads: [S, heads, D] of x[row] -> [heads, count, D].
Tensor heads_of(const Tensor& x, const Span& span) {
  return transpose(narrow(select(x, 0, span.row), 0, span.first, span.count), 0, 1);
}

Tensor attend(const Qkv& qkv, const Tensor& bias, const Span& span) {
  const Tensor q = heads_of(qkv.queries(), span), k = heads_of(qkv.keys(), span),
               v = heads_of(qkv.values(), span);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.dim(2)));
  const Tensor near = narrow(narrow(bias, 1, 0, span.count), 2, 0, span.count);
  const Tensor weights = softmax(matmul(q, transpose(k, 1, 2)) * scale + near);
  return transpose(matmul(weights, v), 0, 1);
}

}  // namespace

Tensor relative_position_buckets(std::int64_t length) {
  constexpr double kFarthest = 128;
  const std::int64_t half = kRelativePositionBuckets / 2, exact = half / 2;
  // As transformers computes it: in f32, cut towards zero.
  const auto bucket = [&](std::int64_t distance) {
    if (distance < exact) return distance;
    const float share = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                        static_cast<float>(std::log(kFarthest / static_cast<double>(exact)));
    return std::min(exact + static_cast<std::int64_t>(share * static_cast<float>(half - exact)), half - 1);
  };
  std::vector<std::int64_t> all(static_cast<std::size_t>(length * length));
  for (std::int64_t query = 0; query < length; ++query) {
    for (std::int64_t key = 0; key < length; ++key) {
      all[static_cast<std::size_t>(query * length + key)] =
          bucket(std::abs(query - key)) + (key > query ? half : 0);
    }
  }
  return Tensor::from(all, {length, length});
}

Tensor attention_with_bias(const Qkv& qkv, const Tensor& bias, const EncoderInput& input) {
  const Tensor q = qkv.queries();
  const std::int64_t sequence = q.dim(1);
  std::vector<Tensor> pieces;
  std::int64_t row = 0, at = 0;
  const auto fill = [&](std::int64_t upto) {  // padding
    if (upto > at) pieces.push_back(Tensor::zeros({upto - at, q.dim(2), q.dim(3)}, q.dtype(), q.device()));
  };
  for (const Span& span : spans_of(input)) {
    for (; row < span.row; ++row, at = 0) fill(sequence);
    pieces.push_back(attend(qkv, bias, span));
    at = span.first + span.count;
  }
  for (; row < q.dim(0); ++row, at = 0) fill(sequence);
  return reshape(concat(pieces), q.shape());
}

std::int64_t longest_text(const EncoderInput& input) {
  const std::vector<Span> spans = spans_of(input);
  const auto longest = std::ranges::max_element(spans, {}, &Span::count);
  return longest == spans.end() ? 0 : longest->count;
}

}  // namespace ingot
