// Forecasting networks with their papers' sizes on ETTh1: one window (what a user waits for), and one step of
// training (batch of the paper: forward, loss, backward, Adam). The peer is tools/bench/forecast_torch.py.
#include <benchmark/benchmark.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/forecast/fit_config.h"
#include "ingot/models/forecast/model.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/random.h"
#include "ingot/optim/optimizer.h"
#include "ingot/runtime/initialize.h"

namespace ingot {
namespace {

struct Case {
  forecast::FitConfig config;
  std::unique_ptr<ForecastModel> model;

  explicit Case(const benchmark::State& state)
      : config(forecast::FitConfig::defaults(forecast_models()[static_cast<std::size_t>(state.range(0))])) {
    config.model.channels = 7;
    config.model.time_features = 4;
    InitSource source(1);
    model = make_forecast_model(config.model, source);
  }
  ForecastInput input(std::int64_t batch) const {
    ForecastInput in;
    in.x = Tensor::empty({batch, 7, config.model.lookback});
    in.past_marks = Tensor::empty({batch, config.model.lookback, 4});
    normal_(in.x, 0, 1, {1, 1});
    uniform_(in.past_marks, -0.5, 0.5, {1, 2});
    return in;
  }
};

void one_window(benchmark::State& state) {
  const Case c(state);
  const ForecastInput in = c.input(1);
  const NoGrad no_grad;
  for (auto _ : state) benchmark::DoNotOptimize((*c.model)(in).view().data);
  state.SetLabel(c.config.model.model);
}

void training_step(benchmark::State& state) {
  const Case c(state);
  const ForecastInput in = c.input(c.config.batch_size);
  const Tensor target = Tensor::zeros({c.config.batch_size, 7, c.config.model.horizon});
  c.model->set_training(true);
  Adam optimizer(parameters(*c.model), AdamConfig{.learning_rate = 1e-4});
  for (auto _ : state) {
    optimizer.zero_grad();
    backward(mse_loss((*c.model)(in), target));
    optimizer.step();
  }
  state.SetLabel(c.config.model.model);
}

BENCHMARK(one_window)->DenseRange(0, 3)->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK(training_step)->DenseRange(0, 3)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
