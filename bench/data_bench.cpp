// The data pipeline as a training step meets it: what a batch costs when it is made on the spot, what is left
// of that when a thread makes it ahead, and what a start with cached tokens costs. Beside the first stands a
// plain write of the same bytes, the least that any loader can do.
#include <cstring>
#include <filesystem>
#include <memory>

#include <benchmark/benchmark.h>

#include "ingot/base/files.h"
#include "ingot/data/loader.h"
#include "ingot/data/token_cache.h"
#include "ingot/runtime/initialize.h"

namespace ingot::data {
namespace {

constexpr std::int64_t kTokens = 20'000'000, kDocument = 1'700, kVocab = 50'257;

std::string token_file() {
  const std::string path = (std::filesystem::temp_directory_path() / "ingot_data_bench.tokens").string();
  write_file_atomically(path, [](FileWriter& out) {
    TokenFileWriter writer(out, kVocab);
    std::vector<std::int32_t> document(kDocument);
    for (std::int64_t d = 0; d < kTokens / kDocument; ++d) {
      for (std::int64_t i = 0; i < kDocument; ++i) {
        document[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((d * 7919 + i * 31) % kVocab);
      }
      writer.add_document(document);
    }
    writer.finish("bench");
  });
  return path;
}

std::shared_ptr<const TokenStore> store() {
  static const auto kStore = std::make_shared<const TokenStore>(TokenStore::open(token_file()));
  return kStore;
}

void batches(benchmark::State& state) {
  const auto packing = static_cast<Packing>(state.range(1));
  const auto sequences = std::make_shared<const PackedSequences>(DocumentSet::all(store()),
                                                                 PackingOptions{state.range(0), packing, 0});
  DataLoader loader(sequences, {.batch_size = 8, .seed = 1, .prefetch = static_cast<int>(state.range(2))});
  for (auto _ : state) benchmark::DoNotOptimize(loader.next()->tokens);
  state.SetItemsProcessed(state.iterations() * 8 * state.range(0));
  state.SetLabel(std::string(name(packing)) + (state.range(2) == 0 ? ", on the spot" : ", ahead"));
}
BENCHMARK(batches)
    ->ArgNames({"length", "packing", "prefetch"})
    ->ArgsProduct({{64, 1024}, {0, 1}, {0}})
    ->Args({1024, 0, 4})
    ->UseRealTime();

void plain_write(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(4 * 8 * state.range(0) * 4);
  std::vector<std::byte> to(bytes);
  for (auto _ : state) {
    std::memset(to.data(), 1, bytes);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * 8 * state.range(0));
}
BENCHMARK(plain_write)->ArgName("length")->Arg(64)->Arg(1024);

void open_cached_tokens(benchmark::State& state) {
  const std::string path = token_file();
  for (auto _ : state) benchmark::DoNotOptimize(TokenStore::open(path).size());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(std::filesystem::file_size(path)));
}
BENCHMARK(open_cached_tokens)->Unit(benchmark::kMillisecond)->UseRealTime();

void pack_best_fit(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        PackedSequences(DocumentSet::all(store()), {1024, Packing::best_fit, 0}).padding());
  }
  state.SetItemsProcessed(state.iterations() * store()->documents());
}
BENCHMARK(pack_best_fit)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ingot::data

int main(int argc, char** argv) {
  ingot::initialize();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
