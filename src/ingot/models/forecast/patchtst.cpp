#include "ingot/models/forecast/patchtst.h"

#include <array>
#include <cmath>

#include "ingot/autograd/grad_mode.h"
#include "ingot/models/forecast/revin.h"
#include "ingot/nn/activation.h"
#include "ingot/ops/batch_norm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr ParamOptions kBuffer{.trainable = false};

// "name", or "name.0", "name.1", ... for one per channel.
std::vector<std::unique_ptr<Linear>> per_channel(const ParamSource& source, const char* name,
                                                 const char* many, bool shared, std::int64_t channels,
                                                 const LinearOptions& options) {
  std::vector<std::unique_ptr<Linear>> list;
  if (shared) list.push_back(std::make_unique<Linear>(source.scope(name), options));
  for (std::int64_t c = 0; !shared && c < channels; ++c) {
    list.push_back(std::make_unique<Linear>(source.scope(many, c), options));
  }
  return list;
}

// x: [B, channels, ...].
Tensor map_channels(const std::vector<std::unique_ptr<Linear>>& maps, const Tensor& x) {
  if (maps.size() == 1) return (*maps[0])(x);
  std::vector<Tensor> results;
  for (std::size_t c = 0; c < maps.size(); ++c)
    results.push_back((*maps[c])(select(x, 1, static_cast<std::int64_t>(c))));
  return stack(results, 1);
}

// transformers' sines and cosines: centred, then brought to a deviation of 0.1.
Tensor sincos_positions(std::int64_t count, std::int64_t width) {
  std::vector<double> values(static_cast<std::size_t>(count * width));
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < count * width; ++i) {
    const std::int64_t row = i / width, column = i % width;
    const double rate = std::exp(static_cast<double>(column - column % 2) *
                                 -(std::log(10000.0) / static_cast<double>(width)));
    const double angle = static_cast<double>(row) * rate;
    sum += values[static_cast<std::size_t>(i)] = column % 2 == 0 ? std::sin(angle) : std::cos(angle);
  }
  const auto n = static_cast<double>(values.size());
  for (double& v : values) {
    v -= sum / n;
    squares += v * v;
  }
  std::vector<float> scaled;
  scaled.reserve(values.size());
  for (const double v : values) scaled.push_back(static_cast<float>(v / (10 * std::sqrt(squares / (n - 1)))));
  return Tensor::from(scaled, {count, width});
}

ParamSource place(const ParamSource& source, bool batch) {
  return batch ? source.scope("batchnorm") : source;
}

Tensor fold_channels(const Tensor& x) { return reshape(x, {x.dim(0) * x.dim(1), x.dim(2), x.dim(3)}); }

}  // namespace

PatchNorm::PatchNorm(const ParamSource& source, const ForecastModelConfig& c)
    : batch(c.norm == "batchnorm"),
      eps(static_cast<float>(c.norm_eps)),
      weight(place(source, batch).take("weight", {c.d_model}, init::kOnes)),
      bias(place(source, batch).take("bias", {c.d_model}, init::kZeros)),
      running_mean(batch ? place(source, batch).take("running_mean", {c.d_model}, init::kZeros, kBuffer)
                         : Parameter()),
      running_var(batch ? place(source, batch).take("running_var", {c.d_model}, init::kOnes, kBuffer)
                        : Parameter()) {}

Tensor PatchNorm::operator()(const Tensor& x, bool training) const {
  if (!batch) return layer_norm(x, weight.value, bias.value, eps);
  const Tensor rows = reshape(x, {-1, x.dim(-1)});
  return reshape(batch_norm(rows, weight.value, bias.value, running_mean.value, running_var.value,
                            {.training = training, .eps = eps}),
                 x.shape());
}

void PatchNorm::visit(ParamVisitor& v) {
  const std::string at = batch ? "batchnorm." : "";
  v(at + "weight", weight);
  v(at + "bias", bias);
  v(at + "running_mean", running_mean);
  v(at + "running_var", running_var);
}

