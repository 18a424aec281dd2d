#include "ingot/rl/mahjong_ppo.h"

#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/rl/game_share.h"
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

nlohmann::ordered_json critic_sizes(const MahjongPpoOptions::OracleCritic& critic) {
  if (critic.channels == 0) return nullptr;
  return {{"channels", critic.channels}, {"blocks", critic.blocks}};
}

// As PPO trains it: an oracle, a player with an oracle critic, or a player.
std::unique_ptr<ActorCritic> player_of(DualPoolNet& net, const MahjongPpoOptions& o) {
  if (is_mahjong_oracle(net.config)) return std::make_unique<OraclePlayer>(net);
  if (o.oracle_critic.channels == 0) return std::make_unique<DualPoolPlayer>(net);
  const Tensor& weight = net.stem.weight.value;
  InitSource source(o.ppo.seed, weight.dtype(), weight.device());
  return std::make_unique<OracleCriticPlayer>(
      net, ParamSource(source).scope("oracle"),
      OracleCriticConfig{.hidden_channels = MahjongGame::spec().hidden.at(0),
                         .feature_channels = net.config.channels,
                         .width = net.config.width,
                         .channels = o.oracle_critic.channels,
                         .blocks = o.oracle_critic.blocks});
}

std::vector<FixedOpponent> fixed_opponents(const GameBatch<MahjongGame>& games, ActorCritic& base,
                                           const MahjongPpoOptions& options) {
  std::vector<FixedOpponent> fixed;
  for (const auto& [name, share] : options.players)
    fixed.push_back({.name = name,
                     .share = share,
                     .opponent = std::make_shared<BuiltInOpponent>(games, mahjong::player_named(name))});
  if (options.base_share > 0)
    fixed.push_back({.name = "base_model", .share = options.base_share, .opponent = network_opponent(base)});
  return fixed;
}

// Of an evaluation, as reports call it; the first is what counts.
constexpr std::array<const char*, 7> kMeasured{"place",   "place ±", "points", "win",
                                               "deal-in", "riichi",  "call"};

// Not owned: the task's network, as it is now.
std::shared_ptr<const DualPoolNet> borrowed(const DualPoolNet& net) {
  return {std::shared_ptr<void>(), &net};
}

}  // namespace

struct MahjongPpo::Parts {
  Parts(DualPoolNet& net, MahjongPpoNetworks networks, const MahjongPpoOptions& o, dist::Communicator& ranks)
      : games(game_share(static_cast<std::size_t>(o.tables), ranks, "tables"), o.ppo.seed,
              mahjong_encoding(networks.base->config, "the base model")),
        places(networks.rank == nullptr ? nullptr
                                        : std::make_unique<RankReward>(games, std::move(networks.rank))),
        base_net(std::move(networks.base)),
        teacher_net(std::move(networks.teacher)),
        player(player_of(net, o)),
        base(*base_net),
        teacher(teacher_net == nullptr ? nullptr : std::make_unique<OraclePlayer>(*teacher_net)),
        league(games, o.league, fixed_opponents(games, base, o),
               [&] { return std::make_unique<OwnedPlayer>(net); }),
        task(places == nullptr ? static_cast<Environment&>(games) : *places, *player, o.ppo, anchor(o),
             &league, &ranks) {}

  ActorCritic* anchor(const MahjongPpoOptions& o) {
    if (teacher != nullptr) return teacher.get();
    return o.ppo.loss.anchor > 0 ? &base : nullptr;
  }

  MahjongGames games;
  std::unique_ptr<RankReward> places;
  std::unique_ptr<DualPoolNet> base_net, teacher_net;
  std::unique_ptr<ActorCritic> player;
  DualPoolPlayer base;
  std::unique_ptr<OraclePlayer> teacher;
  League league;
  PpoTask task;
};

MahjongPpo::MahjongPpo(DualPoolNet& net, MahjongPpoNetworks networks, const std::string& origin,
                       const MahjongPpoOptions& options, dist::Communicator& ranks)
    : net_(net), options_(options), ranks_(ranks) {
  mahjong_encoding(networks.base->config, origin);
  INGOT_CHECK(options.tables > 0,
              InvalidConfig("tables", fmt::format("must be positive, got {}", options.tables)));
  INGOT_CHECK(
      !is_oracle() || options.league.past == 0,
      InvalidConfig("league.past", fmt::format("is {}, but past selves of an oracle cannot play: they "
                                               "are not shown what is hidden; use 0",
                                               options.league.past)));
  INGOT_CHECK(!is_oracle() || options.league_directory.empty(),
              InvalidConfig("league.directory",
                            fmt::format("is {}, but an oracle sees what is hidden: a ladder cannot rate it; "
                                        "leave it out, or give it to distil",
                                        options.league_directory)));
  INGOT_CHECK(
      !is_oracle() || options.oracle_critic.channels == 0,
      InvalidConfig("oracle_critic", "is for players; an oracle's value reads what is hidden anyway"));
  parts_ = std::make_unique<Parts>(net, std::move(networks), options_, ranks);
  if (!options.league_directory.empty() && ranks.is_first())
    parts_->league.keep([this](std::int64_t rollouts) {
      save_dual_pool_net(fmt::format("{}/rollout-{:06}", options_.league_directory, rollouts), net_);
    });
}

bool MahjongPpo::is_oracle() const { return is_mahjong_oracle(net_.config); }

MahjongPpo::~MahjongPpo() = default;

TrainOptimizer& MahjongPpo::optimizer() { return parts_->task.optimizer(); }
StepWork MahjongPpo::gradients(std::int64_t step, const StopCheck& stops) {
  return parts_->task.gradients(step, stops);
}
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
  json["oracle_critic"] = critic_sizes(options_.oracle_critic);
  return dump_json(json);
}

std::string MahjongPpo::earlier_settings() const {
  auto json = parse_json<nlohmann::ordered_json>(parts_->task.earlier_settings(), "the settings");
  json["oracle_critic"] = critic_sizes({});
  return dump_json(json);
}

std::optional<double> MahjongPpo::evaluate(const StopCheck& /*stops*/) {
  if (options_.eval_walls == 0 || is_oracle()) return std::nullopt;
  ranks_.set_activity("the evaluation");
  Measured values{};
  if (ranks_.is_first()) values = play_evaluation();
  ranks_.broadcast(std::as_writable_bytes(std::span(values)), 0);
  measured_.clear();
  for (std::size_t i = 0; i < values.size(); ++i) measured_.emplace_back(kMeasured[i], values[i]);
  return values.front();
}

// The values of kMeasured.
MahjongPpo::Measured MahjongPpo::play_evaluation() const {
  const NoGrad no_grad;
  const auto player = [](const DualPoolNet& net, const char* name) {
    return mahjong::Entrant{.name = name, .batch = std::make_shared<NetworkPlayer>(borrowed(net), name)};
  };
  const mahjong::Entrant anchor = player(*parts_->base_net, "anchor");
  const mahjong::ArenaReport report = mahjong::run_arena(
      {player(net_, "network"), anchor, anchor, anchor},
      {.rules = {}, .seed = options_.ppo.seed, .walls = static_cast<int>(options_.eval_walls)});
  const mahjong::ArenaScore& score = report.entrants[0];
  return {score.place.mean,   score.place.half_width, score.points.mean, score.win.mean,
          score.deal_in.mean, score.riichi.mean,      score.call.mean};
}

void MahjongPpo::read_evaluation(EvalRecord& record) const { record.values = measured_; }

}  // namespace ingot
