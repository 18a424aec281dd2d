#include "ingot/benchmark/selfplay.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/base/units.h"
#include "ingot/benchmark/bench_scripts.h"
#include "ingot/benchmark/launch_breakdown.h"
#include "ingot/benchmark/measure.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/rl/dual_pool_player.h"
#include "ingot/rl/mahjong_game.h"
#include "ingot/rl/ppo_task.h"
#include "ingot/train/machine_limit.h"

namespace ingot::benchmark {
namespace {

/// The games, and the seconds that they took.
class TimedGames final : public Environment {
 public:
  explicit TimedGames(std::int64_t tables) : games_(static_cast<std::size_t>(tables), /*seed=*/1) {}

  const EnvironmentSpec& spec() const override { return games_.spec(); }
  std::size_t games() const override { return games_.games(); }
  int player(std::size_t game) const override { return games_.player(game); }
  void observe(std::span<float> observations, std::span<float> legal) const override {
    const Stopwatch watch;
    games_.observe(observations, legal);
    seconds_ += watch.seconds();
  }
  void step(std::span<const std::int32_t> actions, std::span<float> rewards,
            std::span<std::uint8_t> ended) override {
    const Stopwatch watch;
    games_.step(actions, rewards, ended);
    seconds_ += watch.seconds();
  }
  std::vector<std::byte> state() const override { return games_.state(); }
  void restore(std::span<const std::byte> state) override { games_.restore(state); }

  double seconds() const { return seconds_; }

 private:
  GameBatch<MahjongGame> games_;
  mutable double seconds_ = 0;
};

// The operations of the convolutions of one observation's trunk: twice their multiply-adds.
double trunk_flops(const DualPoolNetConfig& c) {
  const auto conv = [&](std::int64_t in) {
    return 2.0 * static_cast<double>(c.width * c.kernel * in * c.channels);
  };
  return conv(c.input_channels) + 2 * static_cast<double>(c.blocks) * conv(c.channels);
}

struct SelfplayTimes {
  std::vector<double> rollout, games, evaluation, step;  // seconds; of one batch; of one minibatch
  LaunchBreakdown breakdown;
};

// What is timed: the games, and PPO on them.
class Selfplay {
 public:
  Selfplay(const SelfplayOptions& o, ComputeBackend& on)
      : options_(o),
        on_(on),
        source_(/*seed=*/1, parse_dtype(o.dtype), on.device()),
        net_(source_, {.input_channels = MahjongGame::spec().observation.at(0),
                       .channels = o.channels,
                       .blocks = o.blocks,
                       .norm_groups = std::min<std::int64_t>(32, o.channels / 4),
                       .se_reduction = std::min<std::int64_t>(16, o.channels / 4)}),
        player_(net_),
        games_(o.tables) {}

  double flops() const { return trunk_flops(net_.config); }

  SelfplayTimes run(TorchPeers& peers, TorchPeers& learners) {
    SelfplayTimes times;
    RolloutCollector collector(games_, player_);
    for (std::int64_t i = 0; i <= options_.runs; ++i) {
      const double before = games_.seconds();
      const double rollout = timed([&] {
        static_cast<void>(collector.collect(options_.rollout_steps, {2, static_cast<std::uint64_t>(i)}));
      });
      const double evaluation = timed([&] { evaluate(); });
      if (i == 0) continue;  // memory is allocated, kernels are chosen
      peers.run_once();
      times.rollout.push_back(rollout);
      times.games.push_back(games_.seconds() - before);
      times.evaluation.push_back(evaluation);
    }
    times.step = learn(learners);
    if (options_.breakdown) times.breakdown = break_down([&] { return timed([&] { evaluate(); }); });
    return times;
  }

 private:
  double timed(const std::function<void()>& f) {
    const Stopwatch watch;
    f();
    on_.synchronize(current_stream(on_.device()));
    return watch.seconds();
  }

  // One batch of positions on the device: the network alone.
  void evaluate() {
    const NoGrad no_grad;
    if (!positions_.defined()) {
      const auto size = static_cast<std::size_t>(games_.spec().observation_size());
      std::vector<float> seen(games_.games() * size),
          legal(games_.games() * static_cast<std::size_t>(games_.spec().actions));
      games_.observe(seen, legal);
      positions_ = to(Tensor::from(seen, {options_.tables, net_.config.input_channels, net_.config.width}),
                      on_.device());
    }
    static_cast<void>(player_(positions_));
  }

