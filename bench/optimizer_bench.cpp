// Optimizer steps at the size of GPT-2 (124M parameters in its 148 tensors' shapes), as GB/s of the memory
// traffic they cannot avoid, beside what this machine's memory gives to the plainest loops in the same run.
#include <algorithm>
#include <vector>

#include <benchmark/benchmark.h>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/runtime/initialize.h"

namespace ingot {
namespace {

constexpr std::int64_t kElements = 124'000'000;

std::vector<Shape> gpt2_shapes() {
  std::vector<Shape> shapes = {{50257, 768}, {1024, 768}, {768}, {768}};
  for (int layer = 0; layer < 12; ++layer) {
    for (const Shape& shape :
         {Shape{768}, Shape{768}, Shape{2304, 768}, Shape{2304}, Shape{768, 768}, Shape{768}, Shape{768},
          Shape{768}, Shape{3072, 768}, Shape{3072}, Shape{768, 3072}, Shape{768}}) {
      shapes.push_back(shape);
    }
  }
  return shapes;
}

std::vector<Tensor> gpt2_tensors(float value) {
  std::vector<Tensor> tensors;
  for (const Shape& shape : gpt2_shapes()) {
    tensors.push_back(Tensor::empty(shape));
    float* data = tensors.back().data<float>();
    parallel_for(shape.numel(), 65536,
                 [&](std::int64_t begin, std::int64_t end) { std::fill(data + begin, data + end, value); });
  }
  return tensors;
}

void report(benchmark::State& state, double bytes_per_iteration) {
  state.counters["GB/s"] = benchmark::Counter(
      bytes_per_iteration * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

// The limit for the shape of an AdamW step: four streams in, three of them out again.
void BM_LimitUpdateThreeOfFour(benchmark::State& state) {
  const Tensor a = Tensor::zeros({kElements}), b = Tensor::zeros({kElements}), c = Tensor::zeros({kElements}),
               g = Tensor::zeros({kElements});
  using V = float __attribute__((vector_size(64)));
  auto *pa = reinterpret_cast<V*>(a.data<float>()), *pb = reinterpret_cast<V*>(b.data<float>()),
       *pc = reinterpret_cast<V*>(c.data<float>());
  const auto* pg = reinterpret_cast<const V*>(g.data<float>());
  for (auto _ : state) {
    parallel_for(kElements / 16, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const V x = pg[i], va = pa[i], vb = pb[i],
                vc = pc[i];  // all before a store: the arrays alias in 4 KiB
        pa[i] = va + x;
        pb[i] = vb + x;
        pc[i] = vc + x;
      }
    });
  }
  report(state, 28.0 * kElements);
}
BENCHMARK(BM_LimitUpdateThreeOfFour)->Unit(benchmark::kMillisecond)->UseRealTime();

void BM_AdamW(benchmark::State& state) {
  const auto p = gpt2_tensors(0.1F), g = gpt2_tensors(0.01F), m = gpt2_tensors(0), v = gpt2_tensors(0);
  const Tensor clip = Tensor::scalar(0.5F);
  std::vector<kernels::AdamWTensor> list;
  double elements = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    list.push_back({.param = p[i].view(),
                    .grad = g[i].view(),
                    .m = m[i].view(),
                    .v = v[i].view(),
                    .lr = 1e-4,
                    .weight_decay = 0.1,
                    .bias_correction1 = 0.5,
                    .bias_correction2 = 0.5});
    elements += static_cast<double>(p[i].numel());
  }
  for (auto _ : state) {
    launch(kernels::adamw, current_stream(kCpu), {.tensors = list, .grad_scale = clip.view()});
  }
  report(state, 28 * elements);
}
BENCHMARK(BM_AdamW)->Unit(benchmark::kMillisecond)->UseRealTime();

void BM_GlobalNorm(benchmark::State& state) {
  const auto tensors = gpt2_tensors(0.01F);
  std::vector<View> views;
  double elements = 0;
  for (const Tensor& tensor : tensors) {
    views.push_back(tensor.view());
    elements += static_cast<double>(tensor.numel());
  }
  const Tensor partials = Tensor::empty({kernels::norm_partials(views)}, DType::f64),
               norm = Tensor::empty({});
  for (auto _ : state) {
    launch(kernels::global_norm, current_stream(kCpu),
           {.tensors = views, .partials = partials.view(), .norm = norm.view()});
  }
  report(state, 4 * elements);
}
BENCHMARK(BM_GlobalNorm)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
