#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/benchmark/peer_process.h"

namespace ingot::benchmark {

/// Which PyTorch a benchmark takes turns with.
struct TorchOptions {
  std::vector<std::string> against;  ///< "torch" (eager), "torch.compile"
  std::string python = "python3";
};

/// One PyTorch beside our own times.
struct TorchResult {
  std::string name, version;
  double milliseconds = 0, peak_memory_mib = 0;
  double ratio = 0;  ///< the median of its times over ours
};

/// PyTorch on the same work as ours, once for each of TorchOptions::against: a script of tools/bench that
/// answers each line with the milliseconds of one run, started with the settings that PyTorch is fastest
/// with.
class TorchPeers {
 public:
  /// Returns when all have warmed up.
  TorchPeers(const TorchOptions& options, std::string_view script, const std::vector<std::string>& arguments);
  /// One run of each.
  void run_once();
  /// Beside our times of runs that were taken in turn with theirs.
  std::vector<TorchResult> results(std::span<const double> our_seconds) const;

 private:
  struct Peer {
    std::string name;
    std::unique_ptr<PeerProcess> process;
    std::string version;
    std::vector<double> milliseconds;
    double peak_memory_mib = 0;
  };
  std::vector<Peer> peers_;
};

/// Lines for a person, and a JSON array.
std::string describe(const std::vector<TorchResult>& results);
std::string to_json(const std::vector<TorchResult>& results);

}  // namespace ingot::benchmark
