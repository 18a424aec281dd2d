#include "ingot/benchmark/measure.h"

#include <algorithm>
#include <chrono>

#include <sys/resource.h>

namespace ingot::benchmark {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double peak_memory_mib(ComputeBackend& on) {
  if (!on.capabilities().host_memory) return static_cast<double>(on.memory().peak()) / (1 << 20);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace ingot::benchmark