PatchLayer::PatchLayer(const ParamSource& source, const ForecastModelConfig& c)
    : config_(c),
      query_(source.scope("self_attn.q_proj"), {.in = c.d_model, .out = c.d_model}),
      key_(source.scope("self_attn.k_proj"), {.in = c.d_model, .out = c.d_model}),
      value_(source.scope("self_attn.v_proj"), {.in = c.d_model, .out = c.d_model}),
      out_(source.scope("self_attn.out_proj"), {.in = c.d_model, .out = c.d_model}),
      time_norm_(source.scope("norm_sublayer1"), c),
      channel_norm_(c.channel_attention ? std::make_unique<PatchNorm>(source.scope("norm_sublayer2"), c)
                                        : nullptr),
      up_(source.scope("ff.0"), {.in = c.d_model, .out = c.d_ff}),
      down_(source.scope("ff.3"), {.in = c.d_ff, .out = c.d_model}),
      ff_norm_(source.scope("norm_sublayer3"), c) {}

// x: [N, tokens, d_model]. Attention with its residual and its norm.
Tensor PatchLayer::attention_sublayer(const Tensor& x, const PatchNorm& norm, ResidualScores* residual,
                                      bool training) const {
  const ForecastModelConfig& c = config_;
  const Tensor in = c.pre_norm ? norm(x, training) : x;
  const auto split_heads = [&](const Tensor& t) {
    return reshape(t, {x.dim(0), x.dim(1), c.heads, c.d_model / c.heads});
  };
  const Tensor result = attend(split_heads(query_(in)), split_heads(key_(in)), split_heads(value_(in)),
                               residual, c.attention_dropout, training);
  const Tensor mixed = drop(out_(reshape(result, x.shape())), c.projection_dropout, training);
  const Tensor sum = x + drop(mixed, c.dropout, training);
  return c.pre_norm ? sum : norm(sum, training);
}

Tensor PatchLayer::operator()(const Tensor& input, ResidualScores& scores, bool training) const {
  const ForecastModelConfig& c = config_;
  Tensor x = attention_sublayer(fold_channels(input), time_norm_, c.residual_attention ? &scores : nullptr,
                                training);
  if (c.channel_attention) {
    const Tensor by_patch = transpose(reshape(x, input.shape()), 1, 2);
    const Tensor mixed = attention_sublayer(fold_channels(by_patch), *channel_norm_, nullptr, training);
    x = fold_channels(transpose(reshape(mixed, by_patch.shape()), 1, 2));
  }
  const Tensor in = c.pre_norm ? ff_norm_(x, training) : x;
  const Tensor hidden =
      drop(activate(parse_activation(c.activation, "activation"), up_(in)), c.dropout, training);
  const Tensor sum = x + drop(down_(hidden), c.dropout, training);
  return reshape(c.pre_norm ? sum : ff_norm_(sum, training), input.shape());
}

void PatchLayer::visit(ParamVisitor& v) {
  v("self_attn.q_proj", query_);
  v("self_attn.k_proj", key_);
  v("self_attn.v_proj", value_);
  v("self_attn.out_proj", out_);
  v("norm_sublayer1", time_norm_);
  v("norm_sublayer2", channel_norm_);
  v("ff.0", up_);
  v("ff.3", down_);
  v("norm_sublayer3", ff_norm_);
}

PatchTst::PatchTst(const ForecastModelConfig& c, const ParamSource& source)
    : ForecastModel(c),
      embedding_(per_channel(source.scope("model.encoder.embedder"), "input_embedding", "input_embedding",
                             c.share_embedding, c.channels, {.in = c.patch_length, .out = c.d_model})),
      positions_(source.take("model.encoder.positional_encoder.position_enc",
                             {c.patches() + (c.cls_token ? 1 : 0), c.d_model},
                             c.positions == "learned" ? Init(init::Uniform{-0.02, 0.02}) : Init(init::kZeros),
                             {.trainable = c.positions == "learned"})),
      cls_token_(c.cls_token ? source.take("model.encoder.positional_encoder.cls_token", {1, 1, 1, c.d_model},
                                           init::Normal{0, 0.02})
                             : Parameter()),
      head_(per_channel(source.scope("head"), "projection", "projections", c.share_head, c.channels,
                        {.in = c.cls_token || !c.pooling.empty() ? c.d_model : c.d_model * c.patches(),
                         .out = c.horizon})) {
  for (std::int64_t i = 0; i < c.layers; ++i) {
    layers_.push_back(std::make_unique<PatchLayer>(source.scope("model.encoder.layers", i), c));
  }
  // Fixed positions stand in checkpoints too; an initializer gives zeros. (A placeholder has no memory for
  // them.)
  const NoGrad no_grad;
  if (c.positions == "sincos" && positions_.value.is_contiguous() && max(abs(positions_.value)).item() == 0) {
    copy_(positions_.value, to(sincos_positions(positions_.value.dim(0), c.d_model), device()));
  }
}

