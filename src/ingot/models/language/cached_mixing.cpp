#include "ingot/models/language/cached_mixing.h"

#include <vector>

#include "ingot/ops/cast.h"
#include "ingot/ops/causal_conv.h"
#include "ingot/ops/view.h"

namespace ingot {

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const DecoderContext& context,
                std::int64_t layer) {
  const Tensor taps = to(weight, x.dtype()), offset = bias.defined() ? to(bias, x.dtype()) : bias;
  if (context.segments.empty()) return causal_conv(x, taps, offset, {.starts = context.doc_start});
  std::vector<Tensor> pieces;
  pieces.reserve(context.segments.size());
  std::int64_t at = 0;
  for (const CacheSegment& segment : context.segments) {
    const Tensor piece = narrow(x, 1, at, segment.tokens);
    RecurrentState& state = segment.cache->state();
    const std::int64_t length = segment.cache->length();
    pieces.push_back(causal_conv(piece, taps, offset, {.past = state.past(layer, length)}));
    state.append(layer, length, select(piece, 0, 0));
    at += segment.tokens;
  }
  return pieces.size() == 1 ? pieces.front() : concat(pieces, 1);
}

Tensor scan(const SelectiveScanInput& input, const DecoderContext& context, std::int64_t layer) {
  if (context.segments.empty()) {
    SelectiveScanInput documents = input;
    documents.starts = context.doc_start;
    return selective_scan(documents);
  }
  std::vector<Tensor> pieces;
  pieces.reserve(context.segments.size());
  std::int64_t at = 0;
  for (const CacheSegment& segment : context.segments) {
    const auto piece = [&](const Tensor& x) { return narrow(x, 1, at, segment.tokens); };
    pieces.push_back(selective_scan({.x = piece(input.x),
                                     .decay = piece(input.decay),
                                     .keys = piece(input.keys),
                                     .queries = piece(input.queries)},
                                    segment.cache->state().scan(layer)));
    at += segment.tokens;
  }
  return pieces.size() == 1 ? pieces.front() : concat(pieces, 1);
}

}  // namespace ingot
