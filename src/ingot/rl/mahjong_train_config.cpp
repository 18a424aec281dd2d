#include "ingot/rl/mahjong_train_config.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/rl/mahjong_train_keys.h"
#include "ingot/train/reporter.h"

namespace ingot {
namespace {

void read_network(const ConfigReader& section, DualPoolNetConfig& c) {
  c.input_channels = 96;  // with context: winds, tiles left, furiten and legal actions are not in the 85
  mahjong_train::network_keys().read(section, c);
  c.norm_groups =
      section.get("norm_groups", std::min<std::int64_t>(c.norm_groups, c.channels / 4), at_least(1));
  c.se_reduction =
      section.get("se_reduction", std::min<std::int64_t>(c.se_reduction, c.channels / 4), at_least(1));
}

void read_games(const ConfigReader& root, MahjongTrainConfig& c) {
  mahjong_train::games_keys().read(root, c);
  mahjong_train::filter_keys().read(root.section("filter"), c.filter);
  static_cast<void>(root.require<std::vector<std::string>>("games"));  // an error where it is missing
  const std::string length = root.choice("length", "hanchan", {"hanchan", "east", "round"});
  c.rules = mahjong::Rules::named(root.choice("rules", "tenhou", {"tenhou", "majsoul", "european"}));
  c.rules.length = mahjong::game_length_named(length);
}

void read_rank(const ConfigReader& root, MahjongTrainConfig& c) {
  read_games(root, c);
  mahjong_train::rank_keys().read(root, c);
  c.rank.seed = c.seed;
}

void read_clone(const ConfigReader& root, MahjongTrainConfig& c) {
  read_games(root, c);
  mahjong_train::clone_keys().read(root, c);
  c.clone.stream.seed = c.seed;
}

void read_league(const ConfigReader& section, MahjongPpoOptions& o) {
  mahjong_train::league_keys().read(section, o.league);
  mahjong_train::base_keys().read(section, o);
  o.league_directory = section.get("directory", o.league_directory);
  const ConfigReader players = section.section("players");
  for (const std::string& name : players.keys()) {
    mahjong::player_named(name);
    o.players.emplace_back(name, players.require<double>(name, between(0, 1)));
  }
}

// An oracle learns among players that see no more than they may, and teaches by what it does there.
void set_phase_defaults(const std::string& phase, MahjongPpoOptions& o) {
  if (phase == "ppo") return;
  o.ppo.optimizer.learning_rate = 2.5e-4;
  if (phase == "oracle") {
    o.league.past = 0;
    o.base_share = 1;
  } else {
    o.ppo.loss.anchor = 1;
    o.ppo.final_anchor = 0.3;
    o.ppo.loss.anchor_temperature = 3;
    o.ppo.anchor_name = "teacher";
  }
}

void read_ppo(const ConfigReader& root, MahjongTrainConfig& c) {
  if (c.base_model.empty())
    root.fail("base_model", fmt::format("is missing: {} goes on from the network that bc left", c.phase));
  set_phase_defaults(c.phase, c.ppo);
  mahjong_train::ppo_keys().read(root, c.ppo);
  if (c.phase == "distil") {
    c.teacher = root.get("teacher", c.teacher);
    if (c.teacher.empty())
      root.fail("teacher", "is missing: distil learns from the network that phase: oracle left");
  }
  PpoOptions& o = c.ppo.ppo;
  o.seed = c.ppo.league.seed = c.seed;
  o.final_entropy = root.get("final_entropy_coef", std::min(o.final_entropy, o.loss.entropy), at_least(0));
  const double falls_to = std::min(o.final_anchor.value_or(o.loss.anchor), o.loss.anchor);
  o.final_anchor = root.get("final_kl_coef", falls_to, at_least(0));
  o.anneal_steps = c.max_steps;
  c.reward_model = root.get("reward_model", c.reward_model);
  if (c.phase != "oracle")
    mahjong_train::oracle_critic_keys().read(root.section("oracle_critic"), c.ppo.oracle_critic);
  mahjong_train::deal_in_keys().read(root.section("deal_in_limit"), o.cost_limit);
  read_league(root.section("league"), c.ppo);
}

}  // namespace

void MahjongTrainConfig::validate() const {
  make_reporters(report_to);
  if (!plays()) {
    INGOT_CHECK(!games.empty(), InvalidConfig("games", "names no file or directory of logs"));
  }
  if (base_model.empty()) network.validate();
}

MahjongTrainConfig read_mahjong_train_config(Config& file) {
  const ConfigReader root = file.root();
  MahjongTrainConfig c;
  c.phase = root.choice("phase", "", {"grp", "bc", "ppo", "oracle", "distil"});
  if (c.phase.empty())
    root.fail("phase", "is missing: grp and bc learn from logs, ppo, oracle and distil from playing");
  mahjong_train::run_keys().read(root, c);
  if (root.has("network") && !c.base_model.empty())
    root.fail("network", "and base_model are both given; a base_model has its own sizes");
  if (c.base_model.empty() && c.phase != "grp") read_network(root.section("network"), c.network);
  if (c.phase == "grp")
    read_rank(root, c);
  else if (c.phase == "bc")
    read_clone(root, c);
  else
    read_ppo(root, c);
  file.finish();
  c.validate();
  return c;
}

}  // namespace ingot
