#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::benchmark {

/// Where a run spends its time: one row for each kernel and implementation, the longest first, by the clock
/// of its device, and last what is between kernels: the host's work, copies, a device that waits.
struct LaunchBreakdown {
  struct Row {
    std::string kernel, implementation;
    double launches = 0, seconds = 0, share = 0;
  };
  std::vector<Row> rows;
};

/// Measures one `run`, which returns its seconds; launches and seconds are divided by `steps`.
LaunchBreakdown break_down(const std::function<double()>& run, double steps = 1);

/// A table for a person with `title` above the kernels, and a JSON array.
std::string describe(const LaunchBreakdown& breakdown, std::string_view title);
std::string to_json(const LaunchBreakdown& breakdown);

}  // namespace ingot::benchmark
