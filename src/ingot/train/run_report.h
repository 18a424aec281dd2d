#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ingot/train/config.h"
#include "ingot/train/history.h"

namespace ingot {

/// What a report says beside the history.
struct RunFacts {
  std::string title;
  LanguageConfig model;
  std::vector<std::pair<std::string, std::string>> config;  ///< effective configuration, for the table
  double matmul_flops = 0;                                  ///< the machine's measured limit; 0: unknown
  double peak_flops = 0;                                    ///< of the device, by its data sheet; 0: unknown
  std::optional<double> bigram_loss;
  std::string device;
};

/// Writes a run's report: loss, learning rate, throughput, samples, configuration; one HTML file that needs
/// nothing else.
void write_run_report(const std::string& path, const RunHistory& history, const RunFacts& facts);

}  // namespace ingot
