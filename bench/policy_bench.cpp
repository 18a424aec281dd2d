// The SE-ResNet policy network: a training step's passes at batch 256 and inference at batch 1, 32 and 256.
// tools/bench/policy_torch.py times the same network in PyTorch.
#include <benchmark/benchmark.h>

#include "ingot/autograd/engine.h"
#include "ingot/models/policy/se_resnet.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/reduce.h"
#include "ingot/runtime/initialize.h"

namespace ingot {
namespace {

SeResNet& net() {
  static InitSource source(1);
  static SeResNet network(source, SeResNetConfig{});
  return network;
}

Tensor normal(const Shape& shape) {
  Tensor x = Tensor::empty(shape);
  fill_(x, init::Normal{}, RngKey{2, 0});
  return x;
}

Tensor observation(std::int64_t batch) {
  return normal({batch, net().config.input_channels, net().config.width});
}

// Multiply-adds of the convolutions, twice: what the network must compute per observation.
double flops() {
  const SeResNetConfig& c = net().config;
  const auto conv = [&](std::int64_t in) {
    return 2.0 * static_cast<double>(c.width * c.kernel * in * c.channels);
  };
  return conv(c.input_channels) + 2 * static_cast<double>(c.blocks) * conv(c.channels);
}

void report(benchmark::State& state, double flops_per_iteration) {
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops_per_iteration * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

void policy_inference(benchmark::State& state) {
  const PackedSeResNet packed(net());
  const Tensor x = observation(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(packed(x).policy.view().data);
  report(state, flops() * static_cast<double>(state.range(0)));
}

void policy_training_step(benchmark::State& state) {
  const Tensor x = observation(state.range(0));
  const Tensor targets = Tensor::zeros({state.range(0)}, DType::i64);
  const auto step = [&] {
    zero_grad(net());
    const PolicyOutput output = net()(x);
    backward(add(cross_entropy(output.policy, targets), mean(square(output.value))));
  };
  step();  // the first one maps the activations' memory
  for (auto _ : state) step();
  report(state, 3 * flops() * static_cast<double>(state.range(0)));
}

BENCHMARK(policy_inference)
    ->Arg(1)
    ->Arg(32)
    ->Arg(256)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Repetitions(5)
    ->ReportAggregatesOnly();
BENCHMARK(policy_training_step)
    ->Arg(256)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Repetitions(5)
    ->ReportAggregatesOnly()
    ->Iterations(1);

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
