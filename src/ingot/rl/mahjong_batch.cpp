#include "ingot/rl/mahjong_batch.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/mahjong/oracle.h"
#include "ingot/mahjong/policy.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

using mahjong::kKinds;
using mahjong::kPolicyActions;
using mahjong::kRankContext;
using mahjong::LabelledDecision;

constexpr std::int64_t kNotKnown = -100;  // cross_entropy ignores it
constexpr std::array<mahjong::EncoderOptions, 3> kEncodings = {
    {{.context = true}, {.context = true, .outlook = true}, {}}};

void check_size(const char* key, std::int64_t found, std::int64_t wanted, const std::string& origin) {
  INGOT_CHECK(found == wanted,
              InvalidConfig(key, fmt::format("is {} in {}, but a network that plays mahjong has {}", found,
                                             origin, wanted)));
}

void check_heads(const DualPoolNetConfig& c, const std::string& origin) {
  check_size("width", c.width, kKinds, origin);
  check_size("actions", c.actions, kPolicyActions, origin);
  check_size("rank_context", c.rank_context, kRankContext, origin);
}

template <class T>
Tensor on_device(const std::vector<T>& values, const Shape& shape, Device device) {
  return to(Tensor::from(values, shape), device);
}

}  // namespace

bool is_mahjong_oracle(const DualPoolNetConfig& c) {
  return std::ranges::any_of(kEncodings, [&](const mahjong::EncoderOptions& encoding) {
    return c.input_channels == encoding.channels() + mahjong::kOracleChannels;
  });
}

void check_mahjong_teacher(const DualPoolNetConfig& c, const DualPoolNetConfig& player,
                           const std::string& origin) {
  check_heads(c, origin);
  const std::int64_t wanted = player.input_channels + mahjong::kOracleChannels;
  INGOT_CHECK(
      c.input_channels == wanted,
      InvalidConfig("input_channels",
                    fmt::format("is {} in {}, but an oracle for a player that reads {} reads {}: train "
                                "one with phase: oracle",
                                c.input_channels, origin, player.input_channels, wanted)));
}

mahjong::EncoderOptions mahjong_encoding(const DualPoolNetConfig& c, const std::string& origin) {
  check_heads(c, origin);
  INGOT_CHECK(
      !is_mahjong_oracle(c),
      InvalidConfig("input_channels",
                    fmt::format("is {} in {}: it is an oracle, which sees what is hidden and cannot play; "
                                "distil it into a player with phase: distil",
                                c.input_channels, origin)));
  for (const mahjong::EncoderOptions encoding : kEncodings)
    if (c.input_channels == encoding.channels()) return encoding;
  throw InvalidConfig("input_channels",
                      fmt::format("is {} in {}, but a network that plays mahjong has {} (with context), {} "
                                  "(with the outlook of each choice, too) or {}",
                                  c.input_channels, origin, kEncodings[0].channels(),
                                  kEncodings[1].channels(), kEncodings[2].channels()));
}

MahjongInputs mahjong_inputs(std::span<const mahjong::Observation* const> observations,
                             std::span<const std::uint64_t> masks, const mahjong::EncoderOptions& encoding,
                             Device device) {
  const std::size_t count = observations.size();
  const auto rows = static_cast<std::size_t>(encoding.channels());
  std::vector<float> encoded(count * rows * kKinds), legal(count * kPolicyActions),
      context(count * kRankContext);
  const std::int64_t grain = encoding.outlook ? 4 : 64, piece = encoding.outlook ? 2 : 64;
  parallel_share(static_cast<std::int64_t>(count), grain, piece, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::size_t size = rows * kKinds;
      mahjong::encode(*observations[i], std::span(encoded).subspan(i * size, size), encoding);
      for (std::size_t a = 0; a < kPolicyActions; ++a)
        legal[i * kPolicyActions + a] = static_cast<float>(masks[i] >> a & 1);
      std::ranges::copy(mahjong::rank_context(*observations[i]),
                        context.begin() + static_cast<std::ptrdiff_t>(i * kRankContext));
    }
  });
  const auto batch = static_cast<std::int64_t>(count);
  return {.observation = on_device(encoded, {batch, encoding.channels(), kKinds}, device),
          .legal = on_device(legal, {batch, kPolicyActions}, device),
          .rank_context = on_device(context, {batch, kRankContext}, device)};
}

MahjongExamples mahjong_examples(std::span<const LabelledDecision> decisions,
                                 const mahjong::EncoderOptions& encoding, Device device) {
  std::vector<const mahjong::Observation*> observations;
  std::vector<std::uint64_t> masks;
  std::vector<std::int64_t> action, order;
  std::vector<float> value, tenpai(decisions.size() * 3), danger(decisions.size() * 3 * kKinds);
  for (auto* list : {&action, &order}) list->reserve(decisions.size());
  observations.reserve(decisions.size());
  masks.reserve(decisions.size());
  value.reserve(decisions.size());
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const LabelledDecision& d = decisions[i];
    observations.push_back(&d.observation);
    masks.push_back(d.mask);
    action.push_back(d.action);
    order.push_back(d.order < mahjong::kOrders ? std::int64_t{d.order} : kNotKnown);
    value.push_back(d.game_return);
    for (std::size_t k = 0; k < 3; ++k) {
      tenpai[i * 3 + k] = static_cast<float>(d.tenpai >> k & 1);
      mahjong::for_each_kind(d.danger[k],
                             [&](mahjong::Kind kind) { danger[(i * 3 + k) * kKinds + kind] = 1; });
    }
  }
  const auto batch = static_cast<std::int64_t>(decisions.size());
  MahjongExamples examples;
  static_cast<MahjongInputs&>(examples) = mahjong_inputs(observations, masks, encoding, device);
  examples.action = on_device(action, {batch}, device);
  examples.order = on_device(order, {batch}, device);
  examples.tenpai = on_device(tenpai, {batch, 3}, device);
  examples.danger = on_device(danger, {batch, 3, kKinds}, device);
  examples.value = on_device(value, {batch}, device);
  return examples;
}

}  // namespace ingot
