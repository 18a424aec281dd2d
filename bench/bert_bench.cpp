// BERT-base inference, beside tools/bench/bert_torch.py (f32) and tools/bench/bert_onnx.py (int8).
#include <map>

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

// Random weights, quantized where `format` names one.
class RandomWeights final : public ParamProvider {
 public:
  explicit RandomWeights(std::string format) : format_(std::move(format)) {}
  Tensor provide(const ParamRequest& request) override { return source_.provide(request); }
  quant::PackedPtr provide_quantized(const std::string& name, const Shape& shape) override {
    if (format_.empty() || shape.rank() != 2) return nullptr;
    const NoGrad no_grad;
    const Tensor weight = source_.provide({.name = name, .shape = shape, .init = init::Normal{.std = 0.02}});
    return quant::quantize_and_pack(weight, format_, name);
  }

 private:
  InitSource source_{1};
  std::string format_;
};

const BertModel& model_in(const std::string& format) {
  static std::map<std::string, std::unique_ptr<BertModel>> models;
  std::unique_ptr<BertModel>& model = models[format];
  if (model == nullptr) {
    RandomWeights weights(format);
    model = std::make_unique<BertModel>(bert_base(), weights);
  }
  return *model;
}

void bert_base_hidden(benchmark::State& state, const std::string& format) {
  const std::int64_t batch = state.range(0), sequence = state.range(1);
  const BertModel& model = model_in(format);
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
void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"batch", "length"})
      ->Args({1, 128})
      ->Args({8, 128})
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}
BENCHMARK_CAPTURE(bert_base_hidden, f32, std::string())->Apply(shapes);
BENCHMARK_CAPTURE(bert_base_hidden, f32_tiles, std::string("f32"))->Apply(shapes);
BENCHMARK_CAPTURE(bert_base_hidden, q8_0, std::string("q8_0"))->Apply(shapes);
BENCHMARK_CAPTURE(bert_base_hidden, w8a8, std::string("w8a8"))->Apply(shapes);

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
