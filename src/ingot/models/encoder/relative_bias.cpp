#include "ingot/models/encoder/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "ingot/models/encoder/text_spans.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// One text's heads: [heads, count, D].
Tensor heads_of(const Tensor& x, const TextSpan& span) { return transpose(rows_of_text(x, span), 0, 1); }

Tensor attend(const Qkv& qkv, const Tensor& bias, const TextSpan& span) {
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
  return for_each_text(input, [&](const TextSpan& text) { return attend(qkv, bias, text); });
}

}  // namespace ingot
