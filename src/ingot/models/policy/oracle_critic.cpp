#include "ingot/models/policy/oracle_critic.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/models/require.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::int64_t kHeadWidth = 128;
constexpr double kHeadGain = 0.01;

// The sizes of the blocks; groups and reduction as `ingot mahjong train` chooses them for small networks.
DualPoolNetConfig body_of(const OracleCriticConfig& c) {
  return {.input_channels = c.hidden_channels + c.feature_channels,
          .width = c.width,
          .channels = c.channels,
          .blocks = c.blocks,
          .norm_groups = std::clamp<std::int64_t>(c.channels / 4, 1, 32),
          .se_reduction = std::clamp<std::int64_t>(c.channels / 4, 1, 16)};
}

}  // namespace

void OracleCriticConfig::validate() const {
  const auto check = [](const char* key, std::int64_t value) {
    INGOT_CHECK(value > 0 && value <= kMaxModelSize,
                InvalidConfig(
                    std::string("oracle_critic.") + key,
                    "must be from 1 to " + std::to_string(kMaxModelSize) + ", got " + std::to_string(value)));
  };
  check("hidden_channels", hidden_channels);
  check("feature_channels", feature_channels);
  check("width", width);
  check("channels", channels);
  check("blocks", blocks);
  body_of(*this).validate();
}

OracleCritic::OracleCritic(const ParamSource& source, const OracleCriticConfig& config)
    : stem(source.scope("stem"), {.in = body_of(validated(config)).input_channels,
                                  .out = config.channels,
                                  .kernel = 3,
                                  .conv = {.padding = 1, .layout = ChannelLayout::last},
                                  .bias = false,
                                  .weight_init = init::Orthogonal{std::sqrt(2.0)}}),
      norm(source.scope("norm"), config.channels,
           {.groups = body_of(config).norm_groups,
            .layout = ChannelLayout::last,
            .activation = NormActivation::mish}),
      head(source.scope("head"), {config.channels, kHeadWidth, 1}, kHeadGain) {
  const DualPoolNetConfig body = body_of(config);
  blocks.reserve(static_cast<std::size_t>(config.blocks));
  for (std::int64_t i = 0; i < config.blocks; ++i)
    blocks.push_back(std::make_unique<DualPoolBlock>(source.scope("blocks", i), body));
}

Tensor OracleCritic::operator()(const Tensor& features, const Tensor& hidden) const {
  const std::vector<Tensor> seen{features, to(contiguous(transpose(hidden, 1, 2)), features.dtype())};
  Tensor x = stem(concat(seen, 2));
  for (const auto& block : blocks) x = (*block)(x);
  return head(mean(norm(x), {1}));
}

void OracleCritic::visit(ParamVisitor& v) {
  v("stem", stem);
  v("blocks", blocks);
  v("norm", norm);
  v("head", head);
}

}  // namespace ingot
