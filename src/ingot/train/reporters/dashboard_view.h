#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ingot/train/history.h"

namespace ingot {

/// What a dashboard shows of a run.
struct DashboardState {
  std::string title, subtitle;
  std::int64_t first_step = 0, total_steps = 0;
  StepRecord last;                           ///< the newest step
  std::vector<double> losses;                ///< one a step, of those after first_step
  double seconds = 0;                        ///< since the run began
  double seconds_left = -1;                  ///< negative: not known yet
  double matmul_flops = 0;                   ///< the machine's measured limit, FLOP/s; 0: unknown
  std::vector<EvalRecord> evaluations = {};  ///< the newest, and the best
  std::vector<std::pair<std::string, std::size_t>> memory = {};  ///< bytes in use by tag, of the device
  std::size_t memory_peak = 0;
  std::vector<std::string> layers = {};  ///< of last.layer_norms
  std::string note = {};                 ///< the last line: a sample, a checkpoint
};

/// The values' curve in braille, as text of so many columns and rows, the largest value on top. More values
/// than there are dots are drawn as means; those that are not finite are left out.
std::vector<std::string> braille_curve(std::span<const double> values, int columns, int rows);

/// A bar from "▁" to "█" for each value, by its logarithm between the least and the largest; "·" for 0 and
/// what is not finite. More values than columns are drawn as the largest of some side by side.
std::string bar_row(std::span<const float> values, int columns);

/// At most `rows` lines of at most `columns` columns. The curve takes what the rest leaves, and is left out
/// where that is too little.
std::vector<std::string> dashboard_lines(const DashboardState& state, int columns, int rows, bool color);

}  // namespace ingot
