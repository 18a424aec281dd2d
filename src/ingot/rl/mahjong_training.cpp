#include "ingot/rl/mahjong_training.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/parallel.h"
#include "ingot/core/backend.h"
#include "ingot/dist/agreement.h"
#include "ingot/dist/device_ranks.h"
#include "ingot/dist/processors.h"
#include "ingot/mahjong/game_index.h"
#include "ingot/mahjong/oracle.h"
#include "ingot/train/data_parallel.h"

namespace ingot {
namespace {

constexpr const char* kRunFormat = "ingot.mahjong";

std::unique_ptr<DualPoolNet> make_network(const MahjongTrainConfig& c, Device device) {
  if (!c.base_model.empty()) {
    auto net = open_dual_pool_net(c.base_model, {.dtype = c.dtype, .device = device});
    mahjong_encoding(net->config, c.base_model);
    return net;
  }
  InitSource source(c.seed, c.dtype, device);
  return std::make_unique<DualPoolNet>(source, c.network);
}

LrSchedule schedule_of(const MahjongTrainConfig& c) {
  return make_schedule({.type = c.lr_scheduler_type,
                        .warmup_steps = std::llround(c.warmup_ratio * static_cast<double>(c.max_steps)),
                        .total_steps = c.max_steps,
                        .final_lr_fraction = c.final_lr_fraction});
}

TrainerOptions trainer_options(const MahjongTrainConfig& c, dist::Communicator& ranks) {
  return {.total_steps = c.max_steps,
          .eval_steps = c.eval_steps,
          .max_seconds = c.max_seconds,
          .checkpoints = CheckpointDirectory(c.output_dir, {}, ranks.size() > 1 ? &ranks : nullptr),
          .checkpoint_format = fmt::format("{}.{}", kRunFormat, c.phase),
          .save_steps = c.save_steps,
          .save_total_limit = c.save_total_limit};
}

TrainerHooks trainer_hooks(const MahjongTrainConfig& c, const MahjongTrainHooks& hooks,
                           dist::Communicator& ranks) {
  TrainerHooks all{.should_stop = hooks.should_stop};
  if (ranks.size() > 1) all.ranks = &ranks;
  if (!ranks.is_first()) return all;
  all.reporters = make_reporters(c.report_to);
  all.reporters.insert(all.reporters.end(), hooks.reporters.begin(), hooks.reporters.end());
  return all;
}

// Of runs that play, after Hydra's document (docs/self-play.md).
std::vector<HealthyRange> healthy_ranges(const MahjongTrainConfig& c) {
  if (!c.plays()) return {};
  return {{.name = "entropy", .low = 0.5, .high = 2},         {.name = "kl", .high = 0.02},
          {.name = "clip fraction", .low = 0.1, .high = 0.3}, {.name = "explained variance", .low = 0.1},
          {.name = "win", .low = 0.23, .high = 0.27},         {.name = "deal-in", .low = 0.10, .high = 0.15}};
}

void log_refused(const mahjong::GameIndex& index) {
  constexpr std::size_t kNamed = 10;
  for (std::size_t i = 0; i < std::min(kNamed, index.refused().size()); ++i)
    log(LogLevel::warn, "ingot::mahjong", "a log cannot be replayed: " + index.refused()[i].error);
  if (index.refused().size() > kNamed)
    log(LogLevel::warn, "ingot::mahjong",
        fmt::format("{} more cannot; `ingot mahjong dataset stats --json` lists them",
                    index.refused().size() - kNamed));
}

// A phase's task, with the network that it trains and how that is saved.
struct Phase {
  std::unique_ptr<DualPoolNet> net;
  std::unique_ptr<RankNet> rank;  // of grp, instead of net
  std::unique_ptr<TrainTask> task;
  std::string subtitle, description, loss_unit;

