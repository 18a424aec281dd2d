// Training, loading and running tokenizers on one core. tools/compare/tokenizer_speed.py sets the same work
// beside the Python library's.
#include <array>
#include <string>

#include <benchmark/benchmark.h>

#include "ingot/base/parallel.h"
#include "ingot/text/bpe_trainer.h"
#include "ingot/text/detokenize_stream.h"
#include "ingot/text/tokenizer.h"

namespace {

using ingot::text::Tokenizer;

/// Words of made-up syllables, the frequent ones short, as in natural text.
std::string made_up_text(std::size_t bytes, std::uint64_t different_words) {
  std::string out;
  std::uint64_t state = 1;
  const auto next = [&state] {  // splitmix64: enough for filler
    std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    return z ^ (z >> 27);
  };
  constexpr std::array<const char*, 16> kSyllables = {"ta", "ri", "on", "es", "ing", "ka", "lo", "per",
                                                      "un", "sa", "mo", "de", "ver", "il", "th", "qua"};
  while (out.size() < bytes) {
    const double u = static_cast<double>(next() >> 11) * 0x1p-53;
    auto word = static_cast<std::uint64_t>(static_cast<double>(different_words) * u * u * u * u) + 1;
    for (; word > 0; word /= 16) out += kSyllables[word * 7 % 16];
    out += next() % 12 == 0 ? ".\n" : " ";
  }
  return out;
}

Tokenizer trained(std::int32_t vocab_size, const std::string& text) {
  ingot::text::BpeTrainerConfig config;
  config.vocab_size = vocab_size;
  config.min_frequency = 0;
  return ingot::text::train_bpe(config, text);
}

void train(benchmark::State& state) {
  const std::string text = made_up_text(2 << 20, 200'000);
  for (auto _ : state) benchmark::DoNotOptimize(trained(static_cast<std::int32_t>(state.range(0)), text));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(train)->Arg(2048)->Arg(8192)->Unit(benchmark::kMillisecond);

void encode(benchmark::State& state) {
  const std::string text = made_up_text(2 << 20, 200'000);
  const Tokenizer tokenizer = trained(static_cast<std::int32_t>(state.range(0)), text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.encode(text));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(encode)->Arg(2048)->Arg(32768)->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const std::string text = made_up_text(2 << 20, 200'000);
  const Tokenizer tokenizer = trained(8192, text);
  const auto ids = tokenizer.encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.decode(ids));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

void stream(benchmark::State& state) {
  const std::string text = made_up_text(64 << 10, 200'000);
  const Tokenizer tokenizer = trained(8192, text);
  const auto ids = tokenizer.encode(text);
  for (auto _ : state) {
    ingot::text::DetokenizeStream out(tokenizer);
    for (const std::int32_t id : ids) benchmark::DoNotOptimize(out.push(id));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ids.size()));
}
BENCHMARK(stream);

/// Opening a file with as many entries as Llama 3's.
void load_128k(benchmark::State& state) {
  const Tokenizer tokenizer = trained(128'000, made_up_text(48 << 20, 3'000'000));
  const std::string json = tokenizer.to_json();
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::from_json(json));
  state.counters["tokens"] = tokenizer.vocab_size();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(json.size()));
}
BENCHMARK(load_128k)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  ingot::set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
