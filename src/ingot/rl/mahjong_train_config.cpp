#include "ingot/rl/mahjong_train_config.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/train/reporter.h"

namespace ingot {
namespace {

void read_network(const ConfigReader& section, DualPoolNetConfig& c) {
  // With context by default: winds, tiles left, furiten and legal actions are not in the 85.
  c.input_channels = section.get("input_channels", std::int64_t{96}, at_least(1));
  c.channels = section.get("channels", c.channels, at_least(1));
  c.blocks = section.get("blocks", c.blocks, at_least(1));
  c.kernel = section.get("kernel", c.kernel, at_least(1));
  c.norm_groups =
      section.get("norm_groups", std::min<std::int64_t>(c.norm_groups, c.channels / 4), at_least(1));
  c.se_reduction =
      section.get("se_reduction", std::min<std::int64_t>(c.se_reduction, c.channels / 4), at_least(1));
  c.final_norm = section.get("final_norm", c.final_norm);
}

void read_run(const ConfigReader& root, MahjongTrainConfig& c) {
  c.output_dir = root.get("output_dir", c.output_dir);
  c.run_name = root.get("run_name", c.run_name);
  c.base_model = root.get("base_model", c.base_model);
  c.device = root.get("device", c.device);
  c.dtype = parse_dtype(root.choice("dtype", "f32", {"f32", "bf16"}));
  c.seed = root.get("seed", c.seed);
  c.threads = root.get("threads", c.threads, at_least(0));
  c.max_steps = root.get("max_steps", c.max_steps, at_least(1));
  c.logging_steps = root.get("logging_steps", c.logging_steps, at_least(1));
  c.eval_steps = root.get("eval_steps", c.eval_steps, at_least(0));
  c.save_steps = root.get("save_steps", c.save_steps, at_least(0));
  c.save_total_limit = root.get("save_total_limit", c.save_total_limit, at_least(1));
  c.max_seconds = root.get("max_seconds", c.max_seconds, at_least(0));
  c.resume_from_checkpoint = root.get("resume_from_checkpoint", c.resume_from_checkpoint);
  c.report_to = root.get("report_to", c.report_to);
  c.lr_scheduler_type =
      root.choice("lr_scheduler_type", c.lr_scheduler_type, {"constant", "linear", "cosine"});
  c.warmup_ratio = root.get("warmup_ratio", c.warmup_ratio, between(0, 1));
  c.final_lr_fraction = root.get("final_lr_fraction", c.final_lr_fraction, between(0, 1));
}

void read_optimizer_keys(const ConfigReader& root, OptimizerConfig& o) {
  o.name = root.choice("optimizer", o.name, {"adamw", "adamw_8bit", "adam", "sgd"});
  o.learning_rate = root.get("learning_rate", o.learning_rate, at_least(0));
  o.weight_decay = root.get("weight_decay", o.weight_decay, at_least(0));
  o.beta1 = root.get("adamw_beta1", o.beta1, fraction());
  o.beta2 = root.get("adamw_beta2", o.beta2, fraction());
  o.epsilon = root.get("adamw_epsilon", o.epsilon, positive());
  o.max_grad_norm = root.get("max_grad_norm", o.max_grad_norm, at_least(0));
}

void read_games(const ConfigReader& root, MahjongTrainConfig& c) {
  c.games = root.require<std::vector<std::string>>("games");
  c.index = root.get("index", c.index);
  c.rules = mahjong::Rules::named(root.choice("rules", "tenhou", {"tenhou", "majsoul", "european"}));
  const std::string length = root.choice("length", "hanchan", {"hanchan", "east", "round"});
  c.rules.length = mahjong::game_length_named(length);
  c.validation_split_ratio = root.get("validation_split_ratio", c.validation_split_ratio, fraction());
}

void read_rank(const ConfigReader& root, MahjongTrainConfig& c) {
  read_games(root, c);
  read_optimizer_keys(root, c.rank.optimizer);
  c.rank.seed = c.seed;
  c.rank.batch_size = root.get("batch_size", c.rank.batch_size, at_least(1));
  c.rank_hidden = root.get("hidden", c.rank_hidden, at_least(1));
}

void read_clone(const ConfigReader& root, MahjongTrainConfig& c) {
  read_games(root, c);
  c.validation_decisions = root.get("validation_decisions", c.validation_decisions, at_least(0));
  CloneOptions& clone = c.clone;
  read_optimizer_keys(root, clone.optimizer);
  clone.batch_size = root.get("batch_size", clone.batch_size, at_least(1));
  clone.ema_decay = root.get("ema_decay", clone.ema_decay, fraction());
  clone.stream.seed = c.seed;
  clone.stream.pool_games = root.get("pool_games", clone.stream.pool_games, at_least(1));
  clone.stream.reserve = root.get("reserve", clone.stream.reserve, fraction());
  clone.stream.permute_suits = root.get("permute_suits", clone.stream.permute_suits);
  CloneWeights& w = clone.weights;
  w.value = root.get("value_weight", w.value, at_least(0));
  w.rank = root.get("rank_weight", w.rank, at_least(0));
  w.tenpai = root.get("tenpai_weight", w.tenpai, at_least(0));
  w.danger = root.get("danger_weight", w.danger, at_least(0));
}

void read_league(const ConfigReader& section, MahjongPpoOptions& o) {
  o.league.past = section.get("past", o.league.past, between(0, 1));
  o.league.past_selves = section.get("past_selves", o.league.past_selves, at_least(1));
  o.league.past_every = section.get("past_every", o.league.past_every, at_least(1));
  const ConfigReader players = section.section("players");
  for (const std::string& name : players.keys()) {
    mahjong::player_named(name);
    o.players.emplace_back(name, players.require<double>(name, between(0, 1)));
  }
}

void read_ppo(const ConfigReader& root, MahjongTrainConfig& c) {
  if (c.base_model.empty()) root.fail("base_model", "is missing: ppo goes on from the network that bc left");
  PpoOptions& o = c.ppo.ppo;
  read_optimizer_keys(root, o.optimizer);
  o.seed = c.ppo.league.seed = c.seed;
  c.ppo.tables = root.get("tables", c.ppo.tables, at_least(1));
  o.rollout_steps = root.get("rollout_steps", o.rollout_steps, at_least(1));
  o.minibatch = root.get("minibatch_size", o.minibatch, at_least(1));
  o.epochs = root.get("ppo_epochs", o.epochs, at_least(1));
  o.advantage.gamma = root.get("gamma", o.advantage.gamma, between(0, 1));
  o.advantage.lambda = root.get("gae_lambda", o.advantage.lambda, between(0, 1));
  o.loss.clip = root.get("clip_range", o.loss.clip, positive());
  o.loss.value = root.get("value_coef", o.loss.value, at_least(0));
  o.loss.entropy = root.get("entropy_coef", o.loss.entropy, at_least(0));
  o.final_entropy = root.get("final_entropy_coef", std::min(o.final_entropy, o.loss.entropy), at_least(0));
  o.entropy_steps = c.max_steps;
  o.loss.anchor = root.get("kl_coef", o.loss.anchor, at_least(0));
  o.target_kl = root.get("target_kl", o.target_kl, at_least(0));
  o.normalize_advantages = root.get("normalize_advantages", o.normalize_advantages);
  c.ppo.eval_walls = root.get("eval_walls", c.ppo.eval_walls, between(0, 1e6));
  c.reward_model = root.get("reward_model", c.reward_model);
  read_league(root.section("league"), c.ppo);
}

}  // namespace

void MahjongTrainConfig::validate() const {
  make_reporters(report_to);
  if (phase != "ppo") {
    INGOT_CHECK(!games.empty(), InvalidConfig("games", "names no file or directory of logs"));
  }
  if (base_model.empty()) network.validate();
}

MahjongTrainConfig read_mahjong_train_config(Config& file) {
  const ConfigReader root = file.root();
  MahjongTrainConfig c;
  c.phase = root.choice("phase", "", {"grp", "bc", "ppo"});
  if (c.phase.empty()) root.fail("phase", "is missing: grp and bc learn from logs, ppo from playing");
  read_run(root, c);
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
