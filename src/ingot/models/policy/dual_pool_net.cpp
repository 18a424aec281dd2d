#include "ingot/models/policy/dual_pool_net.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/models/require.h"
#include "ingot/nn/squeeze_excite.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Of orthogonal weights that a rectifier follows.
const double kHiddenGain = std::sqrt(2.0);
constexpr double kPolicyGain = 0.01, kValueGain = 1.0;
constexpr std::int64_t kPolicyChannels = 64, kOrders = 24, kOpponents = 3;

Conv1dModuleOptions body_conv(const DualPoolNetConfig& c, std::int64_t in) {
  return {.in = in,
          .out = c.channels,
          .kernel = c.kernel,
          .conv = {.padding = c.kernel / 2, .layout = ChannelLayout::last},
          .bias = false,
          .weight_init = init::Orthogonal{kHiddenGain}};
}

Conv1dModuleOptions head_conv(std::int64_t in, std::int64_t out, std::int64_t kernel, double gain) {
  return {.in = in,
          .out = out,
          .kernel = kernel,
          .conv = {.layout = ChannelLayout::last},
          .weight_init = init::Orthogonal{gain}};
}

LinearOptions dense(std::int64_t in, std::int64_t out, double gain) {
  return {.in = in, .out = out, .weight_init = init::Orthogonal{gain}, .bias_init = init::kZeros};
}

GroupNormOptions mish_norm(const DualPoolNetConfig& c) {
  return {.groups = c.norm_groups, .layout = ChannelLayout::last, .activation = NormActivation::mish};
}

void check_input(const char* name, const Tensor& x, const std::vector<std::int64_t>& sizes) {
  const std::vector<std::int64_t> found = x.defined() ? x.shape().to_vector() : std::vector<std::int64_t>{};
  INGOT_CHECK(found.size() == sizes.size() + 1 && std::equal(sizes.begin(), sizes.end(), found.begin() + 1),
              [&] {
                std::vector<std::int64_t> wanted = sizes;
                wanted.insert(wanted.begin(), -1);
                return ShapeMismatch(std::string("DualPoolNet (") + name + ")", wanted, found);
              }());
}

}  // namespace

void DualPoolNetConfig::validate() const {
  const auto check = [](const char* key, bool holds, const std::string& problem) {
    INGOT_CHECK(holds, InvalidConfig(std::string("dual_pool_net.") + key, problem));
  };
  const auto positive = [&](const char* key, std::int64_t value) {
    check(key, value > 0 && value <= kMaxModelSize,
          "must be from 1 to " + std::to_string(kMaxModelSize) + ", got " + std::to_string(value));
  };
  positive("input_channels", input_channels);
  positive("width", width);
  positive("channels", channels);
  positive("blocks", blocks);
  positive("norm_groups", norm_groups);
  positive("se_reduction", se_reduction);
  positive("actions", actions);
  positive("rank_context", rank_context);
  check("kernel", kernel > 0 && kernel % 2 == 1, "must be odd, got " + std::to_string(kernel));
  check("norm_groups", channels % norm_groups == 0,
        std::to_string(norm_groups) + " does not divide the " + std::to_string(channels) + " channels");
  check("se_reduction", channels >= se_reduction,
        "leaves no channel: " + std::to_string(channels) + " / " + std::to_string(se_reduction));
}

DualPoolBlock::DualPoolBlock(const ParamSource& source, const DualPoolNetConfig& c)
    : norm1(source.scope("norm1"), c.channels, mish_norm(c)),
      conv1(source.scope("conv1"), body_conv(c, c.channels)),
      norm2(source.scope("norm2"), c.channels, mish_norm(c)),
      conv2(source.scope("conv2"), body_conv(c, c.channels)),
      squeeze(source.scope("squeeze"), dense(c.channels, c.channels / c.se_reduction, kHiddenGain)),
      excite(source.scope("excite"), dense(c.channels / c.se_reduction, c.channels, 1.0)) {}

Tensor DualPoolBlock::operator()(const Tensor& x) const {
  return dual_pool_residual(conv2(norm2(conv1(norm1(x)))), x, squeeze, excite);
}

void DualPoolBlock::visit(ParamVisitor& v) {
  v("norm1", norm1);
  v("conv1", conv1);
  v("norm2", norm2);
  v("conv2", conv2);
  v("squeeze", squeeze);
  v("excite", excite);
}

