#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/cli/bench.h"
#include "ingot/cli/bench_scripts.h"
#include "ingot/cli/launch_breakdown.h"
#include "ingot/cli/torch_peer.h"
#include "ingot/models/policy/se_resnet.h"
#include "ingot/nn/init.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/reduce.h"
#include "ingot/optim/optimizer.h"
#include "ingot/train/machine_limit.h"

namespace ingot::cli {
namespace {

struct PolicyBenchOptions {
  std::int64_t batch = 1, runs = 21;
  bool train = false, breakdown = false, json = false;
  TorchOptions torch;
};

// The operations of the convolutions of one observation: twice their multiply-adds.
double convolution_flops(const SeResNetConfig& c) {
  const auto conv = [&](std::int64_t in) {
    return 2.0 * static_cast<double>(c.width * c.kernel * in * c.channels);
  };
  return conv(c.input_channels) + 2 * static_cast<double>(c.blocks) * conv(c.channels);
}

struct PolicyTimes {
  std::vector<double> seconds;
  LaunchBreakdown breakdown;
};

// Seconds of each run, taken in turn with the peers'. The first two, which map memory, do not count.
PolicyTimes take_turns(const PolicyBenchOptions& o, TorchPeers& peers, const std::function<void()>& run) {
  const auto timed_run = [&] {
    const Stopwatch watch;
    run();
    return watch.seconds();
  };
  PolicyTimes times;
  for (std::int64_t i = 0; i < o.runs + 2; ++i) {
    const double seconds = timed_run();
    if (i < 2) continue;
    times.seconds.push_back(seconds);
    peers.run_once();
  }
  if (o.breakdown) times.breakdown = break_down(timed_run);
  return times;
}

PolicyTimes time_inference(const PolicyBenchOptions& o, const SeResNet& net, const Tensor& observation,
                           TorchPeers& peers) {
  const PackedSeResNet packed(net);
  return take_turns(o, peers, [&] { static_cast<void>(packed(observation)); });
}

// Forward, loss, backward, AdamW.
PolicyTimes time_training(const PolicyBenchOptions& o, SeResNet& net, const Tensor& observation,
                          TorchPeers& peers) {
  const Tensor targets = Tensor::zeros({o.batch}, DType::i64);
  AdamW optimizer(parameters(net), {.learning_rate = 1e-4});
  return take_turns(o, peers, [&] {
    const PolicyOutput output = net(observation);
    backward(add(cross_entropy(output.policy, targets), mean(square(output.value))));
    optimizer.step();
    optimizer.zero_grad();
  });
}

int run(const PolicyBenchOptions& o) {
  for (const auto& [option, value] : {std::pair{"--batch", o.batch}, {"--runs", o.runs}}) {
    INGOT_CHECK(value > 0, InvalidConfig(option, fmt::format("must be at least 1, got {}", value)));
  }
  const double limit = measure_matmul_flops();
  TorchPeers peers(
      o.torch, bench_scripts::policy_torch(),
      {"--cases", o.train ? "train" : std::to_string(o.batch), "--batch", std::to_string(o.batch)});
  InitSource source(1);
  SeResNet net(source, SeResNetConfig{});
  const Tensor observation = Tensor::empty({o.batch, net.config.input_channels, net.config.width});
  fill_(observation, init::Normal{}, RngKey{2, 0});
  const PolicyTimes times =
      o.train ? time_training(o, net, observation, peers) : time_inference(o, net, observation, peers);
  const double seconds = median(times.seconds);
  const double flops =
      (o.train ? 3 : 1) * static_cast<double>(o.batch) * convolution_flops(net.config) / seconds;
  const std::vector<TorchResult> results = peers.results(times.seconds);
  if (o.json) {
    nlohmann::ordered_json json{
        {"work", o.train ? "train" : "inference"},
        {"batch", o.batch},
        {"threads", num_threads()},
        {"step_ms", seconds * 1e3},
        {"gflops", flops * 1e-9},
        {"matmul_gflops", limit * 1e-9},
        {"peak_memory_mib", peak_memory_mib()},
        {"peers", parse_json<nlohmann::ordered_json>(to_json(results), "PyTorch's results")}};
    if (o.breakdown)
      json["breakdown"] = parse_json<nlohmann::ordered_json>(to_json(times.breakdown), "the breakdown");
    fmt::print("{}\n", dump_json(json, 2));
    return 0;
  }
  fmt::print("policy network, {}, batch {}, f32, {} threads, median of {}\n",
             o.train ? "training step" : "inference", o.batch, num_threads(), o.runs);
  fmt::print("  {:>8.2f} ms, peak memory {:.0f} MiB\n", seconds * 1e3, peak_memory_mib());
  fmt::print(
      "  {:.0f} GFLOP/s in convolutions = {:.0f} % of the {:.0f} GFLOP/s that matrix products reach here\n",
      flops * 1e-9, 100 * flops / limit, limit * 1e-9);
  fmt::print("{}", describe(results));
  if (o.breakdown) fmt::print("{}", describe(times.breakdown, "of a run"));
  return 0;
}

}  // namespace

void add_bench_policy(Command& bench) {
  auto o = std::make_shared<PolicyBenchOptions>();
  Command command =
      bench.subcommand("policy", "Time the SE-ResNet policy network (40 blocks of 256 channels)");
  command.flag("--train", o->train, "Whole training steps instead of inference");
  command.option("--batch", o->batch, "Observations at once");
  command.option("--runs", o->runs, "Runs to take the median of");
  add_torch_options(command, o->torch);
  command.flag("--breakdown", o->breakdown, "One more run that shows where its time goes, kernel by kernel");
  command.flag("--json", o->json, "Print JSON");
  command.example(
      "ingot bench policy --train --batch 256 --runs 3 --against torch --python ~/venv/bin/python",
      "training steps in turn with PyTorch's");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
