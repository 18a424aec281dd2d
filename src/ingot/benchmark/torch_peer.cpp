#include "ingot/benchmark/torch_peer.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/benchmark/measure.h"

namespace ingot::benchmark {
namespace {

std::vector<std::string> command(const std::string& name, const std::string& python, std::string_view script,
                                 const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {python,    "-c",        std::string(script),
                                    "--serve", "--threads", std::to_string(num_threads())};
  words.insert(words.end(), arguments.begin(), arguments.end());
  if (name == "torch.compile") words.emplace_back("--compile");
  return words;
}

// Huge pages, and freed memory kept instead of returned and faulted in again.
std::vector<std::string> fast_settings() {
  return {"OMP_NUM_THREADS=" + std::to_string(num_threads()),
          "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=34359738368:"
          "glibc.malloc.trim_threshold=34359738368"};
}

nlohmann::json parsed(const std::string& name, const std::string& line, const char* key) {
  const auto json = parse_json_or_discard<nlohmann::json>(line);
  INGOT_CHECK(json.is_object() && json.contains(key),
              IoError(name, fmt::format("answered '{}', not an object with '{}'", line, key)));
  return json;
}

}  // namespace

TorchPeers::TorchPeers(const TorchOptions& options, std::string_view script,
                       const std::vector<std::string>& arguments) {
  for (const std::string& name : options.against) {
    Peer peer{.name = name,
              .process = std::make_unique<PeerProcess>(command(name, options.python, script, arguments),
                                                       fast_settings())};
    peer.version = parsed(name, peer.process->read_line(), "version")["version"].get<std::string>();
    peers_.push_back(std::move(peer));
  }
}

void TorchPeers::run_once() {
  for (Peer& peer : peers_) {
    const auto json = parsed(peer.name, peer.process->ask("run"), "ms");
    peer.milliseconds.push_back(json["ms"].get<double>());
    peer.peak_memory_mib = json.value("peak_mib", 0.0);
  }
}

std::vector<TorchResult> TorchPeers::results(std::span<const double> our_seconds) const {
  std::vector<TorchResult> results;
  results.reserve(peers_.size());
  for (const Peer& peer : peers_) {
    std::vector<double> ratios;
    ratios.reserve(our_seconds.size());
    for (std::size_t i = 0; i < our_seconds.size(); ++i) {
      ratios.push_back(peer.milliseconds[i] / (1e3 * our_seconds[i]));
    }
    results.push_back(
        {peer.name, peer.version, median(peer.milliseconds), peer.peak_memory_mib, median(ratios)});
  }
  return results;
}

std::string describe(const std::vector<TorchResult>& results) {
  std::string lines;
  for (const TorchResult& r : results) {
    lines += fmt::format("  {:.2f} times as fast as {} {}: {:.1f} ms, peak memory {:.0f} MiB\n", r.ratio,
                         r.name, r.version, r.milliseconds, r.peak_memory_mib);
  }
  return lines;
}

std::string to_json(const std::vector<TorchResult>& results) {
  auto array = nlohmann::ordered_json::array();
  for (const TorchResult& r : results) {
    array.push_back({{"name", r.name},
                     {"version", r.version},
                     {"step_ms", r.milliseconds},
                     {"ratio", r.ratio},
                     {"peak_memory_mib", r.peak_memory_mib}});
  }
  return dump_json(array);
}

}  // namespace ingot::benchmark