ReluMlp::ReluMlp(const ParamSource& source, const std::vector<std::int64_t>& widths, double output_gain) {
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const double gain = i + 2 == widths.size() ? output_gain : kHiddenGain;
    layers.push_back(
        std::make_unique<Linear>(source.scope(std::to_string(i)), dense(widths[i], widths[i + 1], gain)));
  }
}

Tensor ReluMlp::operator()(const Tensor& x) const {
  Tensor y = (*layers.front())(x);
  for (std::size_t i = 1; i < layers.size(); ++i) y = (*layers[i])(relu(y));
  return y;
}

void ReluMlp::visit(ParamVisitor& v) {
  for (std::size_t i = 0; i < layers.size(); ++i) v(std::to_string(i), *layers[i]);
}

DualPoolNet::DualPoolNet(const ParamSource& source, const DualPoolNetConfig& c)
    : config(validated(c)),
      stem(source.scope("stem"), body_conv(c, c.input_channels)),
      policy_conv(source.scope("policy_conv"), head_conv(c.channels, kPolicyChannels, 1, kHiddenGain)),
      policy_output(source.scope("policy_output"),
                    head_conv(kPolicyChannels, c.actions, c.width, kPolicyGain)),
      value_head(source.scope("value_head"), {c.channels, 512, 1}, kValueGain),
      rank_head(source.scope("rank_head"), {c.channels + c.rank_context, 256, 128, kOrders}, kPolicyGain),
      tenpai_head(source.scope("tenpai_head"), {c.channels, 64, kOpponents}, kPolicyGain),
      danger_conv(source.scope("danger_conv"), head_conv(c.channels, kOpponents, 1, kPolicyGain)) {
  for (std::int64_t i = 0; i < c.blocks; ++i)
    blocks.push_back(std::make_unique<DualPoolBlock>(source.scope("blocks", i), c));
  if (c.final_norm) norm = std::make_unique<GroupNorm>(source.scope("norm"), c.channels, mish_norm(c));
}

Tensor DualPoolNet::features(const Tensor& observation) const {
  check_input("observation", observation, {config.input_channels, config.width});
  Tensor x = stem(to(contiguous(transpose(observation, 1, 2)), stem.weight.value.dtype()));
  for (const auto& block : blocks) x = (*block)(x);
  return norm != nullptr ? (*norm)(x) : x;
}

Tensor DualPoolNet::policy(const Tensor& features) const {
  return reshape(policy_output(mish(policy_conv(features))), {features.dim(0), config.actions});
}

Tensor DualPoolNet::value(const Tensor& features) const { return value_head(mean(features, {1})); }

DualPoolOutput DualPoolNet::operator()(const Tensor& observation, const Tensor& rank_context) const {
  check_input("rank_context", rank_context, {config.rank_context});
  const Tensor x = features(observation), pooled = mean(x, {1});
  const std::vector<Tensor> ranked{pooled, to(rank_context, pooled.dtype())};
  return {.policy = policy(x),
          .value = value_head(pooled),
          .rank = rank_head(concat(ranked, 1)),
          .tenpai = tenpai_head(pooled),
          .danger = contiguous(transpose(danger_conv(x), 1, 2))};
}

std::unique_ptr<DualPoolNet> with_more_inputs(DualPoolNet& net, std::int64_t channels) {
  const NoGrad no_grad;
  const Tensor& stem = net.stem.weight.value;
  DualPoolNetConfig config = net.config;
  config.input_channels += channels;
  InitSource source(0, stem.dtype(), stem.device());
  auto wide = std::make_unique<DualPoolNet>(source, config);
  const auto from = named_parameters(net), to = named_parameters(*wide);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Tensor& weight = from[i].second->value;
    if (from[i].second != &net.stem.weight) {
      copy_(to[i].second->value, weight);
      continue;
    }
    const std::vector<Tensor> parts{
        weight, Tensor::zeros(stem.shape().with(1, channels), stem.dtype(), stem.device())};
    copy_(to[i].second->value, concat(parts, 1));
  }
  return wide;
}

void DualPoolNet::visit(ParamVisitor& v) {
  v("stem", stem);
  v("blocks", blocks);
  v("norm", norm);
  v("policy_conv", policy_conv);
  v("policy_output", policy_output);
  v("value_head", value_head);
  v("rank_head", rank_head);
  v("tenpai_head", tenpai_head);
  v("danger_conv", danger_conv);
}

}  // namespace ingot