  // Steps of PPO that play nothing.
  std::vector<double> learn(TorchPeers& learners) {
    PpoOptions ppo{.rollout_steps = std::max<std::int64_t>(1, 8 * options_.minibatch / options_.tables)};
    ppo.minibatch = options_.minibatch;
    PpoTask task(games_, player_, ppo);
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < 8; ++i) {
      const double step = timed([&] {
        const StepWork work = task.gradients(i, {});
        task.optimizer().apply(i, work.grad_scale);
      });
      if (i <= 1) continue;  // the first one plays
      seconds.push_back(step);
      learners.run_once();
    }
    return seconds;
  }

  const SelfplayOptions& options_;
  ComputeBackend& on_;
  InitSource source_;
  DualPoolNet net_;
  DualPoolPlayer player_;
  TimedGames games_;
  Tensor positions_;
};

}  // namespace

Report time_selfplay(const SelfplayOptions& o) {
  ComputeBackend& on = backend(choose_device(o.device));
  INGOT_CHECK(o.torch.against.empty() || (on.capabilities().host_memory && o.dtype == "f32"),
              InvalidConfig("against", "the loop of riichienv and PyTorch runs on a CPU in f32"));
  const double limit = measure_matmul_flops(parse_dtype(o.dtype), on.device());
  TorchPeers peers(
      o.torch, bench_scripts::selfplay_torch(),
      {"--tables", std::to_string(o.tables), "--decisions", std::to_string(o.tables * o.rollout_steps),
       "--channels", std::to_string(o.channels), "--blocks", std::to_string(o.blocks)});
  TorchPeers learners(o.torch, bench_scripts::selfplay_torch(),
                      {"--learn", "--minibatch", std::to_string(o.minibatch), "--channels",
                       std::to_string(o.channels), "--blocks", std::to_string(o.blocks)});
  Selfplay selfplay(o, on);
  const SelfplayTimes times = selfplay.run(peers, learners);
  const std::vector<TorchResult> results = peers.results(times.rollout),
                                 learned_beside = learners.results(times.step);
  const double rollout = median(times.rollout), evaluation = median(times.evaluation),
               step = median(times.step), games = median(times.games);
  const double decisions = static_cast<double>(o.tables * o.rollout_steps) / rollout;
  const double evaluated = static_cast<double>(o.tables) / evaluation;
  const double learned = static_cast<double>(o.minibatch) / step;
  const double learning = 3 * selfplay.flops() * learned;
  nlohmann::ordered_json json{
      {"work", "selfplay"},
      {"channels", o.channels},
      {"blocks", o.blocks},
      {"tables", o.tables},
      {"rollout_steps", o.rollout_steps},
      {"minibatch", o.minibatch},
      {"dtype", o.dtype},
      {"device", on.capabilities().device_name},
      {"threads", num_threads()},
      {"decisions_per_second", decisions},
      {"games_share", games / rollout},
      {"evaluation_ms", evaluation * 1e3},
      {"evaluations_per_second", evaluated},
      {"evaluation_gflops", evaluated * selfplay.flops() * 1e-9},
      {"step_ms", step * 1e3},
      {"step_gflops", learning * 1e-9},
      {"matmul_gflops", limit * 1e-9},
      {"peers", parse_json<nlohmann::ordered_json>(to_json(results), "PyTorch's results")},
      {"step_peers", parse_json<nlohmann::ordered_json>(to_json(learned_beside), "PyTorch's results")}};
  if (o.breakdown)
    json["breakdown"] = parse_json<nlohmann::ordered_json>(to_json(times.breakdown), "the breakdown");
  Report report{.json = dump_json(json, 2)};
  report.text += fmt::format(
      "mahjong, {} tables, {} blocks of {} channels, {}, {}, {} threads, medians of {}\n", o.tables, o.blocks,
      o.channels, o.dtype, on.capabilities().device_name, num_threads(), o.runs);
  report.text += fmt::format("  self-play  {:>8}/s decisions, {:.1f} % of the time in the games\n",
                             human_count(decisions), 100 * games / rollout);
  report.text += describe(results);
  report.text += fmt::format(
      "  network    {:>8}/s positions, {:.2f} ms for {}: {:.0f} % of what matmuls reach here\n",
      human_count(evaluated), evaluation * 1e3, o.tables, 100 * evaluated * selfplay.flops() / limit);
  report.text += fmt::format("  PPO step   {:>8}/s decisions, {:.2f} ms for {}: {:.0f} % of it\n",
                             human_count(learned), step * 1e3, o.minibatch, 100 * learning / limit);
  report.text += describe(learned_beside);
  if (o.breakdown) report.text += describe(times.breakdown, "of an evaluation");
  return report;
}

}  // namespace ingot::benchmark
