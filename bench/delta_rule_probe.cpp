// Times the gated delta rule on one thread, step by step and in chunks in turns, beside a matmul, in
// processor time (other programs may run): delta_rule_probe [STEPS]. Heads as Qwen3-Next-80B-A3B has them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/delta_rule.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"
#include "ingot/runtime/initialize.h"

namespace {

using namespace ingot;

constexpr std::int64_t kHeads = 32, kGroups = 16, kSize = 128;
constexpr int kRounds = 7;

double seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class F>
double median_seconds(F&& f) {
  std::vector<double> times;
  for (int i = 0; i <= kRounds; ++i) {
    const double begin = seconds();
    f();
    if (i > 0) times.push_back(seconds() - begin);
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

Tensor values(const Shape& shape, std::uint64_t seed) {
  Tensor x = Tensor::empty(shape, DType::f32);
  normal_(x, 0, 1, RngKey{seed, 0});
  return x;
}

// Implementations of a kernel but the reference, the fastest first.
template <class Args>
void time_each(const kernels::Kernel<Args>& kernel, const Args& args, std::int64_t steps) {
  for (const auto& implementation : kernel.implementations(DeviceType::cpu)) {
    if (std::string_view(implementation.name) == "reference" || !implementation.accepts(args)) continue;
    const double time = median_seconds([&] { implementation.run(args, current_stream(kCpu)); });
    std::printf("%s, %s: %.0f steps/s\n", kernel.name(), implementation.name,
                static_cast<double>(steps) / time);
  }
}

}  // namespace

int main(int argc, char** argv) {
  initialize();
  set_num_threads(1);
  const NoGrad no_grad;
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 512;
  const Tensor a = values({1024, 1024}, 1), b = values({1024, 1024}, 2);
  std::printf("matmul: %.1f GFLOP/s\n", 2.147483648 / median_seconds([&] { matmul(a, b); }));
  const double unit = 1 / std::sqrt(static_cast<double>(kSize));
  const Tensor x = values({1, steps, kHeads, kSize}, 3),
               decay = square(values({1, steps, kHeads}, 4)) * -0.05,
               beta = sigmoid(values({1, steps, kHeads}, 5)),
               keys = values({1, steps, kGroups, kSize}, 6) * unit,
               queries = values({1, steps, kGroups, kSize}, 7) * unit;
  const Tensor state = Tensor::zeros({1, kHeads, kSize, kSize}), y = Tensor::zeros(x.shape());
  time_each(kernels::delta_rule,
            kernels::DeltaRuleArgs{.x = x.view(),
                                   .decay = decay.view(),
                                   .beta = beta.view(),
                                   .keys = keys.view(),
                                   .queries = queries.view(),
                                   .starts = {},
                                   .state = state.view(),
                                   .y = y.view()},
            steps);
  const auto together = std::max<std::int64_t>(std::llround(std::sqrt(static_cast<double>(steps))), 1);
  const Tensor states = Tensor::zeros({1, kHeads, (steps + together - 1) / together, kSize, kSize}),
               history = Tensor::zeros({1, kHeads, kSize, together, kSize}),
               gradient = Tensor::zeros(state.shape()), dx = Tensor::zeros(x.shape()),
               ddecay = Tensor::zeros(decay.shape()), dbeta = Tensor::zeros(beta.shape()),
               dkeys = Tensor::zeros({1, steps, kHeads, kSize}), dqueries = Tensor::zeros(dkeys.shape());
  time_each(kernels::delta_rule_backward,
            kernels::DeltaRuleBackwardArgs{.x = x.view(),
                                           .decay = decay.view(),
                                           .beta = beta.view(),
                                           .keys = keys.view(),
                                           .queries = queries.view(),
                                           .starts = {},
                                           .dy = y.view(),
                                           .states = states.view(),
                                           .history = history.view(),
                                           .gradient = gradient.view(),
                                           .dx = dx.view(),
                                           .ddecay = ddecay.view(),
                                           .dbeta = dbeta.view(),
                                           .dkeys = dkeys.view(),
                                           .dqueries = dqueries.view()},
            steps);
  return 0;
}
