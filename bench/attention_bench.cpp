// Attention, forward and backward, over the products a causal mask leaves: 4·B·H·D·T(T+1)/2 forward, 2.5
// times that backward. `of_rate` is the share of the f32 rate of a 2048³ product in the same run.
#include "bench/matmul_rate.h"
#include <benchmark/benchmark.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/rng.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/rope.h"
#include "ingot/runtime/initialize.h"

namespace ingot {
namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  Tensor x = Tensor::empty(shape);
  Rng rng(RngKey{seed, 0});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(rng.normal());
  return x;
}

void report(benchmark::State& state, double flops) {
  using benchmark::Counter;
  const double n = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = Counter(flops * n / 1e9, Counter::kIsRate);
  state.counters["of_rate"] = Counter(flops * n / measured_matmul_rate(), Counter::kIsRate);
}

struct Case {
  std::int64_t batch, length, heads, kv_heads, size;
  explicit Case(const benchmark::State& s)
      : batch(s.range(0)), length(s.range(1)), heads(s.range(2)), kv_heads(s.range(3)), size(s.range(4)) {}
  double flops() const { return 2.0 * static_cast<double>(batch * heads * size * length * (length + 1)); }
};

void attention_forward(benchmark::State& state) {
  const Case c(state);
  const Tensor qkv = random({c.batch, c.length, c.heads + 2 * c.kv_heads, c.size}, 1);
  const NoGrad no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(attention_qkv(qkv, c.heads, c.kv_heads).view().data);
  report(state, c.flops());
}

void attention_backward(benchmark::State& state) {
  const Case c(state);
  Tensor qkv = random({c.batch, c.length, c.heads + 2 * c.kv_heads, c.size}, 1);
  qkv.set_requires_grad(true);
  const Tensor y = attention_qkv(qkv, c.heads, c.kv_heads);
  const Tensor dy = random(y.shape(), 2);
  for (auto _ : state) {
    qkv.set_grad({});
    backward(y, {.grad = dy, .retain_graph = true});
  }
  report(state, 2.5 * c.flops());
}

// One token of each sequence against a cache of `length` keys: bound by reading the cache.
void attention_decode(benchmark::State& state) {
  const Case c(state);
  const Tensor q = random({c.batch, 1, c.heads, c.size}, 1);
  const Tensor k = random({c.batch, c.length, c.kv_heads, c.size}, 2), v = random(k.shape(), 3);
  const NoGrad no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(attention(q, k, v).view().data);
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(k.nbytes() + v.nbytes()) * static_cast<double>(state.iterations()) / 1e9,
      benchmark::Counter::kIsRate);
}

void rope_forward(benchmark::State& state) {
  const Case c(state);
  const Tensor x = random({c.batch, c.length, c.heads, c.size}, 1);
  const RopeTable table = rope_table(rope_frequencies(c.size, 10000.0), c.length);
  const NoGrad no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(rope(x, table).view().data);
  state.counters["GB/s"] =
      benchmark::Counter(2 * static_cast<double>(x.nbytes()) * static_cast<double>(state.iterations()) / 1e9,
                         benchmark::Counter::kIsRate);
}

void cases(benchmark::internal::Benchmark* b) {
  for (const auto& args : std::initializer_list<std::vector<std::int64_t>>{{4, 64, 12, 12, 64},
                                                                           {1, 1024, 12, 12, 64},
                                                                           {1, 4096, 12, 12, 64},
                                                                           {1, 1024, 16, 4, 64},
                                                                           {1, 1024, 8, 8, 128},
                                                                           {1, 4096, 8, 2, 128},
                                                                           {1, 1024, 8, 1, 64}}) {
    b->Args(args);
  }
  b->UseRealTime();
}

BENCHMARK(attention_forward)->Apply(cases);
BENCHMARK(attention_backward)->Apply(cases);
BENCHMARK(attention_decode)
    ->Args({1, 128, 12, 12, 64})
    ->Args({1, 1024, 12, 12, 64})
    ->Args({1, 8192, 12, 12, 64})
    ->Args({1, 8192, 32, 4, 64})
    ->Args({8, 1024, 12, 12, 64})
    ->Args({1, 8192, 8, 1, 128})
    ->UseRealTime();
BENCHMARK(rope_forward)->Args({1, 1024, 12, 12, 64})->UseRealTime();

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("f32 matmul rate",
                              std::to_string(ingot::measured_matmul_rate() / 1e9) + " GFLOP/s");
  benchmark::RunSpecifiedBenchmarks();
}
