// A residual connection with its norm, in one operation and in two; comparing, gathering and scattering, by
// the fast kernels and by the reference ones.
#include <benchmark/benchmark.h>

#include "ingot/autograd/engine.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/runtime/initialize.h"

namespace ingot {
namespace {

Tensor values(const Shape& shape) {
  Tensor x = Tensor::empty(shape);
  normal_(x, 0, 1, RngKey{1, 2});
  return x;
}

// range(0) rows of 768; range(1): fused or not.
void bm_residual_norm(benchmark::State& state) {
  const Shape shape{state.range(0), 768};
  const Tensor x = values(shape), residual = values(shape), weight = values({768}), bias = values({768});
  for (auto _ : state) {
    if (state.range(1) != 0) {
      benchmark::DoNotOptimize(add_layer_norm(x, residual, weight, bias));
    } else {
      const Tensor sum = x + residual;
      benchmark::DoNotOptimize(layer_norm(sum, weight, bias));
    }
  }
}
BENCHMARK(bm_residual_norm)
    ->ArgNames({"rows", "fused"})
    ->ArgsProduct({{1, 256, 1024}, {0, 1}})
    ->UseRealTime();

template <class Body>
void by_kind(benchmark::State& state, Body&& body) {
  if (state.range(0) != 0) {
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    for (auto _ : state) benchmark::DoNotOptimize(body());
  } else {
    for (auto _ : state) benchmark::DoNotOptimize(body());
  }
}

void bm_less(benchmark::State& state) {
  const Tensor a = values({1 << 20}), b = values({1 << 20});
  by_kind(state, [&] { return less(a, b); });
}
BENCHMARK(bm_less)->ArgName("reference")->Arg(0)->Arg(1)->UseRealTime();

Tensor some_ids(const Shape& shape, std::int64_t below) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7919) % below;
  return Tensor::from(ids, shape);
}

// range(1): 0 whole rows, 1 elements along rows, 2 elements along columns.
void bm_gather(benchmark::State& state) {
  const Tensor x = values({1024, 768});
  const int axis = state.range(1) == 1 ? 1 : 0;
  const Tensor ids = state.range(1) == 0 ? some_ids({1024}, 1024) : some_ids({1024, 768}, 768);
  by_kind(state, [&] { return state.range(1) == 0 ? index_select(x, 0, ids) : gather(x, axis, ids); });
}
BENCHMARK(bm_gather)->ArgNames({"reference", "kind"})->ArgsProduct({{0, 1}, {0, 1, 2}})->UseRealTime();

void bm_scatter_add(benchmark::State& state) {
  const int axis = state.range(1) == 1 ? 1 : 0;
  const Tensor x = values({1024, 768}), source = values({1024, 768});
  const Tensor ids = some_ids({1024, 768}, 768);
  by_kind(state, [&] { return scatter_add(x, axis, ids, source); });
}
BENCHMARK(bm_scatter_add)->ArgNames({"reference", "axis"})->ArgsProduct({{0, 1}, {0, 1}})->UseRealTime();

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
