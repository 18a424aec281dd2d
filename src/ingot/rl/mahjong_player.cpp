#include "ingot/rl/mahjong_player.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/device_config.h"
#include "ingot/mahjong/policy.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/rl/masked_policy.h"

namespace ingot {
namespace {

constexpr std::string_view kModelPrefix = "model:";

struct NetworkName {
  std::string directory, device = "cpu";
  double temperature = 0;
};

NetworkName parse_network_name(const std::string& name) {
  INGOT_CHECK(name.starts_with(kModelPrefix),
              InvalidConfig("player", fmt::format("'{}' is not a network; write model:DIR", name)));
  NetworkName parsed;
  std::string_view rest = std::string_view(name).substr(kModelPrefix.size());
  for (bool first = true; first || !rest.empty(); first = false) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (first) {
      parsed.directory = part;
      continue;
    }
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    if (key == "device") {
      parsed.device = value;
    } else if (key == "temperature") {
      const auto [stop, problem] = std::from_chars(value.begin(), value.end(), parsed.temperature);
      INGOT_CHECK(
          problem == std::errc() && stop == value.end() && parsed.temperature >= 0 &&
              std::isfinite(parsed.temperature),
          InvalidConfig("temperature", fmt::format("is '{}' in {}, expected a number from 0", value, name)));
    } else {
      throw InvalidConfig("player",
                          fmt::format("'{}' in {} is not known; use temperature=T or device=D", key, name));
    }
  }
  INGOT_CHECK(!parsed.directory.empty(),
              InvalidConfig("player", fmt::format("{} names no directory; write model:DIR", name)));
  return parsed;
}

bool is_network(const std::string& name) { return name.starts_with(kModelPrefix); }

}  // namespace

NetworkPlayer::NetworkPlayer(std::shared_ptr<const DualPoolNet> net, const std::string& origin,
                             double temperature)
    : net_(std::move(net)),
      encoding_(mahjong_encoding(net_->config, origin)),
      device_(net_->stem.weight.value.device()),
      temperature_(temperature) {}

void NetworkPlayer::select(std::span<const mahjong::Decision> decisions, std::span<mahjong::Action> actions) {
  if (decisions.empty()) return;
  std::vector<const mahjong::Observation*> observations;
  std::vector<std::uint64_t> masks;
  observations.reserve(decisions.size());
  masks.reserve(decisions.size());
  for (const mahjong::Decision& decision : decisions) {
    observations.push_back(&decision.observation);
    masks.push_back(mahjong::policy_mask(decision.legal));
  }
  std::vector<float> log_all;
  {
    const std::lock_guard lock(mutex_);
    const NoGrad no_grad;
    const MahjongInputs inputs = mahjong_inputs(observations, masks, encoding_, device_);
    const Tensor logits = to(net_->policy(net_->features(inputs.observation)), DType::f32);
    const Tensor sharpened = temperature_ > 0 ? logits / temperature_ : logits;
    log_all = to(masked_log_softmax(sharpened, inputs.legal), kCpu).to_vector<float>();
  }
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const std::span<const float> row =
        std::span(log_all).subspan(i * mahjong::kPolicyActions, mahjong::kPolicyActions);
    std::array<float, mahjong::kPolicyActions> legal{};
    for (std::size_t a = 0; a < legal.size(); ++a) legal[a] = static_cast<float>(masks[i] >> a & 1);
    const int index =
        temperature_ > 0 ? sample_action(row, legal, decisions[i].uniform) : best_action(row, legal);
    actions[i] = mahjong::policy_action(decisions[i].legal, index);
  }
}

std::shared_ptr<NetworkPlayer> open_network_player(const std::string& name) {
  const NetworkName parsed = parse_network_name(name);
  std::shared_ptr<const DualPoolNet> net = open_dual_pool_net(
      parsed.directory, {.dtype = DType::f32, .device = choose_device(parsed.device), .trainable = false});
  return std::make_shared<NetworkPlayer>(std::move(net), parsed.directory, parsed.temperature);
}

mahjong::Entrant entrant_named(const std::string& name) {
  if (is_network(name)) return {.name = name, .batch = open_network_player(name)};
  return {.name = name, .make = mahjong::player_named(name)};
}

mahjong::PlayerFactory mahjong_player(const std::string& name) {
  return is_network(name) ? mahjong::one_by_one(open_network_player(name)) : mahjong::player_named(name);
}

}  // namespace ingot
