#include "ingot/rl/mahjong_ppo.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/rl/mahjong_player.h"

namespace ingot {
namespace {

// A past self: a network of its own.
class OwnedPlayer : public ActorCritic {
 public:
  explicit OwnedPlayer(const DualPoolNet& like)
      : source_(0, like.stem.weight.value.dtype(), like.stem.weight.value.device()),
        net_(source_, like.config),
        player_(net_) {}
  ModuleRef module() override { return net_; }
  ActorCriticOutput operator()(const Tensor& observations) override { return player_(observations); }

 private:
  InitSource source_;
  DualPoolNet net_;
  DualPoolPlayer player_;
};

std::vector<FixedOpponent> fixed_opponents(const GameBatch<MahjongGame>& games,
                                           const MahjongPpoOptions& options) {
  std::vector<FixedOpponent> fixed;
  for (const auto& [name, share] : options.players)
    fixed.push_back({.name = name,
                     .share = share,
                     .opponent = std::make_shared<BuiltInOpponent>(games, mahjong::player_named(name))});
  return fixed;
}

// Not owned: the task's network, as it is now.
std::shared_ptr<const DualPoolNet> borrowed(const DualPoolNet& net) {
  return {std::shared_ptr<void>(), &net};
}

}  // namespace

struct MahjongPpo::Parts {
  Parts(DualPoolNet& net, std::unique_ptr<DualPoolNet> frozen, const MahjongPpoOptions& o,
        std::unique_ptr<RankNet> rank)
      : games(static_cast<std::size_t>(o.tables), o.ppo.seed),
        places(rank == nullptr ? nullptr : std::make_unique<RankReward>(games, std::move(rank))),
        anchor_net(std::move(frozen)),
        player(net),
        anchor(*anchor_net),
        league(games, o.league, fixed_opponents(games, o),
               [&] { return std::make_unique<OwnedPlayer>(net); }),
        task(places == nullptr ? static_cast<Environment&>(games) : *places, player, o.ppo,
             o.ppo.loss.anchor > 0 ? &anchor : nullptr, &league) {}

  GameBatch<MahjongGame> games;
  std::unique_ptr<RankReward> places;
  std::unique_ptr<DualPoolNet> anchor_net;
  DualPoolPlayer player, anchor;
  League league;
  PpoTask task;
};

MahjongPpo::MahjongPpo(DualPoolNet& net, std::unique_ptr<DualPoolNet> anchor, const std::string& origin,
                       const MahjongPpoOptions& options, std::unique_ptr<RankNet> rank)
    : net_(net), options_(options) {
  const std::int64_t channels = MahjongGame::spec().observation.at(0);
  INGOT_CHECK(
      net.config.input_channels == channels,
      InvalidConfig("base_model", fmt::format("{} reads {} channels, but ppo plays with context: {}; clone "
                                              "one with input_channels {}",
                                              origin, net.config.input_channels, channels, channels)));
  mahjong_encoding(net.config, origin);
  INGOT_CHECK(options.tables > 0,
              InvalidConfig("tables", fmt::format("must be positive, got {}", options.tables)));
  parts_ = std::make_unique<Parts>(net, std::move(anchor), options_, std::move(rank));
  if (!options.league_directory.empty())
    parts_->league.keep([this](std::int64_t rollouts) {
      save_dual_pool_net(fmt::format("{}/rollout-{:06}", options_.league_directory, rollouts), net_);
    });
}

MahjongPpo::~MahjongPpo() = default;

TrainOptimizer& MahjongPpo::optimizer() { return parts_->task.optimizer(); }
StepWork MahjongPpo::gradients(std::int64_t step) { return parts_->task.gradients(step); }
void MahjongPpo::read(std::span<const float> metrics, StepRecord& record) {
  parts_->task.read(metrics, record);
}
std::string MahjongPpo::divergence_advice() const { return parts_->task.divergence_advice(); }
std::string MahjongPpo::state() const { return parts_->task.state(); }
void MahjongPpo::save(Checkpoint& checkpoint) { parts_->task.save(checkpoint); }
const PpoHealth& MahjongPpo::health() const { return parts_->task.health(); }

void MahjongPpo::restore(const SavedCheckpoint& saved, TrainProgress& progress) {
  parts_->task.restore(saved, progress);
}

std::string MahjongPpo::settings() const {
  auto json = parse_json<nlohmann::ordered_json>(parts_->task.settings(), "the settings");
  json.erase("games");  // as the configuration calls them:
  json["tables"] = options_.tables;
  json["reward"] = parts_->places == nullptr ? "points" : "places";
  return dump_json(json);
}

std::string MahjongPpo::earlier_settings() const { return parts_->task.earlier_settings(); }

std::optional<double> MahjongPpo::evaluate(const StopCheck& /*stops*/) {
  if (options_.eval_walls == 0) return std::nullopt;
  const NoGrad no_grad;
  const auto player = [](const DualPoolNet& net, const char* name) {
    return mahjong::Entrant{.name = name, .batch = std::make_shared<NetworkPlayer>(borrowed(net), name)};
  };
  const mahjong::Entrant anchor = player(*parts_->anchor_net, "anchor");
  const mahjong::ArenaReport report = mahjong::run_arena(
      {player(net_, "network"), anchor, anchor, anchor},
      {.rules = {}, .seed = options_.ppo.seed, .walls = static_cast<int>(options_.eval_walls)});
  const mahjong::ArenaScore& score = report.entrants[0];
  measured_ = {{"place", score.place.mean},     {"place ±", score.place.half_width},
               {"points", score.points.mean},   {"win", score.win.mean},
               {"deal-in", score.deal_in.mean}, {"riichi", score.riichi.mean},
               {"call", score.call.mean}};
  return score.place.mean;
}

void MahjongPpo::read_evaluation(EvalRecord& record) const { record.values = measured_; }

}  // namespace ingot