  void save(const std::string& directory) const {
    if (net != nullptr)
      save_dual_pool_net(directory, *net);
    else
      save_rank_net(directory, *rank);
  }
};

struct Logs {
  mahjong::GameIndex games, validation;
  std::string description;
};

Logs logs_of(const MahjongTrainConfig& c, dist::Communicator& ranks) {
  const std::string cache = c.index.empty() ? c.output_dir + "/index.jsonl" : c.index;
  if (!ranks.is_first()) ranks.barrier();  // the first writes the index
  Logs logs{.games = mahjong::GameIndex::build(c.games, c.rules, cache)};
  if (ranks.is_first()) ranks.barrier();
  if (ranks.is_first()) log_refused(logs.games);
  const mahjong::FilterResult filtered = apply_filter(logs.games, c.filter);
  logs.validation = logs.games.take_out(c.validation_split_ratio);
  logs.description =
      fmt::format("{} decisions of {} games, {} held out, {} logs refused", logs.games.decisions(),
                  logs.games.games().size(), logs.validation.games().size(), logs.games.refused().size());
  if (filtered.decisions > 0)
    logs.description +=
        fmt::format("; filter: {} decisions and {} games left out", filtered.decisions, filtered.games);
  return logs;
}

Phase clone_phase(const MahjongTrainConfig& c, Device device, dist::Communicator& ranks) {
  const Logs logs = logs_of(c, ranks);
  CloneOptions options = c.clone;
  options.schedule = schedule_of(c);
  options.schedule_name = c.lr_scheduler_type;
  options.zero_stage = c.zero_stage;
  Phase phase{
      .net = make_network(c, device), .description = logs.description, .loss_unit = "loss of all heads"};
  phase.task = std::make_unique<CloneTask>(*phase.net, logs.games, logs.validation, c.validation_decisions,
                                           options, &ranks);
  return phase;
}

Phase ppo_phase(const MahjongTrainConfig& c, Device device, dist::Communicator& ranks) {
  MahjongPpoOptions options = c.ppo;
  options.ppo.schedule = schedule_of(c);
  options.ppo.zero_stage = c.zero_stage;
  LoadOptions frozen{.dtype = DType::f32, .device = device, .trainable = false};
  MahjongPpoNetworks networks;
  if (!c.reward_model.empty()) networks.rank = open_rank_net(c.reward_model, frozen);
  frozen.dtype = c.dtype;
  networks.base = open_dual_pool_net(c.base_model, frozen);
  if (!c.teacher.empty()) {
    networks.teacher = open_dual_pool_net(c.teacher, frozen);
    check_mahjong_teacher(networks.teacher->config, networks.base->config, c.teacher);
  }
  Phase phase{.net = make_network(c, device),
              .description = fmt::format("{} tables{}, {} decisions of each a rollout", options.tables,
                                         ranks.size() > 1 ? fmt::format(" on {} ranks", ranks.size()) : "",
                                         options.ppo.rollout_steps),
              .loss_unit = c.phase == "oracle"
                               ? "PPO's loss; the mean return tells what it is worth"
                               : "PPO's loss; of evaluations the mean place against three anchors"};
  if (c.phase == "oracle") phase.net = with_more_inputs(*phase.net, mahjong::kOracleChannels);
  phase.task = std::make_unique<MahjongPpo>(*phase.net, std::move(networks), c.base_model, options, ranks);
  return phase;
}

Phase rank_phase(const MahjongTrainConfig& c, Device device, dist::Communicator& ranks) {
  const Logs logs = logs_of(c, ranks);
  RankOptions options = c.rank;
  options.schedule = schedule_of(c);
  options.zero_stage = c.zero_stage;
  InitSource source(c.seed, DType::f32, device);
  Phase phase{.description = logs.description, .loss_unit = "nats per order of places; 3.18 knows nothing"};
  phase.rank = std::make_unique<RankNet>(source, RankNetConfig{.hidden = c.rank_hidden});
  phase.task = std::make_unique<RankTask>(*phase.rank, logs.games, logs.validation, options, &ranks);
  return phase;
}

Phase make_phase(const MahjongTrainConfig& c, Device device, dist::Communicator& ranks) {
  Phase phase = c.phase == "grp"  ? rank_phase(c, device, ranks)
                : c.phase == "bc" ? clone_phase(c, device, ranks)
                                  : ppo_phase(c, device, ranks);
  phase.subtitle = phase.net == nullptr ? fmt::format("{}: hidden layers of {}", c.phase, c.rank_hidden)
                                        : fmt::format("{}: {} blocks of {} channels", c.phase,
                                                      phase.net->config.blocks, phase.net->config.channels);
  return phase;
}

void share_machine(const MahjongTrainConfig& c, const dist::Communicator& ranks) {
  if (c.threads > 0)
    set_num_threads(static_cast<int>(c.threads));
  else if (ranks.local_size() > 1)
    dist::share_threads(ranks.local_size());
}

// Each steps the weights by the same gradients: where one began elsewhere, it would play and learn alone.
void check_ranks_agree(const MahjongTrainConfig& c, const TrainOptimizer& optimizer, TrainTask& task,
                       dist::Communicator& ranks) {
  if (ranks.size() == 1) return;
  const auto json = parse_json<nlohmann::ordered_json>(task.settings(), "the settings");
  dist::Settings settings{{"phase", c.phase},
                          {"max_steps", fmt::format("{}", c.max_steps)},
                          {"lr_scheduler_type", c.lr_scheduler_type},
                          {"eval_steps", fmt::format("{}", c.eval_steps)},
                          {"eval_walls", fmt::format("{}", c.ppo.eval_walls)},
                          {"save_steps", fmt::format("{}", c.save_steps)},
                          {"zero_stage", fmt::format("{}", c.zero_stage)},
                          {"learning_rate", fmt::format("{}", optimizer.learning_rate(0))}};
  for (const auto& [key, value] : json.items())
    if (std::ranges::find(settings, key, &dist::Settings::value_type::first) == settings.end())
      settings.emplace_back(key, dump_json(value));
  settings.emplace_back("base_model", weights_checksum(task.model()));
  dist::check_agreement(ranks, settings, "start every rank with the same configuration and networks");
}

}  // namespace

struct MahjongTraining::State {
  explicit State(dist::Communicator& communicator) : ranks(communicator) {}