Tensor PatchTst::patches(const Tensor& x) const {
  const ForecastModelConfig& c = config();
  Tensor line = contiguous(x);
  if (c.pad_end) {
    const Tensor last = slice(line, 2, c.lookback - 1);
    line = concat(std::array{line, broadcast_to(last, {x.dim(0), x.dim(1), c.patch_stride})}, 2);
  }
  const std::int64_t used = c.patch_length + c.patch_stride * (c.patches() - 1);
  line = slice(line, 2, c.pad_end ? 0 : c.lookback - used);
  View view = line.view();
  view.rank = 4;
  view.shape[2] = c.patches();
  view.strides[2] = c.patch_stride * view.strides[2];
  view.shape[3] = c.patch_length;
  view.strides[3] = 1;
  return {line.storage(), view};
}

Tensor PatchTst::embed(const Tensor& patches) const {
  const ForecastModelConfig& c = config();
  const Tensor x = map_channels(embedding_, contiguous(patches));
  if (!c.cls_token) return drop(x + positions_.value, c.positional_dropout, training());
  const Tensor rest = drop(x + slice(positions_.value, 0, 1), c.positional_dropout, training());
  const Tensor token = cls_token_.value + slice(positions_.value, 0, 0, 1);
  return concat(std::array{broadcast_to(token, {x.dim(0), x.dim(1), 1, c.d_model}), rest}, 2);
}

Tensor PatchTst::head(const Tensor& x) const {
  const ForecastModelConfig& c = config();
  const auto flat = [&] { return reshape(x, {x.dim(0), x.dim(1), -1}); };
  Tensor y;
  if (c.cls_token) {
    y = map_channels(head_, select(x, 2, 0));
  } else if (!c.pooling.empty()) {
    y = map_channels(head_, c.pooling == "mean" ? mean(x, {2}) : max(x, {2}));
  } else if (c.feature_major_head && head_.size() == 1) {
    // Rearranging the weight's columns is cheaper than the activations'.
    const Tensor columns = reshape(head_[0]->weight.effective(), {c.horizon, c.d_model, c.patches()});
    y = linear(flat(), reshape(transpose(columns, 1, 2), {c.horizon, -1}), head_[0]->bias.value);
  } else {
    const Tensor ordered = c.feature_major_head ? transpose(x, 2, 3) : x;
    y = map_channels(head_, reshape(ordered, {x.dim(0), x.dim(1), -1}));
  }
  return drop(y, c.head_dropout, training());
}

Tensor PatchTst::forward(const ForecastInput& input) const {
  const ForecastModelConfig& c = config();
  RevIN window;
  if (c.normalize_window) {
    window = c.scaling == "std" ? RevIN::standard(input.x) : RevIN::by_magnitude(input.x);
  }
  Tensor x = embed(patches(window.apply(input.x)));
  ResidualScores scores;
  for (const auto& layer : layers_) x = (*layer)(x, scores, training());
  return window.undo(head(x));
}

void PatchTst::visit(ParamVisitor& v) {
  const auto list = [&](const std::string& name, const std::string& many, auto& maps, bool shared) {
    shared ? v(name, *maps.front()) : v(many, maps);
  };
  list("model.encoder.embedder.input_embedding", "model.encoder.embedder.input_embedding", embedding_,
       config().share_embedding);
  v("model.encoder.positional_encoder.position_enc", positions_);
  v("model.encoder.positional_encoder.cls_token", cls_token_);
  v("model.encoder.layers", layers_);
  list("head.projection", "head.projections", head_, config().share_head);
}

}  // namespace ingot
