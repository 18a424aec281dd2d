// Element-wise kernels, reductions and softmax in GB/s of memory that must move (each operand once), and the
// cost of an op besides its kernel. The limit to compare with is `copy` at the same size.
#include <cstring>

#include <benchmark/benchmark.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/parallel.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/reduce.h"
#include "ingot/kernels/softmax.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"
#include "ingot/runtime/initialize.h"

namespace ingot {
namespace {

Tensor values(const Shape& shape) {
  Tensor x = Tensor::empty(shape);
  normal_(x, 0, 1, RngKey{1, 2});
  return x;
}

// Kernels alone: destinations are there already.
template <class Body>
void bandwidth(benchmark::State& state, int operands, Body&& body) {
  const Tensor a = values({state.range(0) / 4}), b = values({state.range(0) / 4}),
               y = values({state.range(0) / 4});
  for (auto _ : state) {
    body(a.view(), b.view(), y.view());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * operands);
}

void bm_copy(benchmark::State& state) {
  bandwidth(state, 2, [&](const View& a, const View&, const View& y) {
    parallel_for(state.range(0), 1 << 18, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(y.as<char>() + begin, a.as<char>() + begin, static_cast<std::size_t>(end - begin));
    });
  });
}
void bm_add(benchmark::State& state) {
  bandwidth(state, 3, [](const View& a, const View& b, const View& y) {
    kernels::launch(kernels::binary, {}, {.a = a, .b = b, .y = y});
  });
}
void bm_gelu_tanh(benchmark::State& state) {
  bandwidth(state, 2, [](const View& a, const View&, const View& y) {
    kernels::launch(kernels::unary, {}, {.x = a, .y = y, .op = kernels::UnaryOp::gelu_tanh});
  });
}
void bm_gelu_erf(benchmark::State& state) {
  bandwidth(state, 2, [](const View& a, const View&, const View& y) {
    kernels::launch(kernels::unary, {}, {.x = a, .y = y, .op = kernels::UnaryOp::gelu_erf});
  });
}
void bm_gelu_tanh_backward(benchmark::State& state) {
  bandwidth(state, 3, [](const View& a, const View& b, const View& y) {
    kernels::launch(kernels::unary_backward, {},
                    {.saved = a, .dy = b, .dx = y, .op = kernels::UnaryOp::gelu_tanh});
  });
}
void bm_silu_mul(benchmark::State& state) {
  bandwidth(state, 3, [](const View& a, const View& b, const View& y) {
    kernels::launch(kernels::silu_mul, {}, {.gate = a, .up = b, .y = y});
  });
}
void bm_normal(benchmark::State& state) {
  bandwidth(state, 1, [](const View&, const View&, const View& y) {
    kernels::launch(kernels::random, {},
                    {.y = y, .distribution = kernels::Distribution::normal, .key = {1, 2}});
  });
}
void bm_dropout(benchmark::State& state) {
  bandwidth(state, 2, [](const View& a, const View&, const View& y) {
    kernels::launch(kernels::dropout, {}, {.x = a, .y = y, .p = 0.1, .key = {1, 2}});
  });
}

// As rows of 1024.
View rows(View view) {
  view.rank = 2;
  view.shape = {view.shape[0] / 1024, 1024};
  view.strides = {1024, 1};
  return view;
}

void bm_softmax(benchmark::State& state) {
  bandwidth(state, 2, [](const View& a, const View&, const View& y) {
    kernels::launch(kernels::softmax, {}, {.x = rows(a), .y = rows(y)});
  });
}
void bm_sum(benchmark::State& state) {
  bandwidth(state, 1, [](const View& a, const View&, View y) {
    y.strides = {0};
    kernels::launch(kernels::reduce, {}, {.x = a, .y = y});
  });
}
void bm_sum_over_rows(benchmark::State& state) {
  bandwidth(state, 1, [](const View& a, const View&, const View& y) {
    View sums = rows(y);
    sums.strides = {0, 1};
    kernels::launch(kernels::reduce, {}, {.x = rows(a), .y = sums});
  });
}

#define INGOT_BANDWIDTH(name) BENCHMARK(name)->ArgName("bytes")->Arg(64 << 10)->Arg(16 << 20)->UseRealTime()
INGOT_BANDWIDTH(bm_copy);
INGOT_BANDWIDTH(bm_add);
INGOT_BANDWIDTH(bm_gelu_tanh);
INGOT_BANDWIDTH(bm_gelu_erf);
INGOT_BANDWIDTH(bm_gelu_tanh_backward);
INGOT_BANDWIDTH(bm_silu_mul);
INGOT_BANDWIDTH(bm_normal);
INGOT_BANDWIDTH(bm_dropout);
INGOT_BANDWIDTH(bm_softmax);
INGOT_BANDWIDTH(bm_sum);
INGOT_BANDWIDTH(bm_sum_over_rows);

// What an op costs besides its work, on 16 elements: check, allocate, launch, record, and the release of what
// was made.
template <class Op>
void overhead(benchmark::State& state, Op&& op) {
  Tensor a = values({4, 4});
  const Tensor b = values({4, 4});
  if (state.range(0) != 0) a.set_requires_grad(true);
  for (auto _ : state) benchmark::DoNotOptimize(op(a, b));
}

void bm_op_add(benchmark::State& state) {
  overhead(state, [](const Tensor& a, const Tensor& b) { return add(a, b); });
}
void bm_op_silu(benchmark::State& state) {
  overhead(state, [](const Tensor& a, const Tensor&) { return silu(a); });
}
void bm_op_transpose(benchmark::State& state) {
  overhead(state, [](const Tensor& a, const Tensor&) { return transpose(a, 0, 1); });
}
void bm_op_reshape(benchmark::State& state) {
  overhead(state, [](const Tensor& a, const Tensor&) { return reshape(a, Shape{16}); });
}
void bm_empty(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tensor::empty({16}));
}
BENCHMARK(bm_op_add)->ArgName("recorded")->Arg(0)->Arg(1);
BENCHMARK(bm_op_silu)->ArgName("recorded")->Arg(0)->Arg(1);
BENCHMARK(bm_op_transpose)->ArgName("recorded")->Arg(0)->Arg(1);
BENCHMARK(bm_op_reshape)->ArgName("recorded")->Arg(0)->Arg(1);
BENCHMARK(bm_empty);

// Forward and backward of a chain: time per op, both directions.
void bm_chain(benchmark::State& state) {
  constexpr int kOps = 64;
  Tensor a = values({16});
  a.set_requires_grad(true);
  for (auto _ : state) {
    Tensor y = a;
    for (int i = 0; i < kOps; ++i) y = silu(y);
    backward(y, {.grad = a.detach()});
  }
  state.SetItemsProcessed(state.iterations() * kOps);
}
BENCHMARK(bm_chain);

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