  dist::Communicator& ranks;
  MahjongTrainConfig config;
  Phase phase;
  std::optional<Trainer> trainer;

  std::string model_directory() const { return config.output_dir + "/model"; }
};

MahjongTraining::MahjongTraining(MahjongTrainConfig config, MahjongTrainHooks hooks,
                                 dist::Communicator& ranks)
    : state_(std::make_unique<State>(ranks)) {
  State& s = *state_;
  s.config = std::move(config);
  const MahjongTrainConfig& c = s.config;
  // Preparing may take one rank longer than a step ever does.
  if (c.ddp_timeout == 0 || c.ddp_timeout > ranks.timeout()) ranks.set_timeout(c.ddp_timeout);
  const dist::Preparing preparing(ranks);
  share_machine(c, ranks);
  std::optional<SavedCheckpoint> saved;
  if (c.resume_from_checkpoint) {
    if (!ranks.is_first()) ranks.barrier();  // the first sweeps away what a crash left
    saved = CheckpointDirectory(c.output_dir).newest();
    if (ranks.is_first()) ranks.barrier();
  }
  make_directories(c.output_dir);
  // Refused now, not after the run, where it cannot be written.
  std::optional<AtomicDirectory> probe;
  if (ranks.is_first()) probe.emplace(s.model_directory());
  const Device device = dist::choose_rank_device(ranks, c.device);
  dist::connect_devices(ranks, device);
  INGOT_CHECK(
      !backend(device).capabilities().host_memory || c.dtype == DType::f32,
      InvalidConfig("dtype", "bf16 is for GPUs: a CPU's convolutions in it are many times slower; use f32"));
  s.phase = make_phase(c, device, ranks);
  RunInfo info{.name = c.run_name,
               .output_dir = ranks.is_first() ? c.output_dir : "",
               .subtitle = fmt::format("{}; {}", s.phase.subtitle, s.phase.description),
               .model_type = std::string(s.phase.net == nullptr ? kRankNet : kDualPoolNet),
               .loss_unit = s.phase.loss_unit,
               .healthy = healthy_ranges(c),
               .config = std::move(hooks.effective_config),
               .metadata = {.seeds = {{"seed", c.seed}}},
               .logging_steps = c.logging_steps};
  s.trainer.emplace(*s.phase.task, trainer_options(c, ranks), std::move(info),
                    trainer_hooks(c, hooks, ranks));
  if (saved.has_value()) s.trainer->resume(*saved);
  check_ranks_agree(c, s.phase.task->optimizer(), *s.phase.task, ranks);
  ranks.barrier();
  ranks.set_timeout(c.ddp_timeout);
}

MahjongTraining::~MahjongTraining() = default;

Trainer& MahjongTraining::trainer() { return *state_->trainer; }
ModuleRef MahjongTraining::network() { return state_->phase.task->model(); }
const std::string& MahjongTraining::description() const { return state_->phase.description; }

MahjongTrainResult MahjongTraining::run() {
  State& s = *state_;
  MahjongTrainResult result{.end = s.trainer->run()};
  result.steps = s.trainer->progress().step;
  result.train_loss = s.trainer->train_loss();
  result.last_checkpoint = s.trainer->last_checkpoint();
  if (!s.trainer->history().evaluations().empty())
    result.evaluation = s.trainer->history().evaluations().back();
  if (result.end == TrainEnd::stopped) return result;
  TrainOptimizer& optimizer = s.phase.task->optimizer();
  if (optimizer.has_ema()) optimizer.take_ema();
  result.model_directory = s.model_directory();
  if (s.ranks.is_first()) s.phase.save(result.model_directory);
  s.ranks.barrier();
  return result;
}

}  // namespace ingot
