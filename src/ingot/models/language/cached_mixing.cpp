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

namespace {

SelectiveScanInput steps_of(const SelectiveScanInput& x, std::int64_t at, std::int64_t count) {
  return {.x = narrow(x.x, 1, at, count),
          .decay = narrow(x.decay, 1, at, count),
          .keys = narrow(x.keys, 1, at, count),
          .queries = narrow(x.queries, 1, at, count)};
}

DeltaRuleInput steps_of(const DeltaRuleInput& x, std::int64_t at, std::int64_t count) {
  return {.x = narrow(x.x, 1, at, count),
          .decay = narrow(x.decay, 1, at, count),
          .beta = narrow(x.beta, 1, at, count),
          .keys = narrow(x.keys, 1, at, count),
          .queries = narrow(x.queries, 1, at, count)};
}

// `op` of documents, or of each segment behind its state.
template <class Input, class Op>
Tensor recur(const Input& input, const DecoderContext& context, std::int64_t layer, Op op) {
  if (context.segments.empty()) {
    Input documents = input;
    documents.starts = context.doc_start;
    return op(documents, Tensor());
  }
  std::vector<Tensor> pieces;
  pieces.reserve(context.segments.size());
  std::int64_t at = 0;
  for (const CacheSegment& segment : context.segments) {
    pieces.push_back(op(steps_of(input, at, segment.tokens), segment.cache->state().scan(layer)));
    at += segment.tokens;
  }
  return pieces.size() == 1 ? pieces.front() : concat(pieces, 1);
}

}  // namespace

Tensor scan(const SelectiveScanInput& input, const DecoderContext& context, std::int64_t layer) {
  return recur(input, context, layer,
               [](const SelectiveScanInput& in, const Tensor& state) { return selective_scan(in, state); });
}

Tensor delta_rule(const DeltaRuleInput& input, const DecoderContext& context, std::int64_t layer) {
  return recur(input, context, layer,
               [](const DeltaRuleInput& in, const Tensor& state) { return delta_rule(in, state); });
}

}  // namespace ingot
