// Two-dimensional convolutions of a ResNet and of an inception block, forward and as a whole step. The
// baseline is tools/bench/conv_torch.py.
#include <benchmark/benchmark.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/rng.h"
#include "ingot/ops/conv.h"
#include "ingot/runtime/initialize.h"

namespace ingot {
namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  Tensor x = Tensor::empty(shape);
  Rng rng(RngKey{seed, 0});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(rng.normal() * 0.05);
  return x;
}

struct Case {
  const char* name;
  std::int64_t n, c, size, o, k, stride, groups;
};
constexpr Case kCases[] = {{"resnet_3x3", 16, 64, 56, 64, 3, 1, 1},
                           {"resnet_stem_7x7_stride_2", 16, 3, 224, 64, 7, 2, 1},
                           {"resnet_1x1", 16, 256, 56, 64, 1, 1, 1},
                           {"depthwise_3x3", 16, 128, 56, 128, 3, 1, 128},
                           {"inception_11x11", 32, 32, 24, 32, 11, 1, 1}};

void run(benchmark::State& state, const Case& t, ChannelLayout layout, bool step) {
  const bool last = layout == ChannelLayout::last;
  Tensor x = random(last ? Shape{t.n, t.size, t.size, t.c} : Shape{t.n, t.c, t.size, t.size}, 1);
  Tensor w = random({t.o, t.c / t.groups, t.k, t.k}, 2), b = random({t.o}, 3);
  const Conv2dOptions options{
      .stride = {t.stride, t.stride}, .padding = {t.k / 2, t.k / 2}, .groups = t.groups, .layout = layout};
  if (step) {
    for (Tensor* tensor : {&x, &w, &b}) tensor->set_requires_grad(true);
  }
  const Tensor dy = random(conv2d(x, w, b, options).shape(), 4);
  for (auto _ : state) {
    const Tensor y = conv2d(x, w, b, options);
    benchmark::DoNotOptimize(y.view().data);
    if (!step) continue;
    for (Tensor* tensor : {&x, &w, &b}) tensor->set_grad({});
    backward(y, {.grad = dy});
  }
  const double flops = 2.0 * static_cast<double>(dy.numel() * w.numel() / t.o) * (step ? 3 : 1);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  using namespace ingot;
  initialize();
  for (const Case& t : kCases) {
    for (const auto layout : {ChannelLayout::first, ChannelLayout::last}) {
      for (const bool step : {false, true}) {
        const std::string name = std::string(t.name) + (layout == ChannelLayout::last ? "/last" : "/first") +
                                 (step ? "/step" : "/forward");
        benchmark::RegisterBenchmark(name.c_str(), run, t, layout, step)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
