#pragma once

#include <string>
#include <vector>

#include "ingot/core/backend.h"

namespace ingot::benchmark {

/// What a benchmark found: lines for a person, and a JSON object.
struct Report {
  std::string text, json;
  bool failed = false;  ///< of the parts some
};

/// Of a clock that only goes forward.
double seconds();
/// The middle of `values`, which are not empty.
double median(std::vector<double> values);
/// The most memory that the device gave at once; of the CPU, that this process had.
double peak_memory_mib(ComputeBackend& on);

}  // namespace ingot::benchmark
