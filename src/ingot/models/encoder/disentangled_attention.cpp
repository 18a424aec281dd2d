#include "ingot/models/encoder/disentangled_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "ingot/models/encoder/encoder_layer.h"
#include "ingot/models/encoder/text_spans.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// [n, heads · D] -> [heads, n, D].
Tensor by_heads(const Tensor& x, std::int64_t heads) {
  return transpose(reshape(x, {x.dim(0), heads, -1}), 0, 1);
}

// scores[a, b] of x [heads, n, 2n − 1], whose column c is of b − a = c − (n − 1): each row moved by its
// place.
Tensor skewed(const Tensor& x) {
  const std::int64_t heads = x.dim(0), n = x.dim(1);
  if (n == 1) return x;
  const Tensor flat = narrow(reshape(x, {heads, n * (2 * n - 1)}), 1, n - 1, n * (2 * n - 2));
  return narrow(reshape(contiguous(flat), {heads, n, 2 * n - 2}), 2, 0, n);
}

std::unique_ptr<Linear> position_map(bool wanted, const ParamSource& source, const char* name,
                                     const EncoderConfig& c) {
  if (!wanted || c.share_att_key) return nullptr;
  return std::make_unique<Linear>(source.scope(name), encoder_linear(c.hidden_size, c.attention_width(), c));
}

}  // namespace

// As transformers computes it: in f32, the logarithm's share rounded up.
std::int64_t log_bucket(std::int64_t distance, std::int64_t buckets, std::int64_t farthest) {
  const std::int64_t middle = buckets / 2, magnitude = std::abs(distance);
  if (buckets <= 0 || magnitude <= middle) return distance;
  const auto half = static_cast<float>(middle);
  const float share =
      std::log(static_cast<float>(magnitude) / half) /
      std::log(static_cast<float>(static_cast<double>(farthest - 1) / static_cast<double>(middle)));
  const auto beyond = static_cast<std::int64_t>(std::ceil(share * static_cast<float>(middle - 1)));
  return (distance < 0 ? -1 : 1) * (middle + beyond);
}

DisentangledAttention::DisentangledAttention(const ParamSource& source, const EncoderConfig& c)
    : pos_key_proj(position_map(c.relative_attention && c.c2p, source, "attention.self.pos_key_proj", c)),
      pos_query_proj(position_map(c.relative_attention && c.p2c, source, "attention.self.pos_query_proj", c)),
      heads(c.num_attention_heads),
      buckets(c.position_buckets),
      farthest(c.max_relative_positions),
      span(c.relative_span()),
      c2p(c.c2p),
      p2c(c.p2c),
      shared(c.share_att_key) {}

Tensor DisentangledAttention::scores(const Tensor& q, const Tensor& k, const Tensor& keys_of_distances,
                                     const Tensor& queries_of_distances) const {
  const std::int64_t n = q.dim(1);
  // The class of each column of what skewed() takes, for distances a − b.
  const auto columns = [&](const Tensor& x, std::int64_t sign) {
    std::vector<std::int64_t> rows;
    rows.reserve(static_cast<std::size_t>(2 * n - 1));
    for (std::int64_t distance = n - 1; distance > -n; --distance)
      rows.push_back(
          std::clamp<std::int64_t>(sign * log_bucket(distance, buckets, farthest) + span, 0, 2 * span - 1));
    return transpose(index_select(x, 1, Tensor::from(rows, {2 * n - 1}, x.device())), 1, 2);
  };
  Tensor all = matmul(q, transpose(k, 1, 2));
  if (keys_of_distances.defined()) all = all + skewed(matmul(q, columns(keys_of_distances, 1)));
  if (queries_of_distances.defined())
    all = all + transpose(skewed(matmul(k, columns(queries_of_distances, -1))), 1, 2);
  const double summands = 1.0 + (c2p ? 1.0 : 0.0) + (p2c ? 1.0 : 0.0);
  return all * (1.0 / std::sqrt(static_cast<double>(q.dim(2)) * summands));
}

Tensor DisentangledAttention::operator()(const Qkv& qkv, const Tensor& distances, const Linear& query,
                                         const Linear& key, const EncoderInput& input) const {
  Tensor keys_of_distances, queries_of_distances;
  if (distances.defined() && c2p)
    keys_of_distances = by_heads((shared ? key : *pos_key_proj)(distances), heads);
  if (distances.defined() && p2c)
    queries_of_distances = by_heads((shared ? query : *pos_query_proj)(distances), heads);
  const Tensor queries = qkv.queries(), keys = qkv.keys(), values = qkv.values();
  return for_each_text(input, [&](const TextSpan& text) {
    const auto of_text = [&](const Tensor& x) { return transpose(rows_of_text(x, text), 0, 1); };
    const Tensor weights =
        softmax(scores(of_text(queries), of_text(keys), keys_of_distances, queries_of_distances));
    return transpose(matmul(weights, of_text(values)), 0, 1);
  });
}

void DisentangledAttention::visit(ParamVisitor& v) {
  v("attention.self.pos_key_proj", pos_key_proj);
  v("attention.self.pos_query_proj", pos_query_proj);
}

EncoderConvolution::EncoderConvolution(const ParamSource& source, const EncoderConfig& c)
    : weight(source.take("conv.weight", {c.hidden_size, c.hidden_size / c.conv_groups, c.conv_kernel_size},
                         init::Normal{.mean = 0.0, .std = c.initializer_range})),
      bias(source.take("conv.bias", {c.hidden_size}, init::kZeros)),
      norm(source.scope("LayerNorm"), encoder_norm(c.hidden_size, c)),
      groups(c.conv_groups),
      activation(c.conv_act) {}

Tensor EncoderConvolution::operator()(const Tensor& embeddings, const Tensor& x,
                                      const EncoderInput& input) const {
  const Conv1dOptions options{.padding = (weight.value.dim(2) - 1) / 2, .groups = groups};
  const Tensor near = for_each_text(input, [&](const TextSpan& text) {
    const Tensor channels = transpose(rows_of_text(embeddings, text), 0, 1);  // [hidden, count]
    const Tensor image = reshape(contiguous(channels), {1, channels.dim(0), text.count});
    const Tensor y = conv1d(image, to(weight.value, x.dtype()), to(bias.value, x.dtype()), options);
    return transpose(select(y, 0, 0), 0, 1);
  });
  return norm.add(x, activate(activation, contiguous(near))).normed;
}

void EncoderConvolution::visit(ParamVisitor& v) {
  v("conv.weight", weight);
  v("conv.bias", bias);
  v("LayerNorm", norm);
}

}  // namespace ingot
