// BERT-base inference: the peer of tools/bench/bert_torch.py.
#include <benchmark/benchmark.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/models/encoder/bert.h"
#include "ingot/nn/param_source.h"
#include "ingot/runtime/initialize.h"

namespace ingot {
namespace {

EncoderConfig bert_base() {
  EncoderConfig c;
  c.vocab_size = 30522;
  c.hidden_size = 768;
  c.intermediate_size = 3072;
  c.num_hidden_layers = c.num_attention_heads = 12;
  return c;
}

// Two operations per multiplied pair: the layers' matrices, and both products of attention.
double flops(const EncoderConfig& c, double batch, double sequence) {
  const auto width = static_cast<double>(c.hidden_size), inner = static_cast<double>(c.intermediate_size);
  const double matrices = 4 * width * width + 2 * width * inner;
  return 2 * batch * sequence * static_cast<double>(c.num_hidden_layers) * (matrices + 2 * sequence * width);
}

void bert_base_hidden(benchmark::State& state) {
  const std::int64_t batch = state.range(0), sequence = state.range(1);
  static InitSource source(1);
  static const BertModel model(bert_base(), source);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(batch * sequence));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7919 % 30522);
  const Tensor tokens = Tensor::from(ids, {batch, sequence});
  const NoGrad no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(model.hidden({.tokens = tokens}).view().data);
  state.counters["GFLOP/s"] = benchmark::Counter(
      1e-9 * flops(model.config, static_cast<double>(batch), static_cast<double>(sequence)) *
          static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}
BENCHMARK(bert_base_hidden)
    ->ArgNames({"batch", "length"})
    ->Args({1, 128})
    ->Args({8, 128})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
