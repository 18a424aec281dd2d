// Products of a GPT-2 124M training step and of decoding, and the fused head with its loss. `of_rate` is the
// share of the f32 rate of a 2048³ product in the same run.
#include "bench/matmul_rate.h"
#include <benchmark/benchmark.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/rng.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/loss.h"
#include "ingot/runtime/initialize.h"

namespace ingot {
namespace {

Tensor random(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32) {
  Tensor x = Tensor::empty(shape);
  Rng rng(RngKey{seed, 0});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(rng.normal() * 0.05);
  return to(x, dtype);
}

void report(benchmark::State& state, double flops, double bytes = 0) {
  using benchmark::Counter;
  const double n = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = Counter(flops * n / 1e9, Counter::kIsRate);
  state.counters["of_rate"] = Counter(flops * n / measured_matmul_rate(), Counter::kIsRate);
  if (bytes > 0) state.counters["GB/s"] = Counter(bytes * n / 1e9, Counter::kIsRate);
}

double product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

void linear_forward(benchmark::State& state, DType dtype) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const Tensor x = random({m, k}, 1, dtype), w = random({n, k}, 2, dtype), b = random({n}, 3, dtype);
  const NoGrad no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(linear(x, w, b).view().data);
  report(state, product(m, n, k), static_cast<double>(w.nbytes()));
}

void linear_step(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Tensor x = random({m, k}, 1), w = random({n, k}, 2), b = random({n}, 3);
  const Tensor dy = random({m, n}, 4);
  for (Tensor* t : {&x, &w, &b}) t->set_requires_grad(true);
  for (auto _ : state) {
    x.set_grad({});
    w.set_grad({});
    backward(linear(x, w, b), {.grad = dy});
  }
  report(state, 3 * product(m, n, k));
}

void linear_cross_entropy_step(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = 50257, k = 768;
  Tensor x = random({m, k}, 1), w = random({n, k}, 2);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(m));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7919 % 50257);
  const Tensor targets = Tensor::from(ids, {m});
  x.set_requires_grad(true);
  w.set_requires_grad(true);
  const auto step = [&] {
    x.set_grad({});
    w.set_grad({});
    backward(linear_cross_entropy(x, w, targets, {{}, state.range(1)}));
  };
  step();  // touches the memory once
  for (auto _ : state) step();
  report(state, 3 * product(m, n, k));
}

void batched(benchmark::State& state) {
  const std::int64_t count = state.range(0), n = state.range(1);
  const Tensor a = random({count, n, n}, 1), b = random({count, n, n}, 2);
  const NoGrad no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b).view().data);
  report(state, static_cast<double>(count) * product(n, n, n));
}

void shapes(benchmark::internal::Benchmark* b, std::initializer_list<std::int64_t> rows) {
  for (const std::int64_t m : rows) {
    for (const auto& [n, k] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
             {2304, 768}, {768, 768}, {3072, 768}, {768, 3072}, {50257, 768}}) {
      b->Args({m, n, k});
    }
  }
}

BENCHMARK_CAPTURE(linear_forward, f32, DType::f32)
    ->Apply([](auto* b) {
      shapes(b, {1, 2, 4, 8, 16, 256, 1024});
    }) -> UseRealTime();
BENCHMARK_CAPTURE(linear_forward, bf16, DType::bf16)->Apply([](auto* b) {
                                                      shapes(b, {1, 8, 256});
                                                    }) -> UseRealTime();
BENCHMARK_CAPTURE(linear_forward, f16, DType::f16)->Apply([](auto* b) {
                                                    shapes(b, {1, 256});
                                                  }) -> UseRealTime();
BENCHMARK(linear_step)->Apply([](auto* b) { shapes(b, {256, 1024}); }) -> UseRealTime();
BENCHMARK(linear_cross_entropy_step)
    ->Args({256, 0})
    ->ArgsProduct({{1024}, {0, 128, 256, 512, 1024}})
    ->UseRealTime();
BENCHMARK(batched)->Args({4096, 16})->Args({1024, 64})->Args({64, 256})->Args({4, 1024})->UseRealTime();

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("f32 matmul rate",
                              std::to_string(ingot::measured_matmul_rate() / 1e9) + " GFLOP/s");
  benchmark::RunSpecifiedBenchmarks();
}
