#include "ingot/benchmark/policy.h"

#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/benchmark/bench_scripts.h"
#include "ingot/benchmark/launch_breakdown.h"
#include "ingot/benchmark/measure.h"
#include "ingot/benchmark/torch_peer.h"
#include "ingot/models/policy/se_resnet.h"
#include "ingot/nn/init.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/reduce.h"
#include "ingot/optim/optimizer.h"
#include "ingot/train/machine_limit.h"

namespace ingot::benchmark {
namespace {

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

// Seconds of each run, taken in turn with the baselines'. The first two, which map memory, do not count.
PolicyTimes take_turns(const PolicyOptions& o, TorchPeers& peers, const std::function<void()>& run) {
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

PolicyTimes time_inference(const PolicyOptions& o, const SeResNet& net, const Tensor& observation,
                           TorchPeers& peers) {
  const PackedSeResNet packed(net);
  return take_turns(o, peers, [&] { static_cast<void>(packed(observation)); });
}

// Forward, loss, backward, AdamW.
PolicyTimes time_training(const PolicyOptions& o, SeResNet& net, const Tensor& observation,
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

}  // namespace

Report time_policy(const PolicyOptions& o) {
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
  const double memory = peak_memory_mib(backend(kCpu));
  const std::vector<TorchResult> results = peers.results(times.seconds);
  nlohmann::ordered_json json{
      {"work", o.train ? "train" : "inference"},
      {"batch", o.batch},
      {"threads", num_threads()},
      {"step_ms", seconds * 1e3},
      {"gflops", flops * 1e-9},
      {"matmul_gflops", limit * 1e-9},
      {"peak_memory_mib", memory},
      {"peers", parse_json<nlohmann::ordered_json>(to_json(results), "PyTorch's results")}};
  if (o.breakdown)
    json["breakdown"] = parse_json<nlohmann::ordered_json>(to_json(times.breakdown), "the breakdown");
  Report report{.json = dump_json(json, 2)};
  report.text += fmt::format("policy network, {}, batch {}, f32, {} threads, median of {}\n",
                             o.train ? "training step" : "inference", o.batch, num_threads(), o.runs);
  report.text += fmt::format("  {:>8.2f} ms, peak memory {:.0f} MiB\n", seconds * 1e3, memory);
  report.text += fmt::format(
      "  {:.0f} GFLOP/s in convolutions = {:.0f} % of the {:.0f} GFLOP/s that matmuls reach here\n",
      flops * 1e-9, 100 * flops / limit, limit * 1e-9);
  report.text += describe(results);
  if (o.breakdown) report.text += describe(times.breakdown, "of a run");
  return report;
}

}  // namespace ingot::benchmark
