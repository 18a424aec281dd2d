// Forecasting networks with their papers' sizes on ETTh1: one window (what a user waits for), and one step of
// training (batch of the paper: forward, loss, backward, Adam) with f32 products as they are and rounded. The
// baseline is tools/bench/forecast_torch.py.
#include <cmath>
#include <numbers>

#include <benchmark/benchmark.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/forecast/fit_config.h"
#include "ingot/kernels/matmul_precision.h"
#include "ingot/models/forecast/model.h"
#include "ingot/ops/elementwise.h"
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
    for (std::int64_t i = 0; i < in.x.numel(); ++i) {  // daily waves: TimesNet looks for periods
      const auto step = static_cast<double>(i % config.model.lookback);
      in.x.data<float>()[i] = static_cast<float>(std::sin(step * std::numbers::pi / 12));
    }
    Tensor noise = Tensor::empty_like(in.x);
    normal_(noise, 0, 0.5, {1, 1});
    add_(in.x, noise);
    in.future_marks = Tensor::empty({batch, config.model.horizon, 4});
    uniform_(in.past_marks, -0.5, 0.5, {1, 2});
    uniform_(in.future_marks, -0.5, 0.5, {1, 3});
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

void training_step(benchmark::State& state, kernels::MatmulPrecision precision) {
  const kernels::MatmulPrecisionScope scope(precision);
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

void all_models(benchmark::internal::Benchmark* b) {
  b->DenseRange(0, static_cast<int>(forecast_models().size()) - 1)->UseRealTime();
}
BENCHMARK(one_window)->Apply(all_models)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(training_step, highest, kernels::MatmulPrecision::highest)
    ->Apply(all_models)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(training_step, medium, kernels::MatmulPrecision::medium)
    ->Apply(all_models)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
