#include "ingot/models/policy/se_resnet.h"

#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/nn/squeeze_excite.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

Conv1dModuleOptions conv_options(const SeResNetConfig& c, std::int64_t in) {
  return {.in = in,
          .out = c.channels,
          .kernel = c.kernel,
          .conv = {.padding = c.kernel / 2, .layout = ChannelLayout::last},
          .bias = false,
          .weight_init = init::Kaiming{.distribution = init::Distribution::normal}};
}

GroupNormOptions norm_options(const SeResNetConfig& c, NormActivation activation) {
  return {.groups = c.norm_groups, .layout = ChannelLayout::last, .activation = activation};
}

// [batch, channels, width] to [batch, width, channels].
Tensor channels_last(const Tensor& x) { return contiguous(transpose(x, 1, 2)); }

void check_observation(const SeResNetConfig& c, const Tensor& x) {
  INGOT_CHECK(x.defined() && x.rank() == 3 && x.dim(1) == c.input_channels && x.dim(2) == c.width,
              ShapeMismatch("SeResNet (observation)", {-1, c.input_channels, c.width},
                            x.defined() ? x.shape().to_vector() : std::vector<std::int64_t>{},
                            "an observation is [batch, input_channels, width]"));
}

}  // namespace

void SeResNetConfig::validate() const {
  const auto positive = [](const char* key, std::int64_t value) {
    INGOT_CHECK(value > 0, InvalidConfig(std::string("se_resnet.") + key,
                                         "must be positive, got " + std::to_string(value)));
  };
  positive("input_channels", input_channels);
  positive("width", width);
  positive("channels", channels);
  positive("blocks", blocks);
  positive("norm_groups", norm_groups);
  positive("se_reduction", se_reduction);
  positive("actions", actions);
  positive("policy_channels", policy_channels);
  positive("value_hidden", value_hidden);
  INGOT_CHECK(kernel > 0 && kernel % 2 == 1,
              InvalidConfig("se_resnet.kernel", "must be odd, got " + std::to_string(kernel)));
  INGOT_CHECK(channels % norm_groups == 0,
              InvalidConfig("se_resnet.norm_groups", std::to_string(norm_groups) + " does not divide the " +
                                                         std::to_string(channels) + " channels"));
  INGOT_CHECK(channels >= se_reduction,
              InvalidConfig("se_resnet.se_reduction", "leaves no channel: " + std::to_string(channels) +
                                                          " / " + std::to_string(se_reduction)));
}

SeBlock::SeBlock(const ParamSource& source, const SeResNetConfig& c)
    : conv1(source.scope("conv1"), conv_options(c, c.channels)),
      norm1(source.scope("norm1"), c.channels, norm_options(c, NormActivation::mish)),
      conv2(source.scope("conv2"), conv_options(c, c.channels)),
      norm2(source.scope("norm2"), c.channels, norm_options(c, NormActivation::none)),
      squeeze(source.scope("squeeze"), {.in = c.channels, .out = c.channels / c.se_reduction}),
      excite(source.scope("excite"), {.in = c.channels / c.se_reduction, .out = c.channels}) {}

Tensor SeBlock::operator()(const Tensor& x) const { return finish(conv2(norm1(conv1(x))), x); }

Tensor SeBlock::finish(const Tensor& h, const Tensor& residual) const {
  return squeeze_excite_residual(norm2(h), residual, squeeze, excite);
}

void SeBlock::visit(ParamVisitor& v) {
  v("conv1", conv1);
  v("norm1", norm1);
  v("conv2", conv2);
  v("norm2", norm2);
  v("squeeze", squeeze);
  v("excite", excite);
}

SeResNet::SeResNet(const ParamSource& source, const SeResNetConfig& c)
    : config(validated(c)),
      stem(source.scope("stem"), conv_options(c, c.input_channels)),
      policy_conv(source.scope("policy_conv"),
                  {.in = c.channels, .out = c.policy_channels, .conv = {.layout = ChannelLayout::last}}),
      policy_output(source.scope("policy_output"), {.in = c.policy_channels,
                                                    .out = c.actions,
                                                    .kernel = c.width,
                                                    .conv = {.layout = ChannelLayout::last},
                                                    .weight_init = init::Orthogonal{0.01}}),
      value_hidden(source.scope("value_hidden"), {.in = c.channels, .out = c.value_hidden}),
      value_output(source.scope("value_output"),
                   {.in = c.value_hidden, .out = 1, .weight_init = init::Orthogonal{1.0}}) {
  for (std::int64_t i = 0; i < c.blocks; ++i) {
    blocks.push_back(std::make_unique<SeBlock>(source.scope("blocks", i), c));
  }
}

Tensor SeResNet::features(const Tensor& observation) const {
  check_observation(config, observation);
  Tensor x = stem(channels_last(observation));
  for (const auto& block : blocks) x = (*block)(x);
  return x;
}

PolicyOutput SeResNet::heads(const Tensor& features) const {
  const Tensor logits = policy_output(mish(policy_conv(features)));
  return {reshape(logits, {features.dim(0), config.actions}), value(features)};
}

Tensor SeResNet::value(const Tensor& features) const {
  return value_output(relu(value_hidden(mean(features, {1}))));
}

PolicyOutput SeResNet::operator()(const Tensor& observation) const { return heads(features(observation)); }

void SeResNet::visit(ParamVisitor& v) {
  v("stem", stem);
  v("blocks", blocks);
  v("policy_conv", policy_conv);
  v("policy_output", policy_output);
  v("value_hidden", value_hidden);
  v("value_output", value_output);
}

PackedSeResNet::PackedSeResNet(const SeResNet& net) : net_(net) { repack(); }

void PackedSeResNet::repack() {
  prepacked_.clear();
  prepacked_.push_back(pack_conv1d_weight(net_.stem.weight.value));
  for (const auto& block : net_.blocks) {
    prepacked_.push_back(pack_conv1d_weight(block->conv1.weight.value));
    prepacked_.push_back(pack_conv1d_weight(block->conv2.weight.value));
  }
  prepacked_.push_back(pack_conv1d_weight(net_.policy_conv.weight.value));
  prepacked_.push_back(pack_conv1d_weight(net_.policy_output.weight.value));
}

PolicyOutput PackedSeResNet::operator()(const Tensor& observation) const {
  const NoGrad no_grad;
  const SeResNetConfig& c = net_.config;
  check_observation(c, observation);
  const auto conv = [&](const Tensor& x, std::size_t i) {
    return conv1d_packed(x, prepacked_[i], c.channels, c.kernel / 2);
  };
  Tensor x = conv(channels_last(observation), 0);
  for (std::size_t i = 0; i < net_.blocks.size(); ++i) {
    const SeBlock& block = *net_.blocks[i];
    x = block.finish(conv(block.norm1(conv(x, 2 * i + 1)), 2 * i + 2), x);
  }
  const std::size_t head = prepacked_.size() - 2;
  const Tensor plane = conv1d_packed(x, prepacked_[head], c.policy_channels, 0, net_.policy_conv.bias.value);
  const Tensor logits =
      conv1d_packed(mish(plane), prepacked_[head + 1], c.actions, 0, net_.policy_output.bias.value);
  return {reshape(logits, {x.dim(0), c.actions}), net_.value(x)};
}

}  // namespace ingot
