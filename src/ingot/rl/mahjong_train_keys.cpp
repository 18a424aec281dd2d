#include "ingot/rl/mahjong_train_keys.h"

#include <iterator>
#include <string>
#include <utility>

namespace ingot {
namespace {

using Table = ConfigTable<MahjongTrainConfig>;
using Field = Table::Field;

// Of the optimizer that `part` and `optimizer` lead to: each phase has its own defaults.
template <class C, class Part>
std::vector<typename ConfigTable<C>::Field> optimizer_fields(Part C::*part,
                                                             OptimizerConfig Part::*optimizer) {
  return {
      {"optimizer",
       part,
       optimizer,
       &OptimizerConfig::name,
       {.choices = {"adamw", "adamw_8bit", "adam", "sgd"}, .doc = "How gradients change weights."}},
      {"learning_rate",
       part,
       optimizer,
       &OptimizerConfig::learning_rate,
       {.bounds = at_least(0), .doc = "Largest learning rate."}},
      {"weight_decay",
       part,
       optimizer,
       &OptimizerConfig::weight_decay,
       {.bounds = at_least(0), .doc = "AdamW's pull towards zero."}},
      {"adamw_beta1",
       part,
       optimizer,
       &OptimizerConfig::beta1,
       {.bounds = fraction(), .doc = "Of the average of gradients."}},
      {"adamw_beta2",
       part,
       optimizer,
       &OptimizerConfig::beta2,
       {.bounds = fraction(), .doc = "Of the average of squared gradients."}},
      {"adamw_epsilon",
       part,
       optimizer,
       &OptimizerConfig::epsilon,
       {.bounds = positive(), .doc = "Added to the root that AdamW divides by."}},
      {"max_grad_norm",
       part,
       optimizer,
       &OptimizerConfig::max_grad_norm,
       {.bounds = at_least(0), .doc = "Gradients are scaled down to this norm; 0: never."}},
  };
}

template <class T>
std::vector<T> joined(std::vector<T> first, std::vector<T> second) {
  first.insert(first.end(), std::make_move_iterator(second.begin()), std::make_move_iterator(second.end()));
  return first;
}

Table::Section run_section() {
  return {
      "Run",
      {
          Field::documented("phase", "grp, bc, ppo, oracle or distil",
                            {.doc = "grp and bc learn from logs, the others from playing: ppo a player, "
                                    "oracle one that sees hidden tiles, distil a player from an oracle."}),
          {"output_dir", &MahjongTrainConfig::output_dir, {.doc = "Checkpoints, metrics and the model."}},
          {"run_name", &MahjongTrainConfig::run_name, {.doc = "In reports."}},
          {"base_model",
           &MahjongTrainConfig::base_model,
           {.default_text = "a fresh network",
            .doc = "Directory of the network to start from; ppo, oracle and distil need one."}},
          {"device", &MahjongTrainConfig::device, {.doc = "auto, cpu, cuda or cuda:N."}},
          Field::words(
              "dtype", [](MahjongTrainConfig& c) -> DType& { return c.dtype; },
              [](const std::string& word) { return parse_dtype(word); },
              [](DType dtype) { return name(dtype); },
              {.choices = {"f32", "bf16"},
               .doc = "Of weights and activations, but in grp; with bf16 AdamW keeps f32 weights behind "
                      "them."}),
          {"seed", &MahjongTrainConfig::seed, {.doc = "Of everything that is drawn."}},
          {"threads", &MahjongTrainConfig::threads, {.bounds = at_least(0), .doc = "0: all processors."}},
          {"zero_stage",
           &MahjongTrainConfig::zero_stage,
           {.aliases = {"zero_level"},
            .bounds = between(0, 2),
            .doc = "ZeRO: what ranks share out instead of each keeping all of it, with the same bits. 1: the "
                   "optimizer's state; 2: the gradients too."}},
          {"ddp_timeout",
           &MahjongTrainConfig::ddp_timeout,
           {.bounds = at_least(0),
            .unit = "seconds",
            .doc = "How long ranks of a run wait for one of them, which is then named; 0: for ever."}},
          {"max_steps",
           &MahjongTrainConfig::max_steps,
           {.bounds = at_least(1), .doc = "Steps of the optimizer."}},
          {"logging_steps",
           &MahjongTrainConfig::logging_steps,
           {.bounds = at_least(1), .unit = "steps", .doc = "Between two lines of metrics."}},
          {"eval_steps",
           &MahjongTrainConfig::eval_steps,
           {.bounds = at_least(0), .unit = "steps", .doc = "Between two evaluations; 0: at the end."}},
          {"save_steps",
           &MahjongTrainConfig::save_steps,
           {.bounds = at_least(0), .unit = "steps", .doc = "Between two checkpoints; 0: at the end."}},
          {"save_total_limit",
           &MahjongTrainConfig::save_total_limit,
           {.bounds = at_least(1), .doc = "Checkpoints that stay."}},
          {"max_seconds",
           &MahjongTrainConfig::max_seconds,
           {.bounds = at_least(0),
            .unit = "seconds",
            .doc = "The run ends then, with a checkpoint; 0: no "
                   "limit."}},
          {"resume_from_checkpoint",
           &MahjongTrainConfig::resume_from_checkpoint,
           {.doc = "Go on from the newest whole checkpoint of output_dir, bit for bit; "
                   "without one, begin."}},
          {"report_to", &MahjongTrainConfig::report_to, {.doc = "Names of reporters."}},
          {"lr_scheduler_type",
           &MahjongTrainConfig::lr_scheduler_type,
           {.choices = {"constant", "linear", "cosine"}, .doc = "How the learning rate falls."}},
          {"warmup_ratio",
           &MahjongTrainConfig::warmup_ratio,
           {.bounds = between(0, 1), .doc = "Share of the steps in which the learning rate rises."}},
          {"final_lr_fraction",
           &MahjongTrainConfig::final_lr_fraction,
           {.bounds = between(0, 1), .doc = "Where it ends, as a share of learning_rate."}},
      }};
}

Table::Section games_section() {
  return {"grp and bc: logs",
          {
              {"games", &MahjongTrainConfig::games, {.doc = "Files and directories of logs."}},
              {"index",
               &MahjongTrainConfig::index,
               {.default_text = "output_dir/index.jsonl", .doc = "File that remembers what was replayed."}},
              Field::documented("rules", "tenhou, majsoul or european",
                                {.default_text = "tenhou", .doc = "Of logs that do not name theirs."}),
              Field::documented("length", "hanchan, east or round",
                                {.default_text = "hanchan", .doc = "Of them."}),
              {"validation_split_ratio",
               &MahjongTrainConfig::validation_split_ratio,
               {.bounds = fraction(), .doc = "Share of games held out, by their content."}},
          }};
}

std::vector<Field> rank_fields() {
  constexpr auto r = &MahjongTrainConfig::rank;
  return joined<Field>({{"batch_size",
                         r,
                         &RankOptions::batch_size,
                         {.bounds = at_least(1), .doc = "Beginnings of rounds in a step."}},
                        {"hidden",
                         &MahjongTrainConfig::rank_hidden,
                         {.bounds = at_least(1), .doc = "Width of the two hidden layers."}}},
                       optimizer_fields(r, &RankOptions::optimizer));
}

std::vector<Field> clone_fields() {
  constexpr auto c = &MahjongTrainConfig::clone;
  constexpr auto s = &CloneOptions::stream;
  constexpr auto w = &CloneOptions::weights;
  using Stream = mahjong::DecisionStreamOptions;
  return joined<Field>(
      {
          {"validation_decisions",
           &MahjongTrainConfig::validation_decisions,
           {.bounds = at_least(0), .doc = "Decisions of an evaluation."}},
          {"batch_size",
           c,
           &CloneOptions::batch_size,
           {.bounds = at_least(1), .doc = "Decisions in a step."}},
          {"ema_decay",
           c,
           &CloneOptions::ema_decay,
           {.bounds = fraction(), .doc = "Of averaged weights, which become the model; 0: none."}},
          {"pool_games",
           c,
           s,
           &Stream::pool_games,
           {.bounds = at_least(1), .doc = "Games whose decisions are mixed."}},
          {"reserve",
           c,
           s,
           &Stream::reserve,
           {.bounds = fraction(), .doc = "Share of a pool's decisions that wait for the next pool."}},
          {"permute_suits",
           c,
           s,
           &Stream::permute_suits,
           {.doc = "One of the six renamings of suits for each game and epoch."}},
          {"value_weight",
           c,
           w,
           &CloneWeights::value,
           {.bounds = at_least(0), .doc = "Of the value head's loss beside the policy's."}},
          {"rank_weight", c, w, &CloneWeights::rank, {.bounds = at_least(0), .doc = "Of the rank head's."}},
          {"tenpai_weight",
           c,
           w,
           &CloneWeights::tenpai,
           {.bounds = at_least(0), .doc = "Of the tenpai head's."}},
          {"danger_weight",
           c,
           w,
           &CloneWeights::danger,
           {.bounds = at_least(0), .doc = "Of the danger head's."}},
      },
      optimizer_fields(c, &CloneOptions::optimizer));
}

std::vector<ConfigTable<MahjongPpoOptions>::Field> ppo_fields() {
  using Ppo = ConfigTable<MahjongPpoOptions>::Field;
  constexpr auto p = &MahjongPpoOptions::ppo;
  constexpr auto a = &PpoOptions::advantage;
  constexpr auto l = &PpoOptions::loss;
  return joined<Ppo>(
      {
          {"tables", &MahjongPpoOptions::tables, {.bounds = at_least(1), .doc = "Games played together."}},
          {"rollout_steps",
           p,
           &PpoOptions::rollout_steps,
           {.bounds = at_least(1), .doc = "Decisions of each game between two rounds of learning."}},
          {"minibatch_size",
           p,
           &PpoOptions::minibatch,
           {.bounds = at_least(1), .doc = "Decisions in a step."}},
          {"ppo_epochs", p, &PpoOptions::epochs, {.bounds = at_least(1), .doc = "Epochs over a rollout."}},
          {"gamma", p, a, &AdvantageOptions::gamma, {.bounds = between(0, 1), .doc = "Discount."}},
          {"gae_lambda",
           p,
           a,
           &AdvantageOptions::lambda,
           {.bounds = between(0, 1), .doc = "Of generalized advantage estimation."}},
          {"clip_range",
           p,
           l,
           &PpoCoefficients::clip,
           {.bounds = positive(), .doc = "Ratios count up to 1 and this."}},
          {"value_coef",
           p,
           l,
           &PpoCoefficients::value,
           {.bounds = at_least(0), .doc = "Of the value's loss."}},
          {"entropy_coef",
           p,
           l,
           &PpoCoefficients::entropy,
           {.bounds = at_least(0), .doc = "Of the entropy, at the beginning."}},
          Ppo::documented("final_entropy_coef", "a number, at least 0",
                          {.default_text = "0.005, or entropy_coef where that is less",
                           .doc = "At the end; in a line over the run."}),
          {"kl_coef",
           p,
           l,
           &PpoCoefficients::anchor,
           {.bounds = at_least(0),
            .default_text = "0.05; 1 in distil",
            .doc = "Of the KL to base_model, in distil to the teacher, at the beginning."}},
          Ppo::documented(
              "final_kl_coef", "a number, at least 0",
              {.default_text = "kl_coef; 0.3 in distil", .doc = "At the end; in a line over the run."}),
          {"kl_temperature",
           p,
           l,
           &PpoCoefficients::anchor_temperature,
           {.bounds = positive(),
            .default_text = "1; 3 in distil",
            .doc = "Softens both policies of that KL, which counts the square of it times."}},
          {"target_kl",
           p,
           &PpoOptions::target_kl,
           {.bounds = at_least(0),
            .doc = "A minibatch further than that from the policy that played ends its rollout's learning; "
                   "0: never."}},
          {"normalize_advantages",
           p,
           &PpoOptions::normalize_advantages,
           {.doc = "To mean 0 and deviation 1."}},
          {"eval_walls",
           &MahjongPpoOptions::eval_walls,
           {.bounds = between(0, 1e6),
            .doc = "Walls of an evaluation against three anchors, four games each."}},
          Ppo::documented("reward_model", "a path",
                          {.default_text = "points are the reward",
                           .doc = "Directory that grp left: rounds pay chances of places."}),
          Ppo::documented("teacher", "a path",
                          {.default_text = "none; distil needs one", .doc = "Directory that oracle left."}),
      },
      optimizer_fields(p, &PpoOptions::optimizer));
}

}  // namespace

namespace mahjong_train {

const ConfigTable<MahjongTrainConfig>& run_keys() {
  static const Table table{run_section()};
  return table;
}

const ConfigTable<DualPoolNetConfig>& network_keys() {
  using Net = ConfigTable<DualPoolNetConfig>::Field;
  static const ConfigTable<DualPoolNetConfig> table{
      {{"Network",
        {
            {"input_channels",
             &DualPoolNetConfig::input_channels,
             {.bounds = at_least(1),
              .default_text = "96",
              .doc = "96 with context; 121 with the outlook of each choice, too; or 85."}},
            {"channels",
             &DualPoolNetConfig::channels,
             {.bounds = at_least(1), .doc = "Of the convolutions."}},
            {"blocks", &DualPoolNetConfig::blocks, {.bounds = at_least(1), .doc = "Residual blocks."}},
            {"kernel", &DualPoolNetConfig::kernel, {.bounds = at_least(1), .doc = "Width, odd."}},
            Net::documented("norm_groups", "a whole number, at least 1",
                            {.default_text = "32, at most channels / 4", .doc = "Of group norm."}),
            Net::documented("se_reduction", "a whole number, at least 1",
                            {.default_text = "16, at most channels / 4",
                             .doc = "Of squeeze and excite: channels over the hidden width."}),
            {"final_norm", &DualPoolNetConfig::final_norm, {.doc = "A norm before the heads."}},
        }}},
      "network"};
  return table;
}

const ConfigTable<MahjongTrainConfig>& games_keys() {
  static const Table table{games_section()};
  return table;
}

const ConfigTable<mahjong::GameFilter>& filter_keys() {
  using mahjong::GameFilter;
  static const ConfigTable<GameFilter> table{
      {{"grp and bc: whose games",
        {
            {"players", &GameFilter::players, {.doc = "Names in the logs: learn from these alone."}},
            {"min_games",
             &GameFilter::min_games,
             {.bounds = at_least(0), .doc = "Of a player in these logs, or its decisions are left out."}},
            {"max_mean_place",
             &GameFilter::max_mean_place,
             {.bounds = between(1, 4), .doc = "Of its whole games: 2.5 is average; 4: any."}},
            {"max_deal_in_rate",
             &GameFilter::max_deal_in_rate,
             {.bounds = between(0, 1), .doc = "Share of its rounds in which it deals in; 1: any."}},
            {"min_win_rate",
             &GameFilter::min_win_rate,
             {.bounds = between(0, 1), .doc = "Share of its rounds that it wins; 0: any."}},
            {"whole_games",
             &GameFilter::whole_games,
             {.doc = "Leave out games whose log breaks off before their end."}},
        }}},
      "filter"};
  return table;
}

const ConfigTable<MahjongTrainConfig>& rank_keys() {
  static const Table table{{"grp", rank_fields()}};
  return table;
}

const ConfigTable<MahjongTrainConfig>& clone_keys() {
  static const Table table{{"bc", clone_fields()}};
  return table;
}

const ConfigTable<MahjongPpoOptions>& ppo_keys() {
  static const ConfigTable<MahjongPpoOptions> table{{"ppo, oracle and distil", ppo_fields()}};
  return table;
}

const ConfigTable<MahjongPpoOptions::OracleCritic>& oracle_critic_keys() {
  using Critic = MahjongPpoOptions::OracleCritic;
  static const ConfigTable<Critic> table{
      {{"ppo and distil: a critic that sees hidden tiles",
        {
            {"channels",
             &Critic::channels,
             {.bounds = at_least(0), .doc = "Of its convolutions; 0: the value is the player's own."}},
            {"blocks", &Critic::blocks, {.bounds = at_least(1), .doc = "Residual blocks."}},
        }}},
      "oracle_critic"};
  return table;
}

const ConfigTable<MahjongPpoOptions>& base_keys() {
  static const ConfigTable<MahjongPpoOptions> table{
      {{"ppo, oracle and distil: the network it began as",
        {
            {"base_model",
             &MahjongPpoOptions::base_share,
             {.bounds = between(0, 1),
              .default_text = "0; 1 in oracle",
              .doc = "Share that base_model takes, as it was."}},
        }}},
      "league"};
  return table;
}

const ConfigTable<CostLimitOptions>& deal_in_keys() {
  static const ConfigTable<CostLimitOptions> table{
      {{"ppo: a limit of deal-ins",
        {
            {"target",
             &CostLimitOptions::target,
             {.bounds = between(0, 1), .doc = "Deal-ins a round that are allowed, 0.12 say; 0: no limit."}},
            {"kp",
             &CostLimitOptions::proportional,
             {.bounds = at_least(0), .doc = "What a rate above it adds to the price of a deal-in, at once."}},
            {"ki",
             &CostLimitOptions::integral,
             {.bounds = at_least(0), .doc = "What it adds with each rollout."}},
            {"kd", &CostLimitOptions::derivative, {.bounds = at_least(0), .doc = "What its rise adds."}},
            {"max",
             &CostLimitOptions::most,
             {.bounds = positive(), .doc = "Of the price, in the unit of the rewards."}},
        }}},
      "deal_in_limit"};
  return table;
}

const ConfigTable<LeagueOptions>& league_keys() {
  static const ConfigTable<LeagueOptions> table{
      {{"ppo, oracle and distil: the other seats",
        {
            {"past",
             &LeagueOptions::past,
             {.bounds = between(0, 1),
              .default_text = "0.3; 0 in oracle",
              .doc = "Share that past selves take."}},
            {"past_selves",
             &LeagueOptions::past_selves,
             {.bounds = at_least(1), .doc = "So many are kept; the newest takes the oldest one's place."}},
            {"past_every",
             &LeagueOptions::past_every,
             {.bounds = at_least(1), .unit = "rollouts", .doc = "Between two of them."}},
            ConfigTable<LeagueOptions>::Field::documented(
                "directory", "a path",
                {.default_text = "none is kept",
                 .doc = "Keeps every past self there, as a network: ingot mahjong ladder rates them."}),
            ConfigTable<LeagueOptions>::Field::documented(
                "players", "a mapping",
                {.default_text = "{}",
                 .doc = "Players that stay as they are, with their shares: {rule-based: 0.2}."}),
        }}},
      "league"};
  return table;
}

}  // namespace mahjong_train

std::vector<ConfigSection> mahjong_train_reference() {
  using namespace mahjong_train;
  std::vector<ConfigSection> sections;
  for (auto& more : {run_keys().reference(), network_keys().reference(), games_keys().reference(),
                     filter_keys().reference(), rank_keys().reference(), clone_keys().reference(),
                     ppo_keys().reference(), oracle_critic_keys().reference(), deal_in_keys().reference(),
                     league_keys().reference(), base_keys().reference()})
    sections.insert(sections.end(), more.begin(), more.end());
  return sections;
}

}  // namespace ingot
