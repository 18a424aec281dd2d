// Prints what a scope costs while nothing records, in nanoseconds of processor time, for
// tools/bench/trace_cost.py.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "ingot/base/scope.h"

namespace {

double processor_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

double of_a_scope() {
  constexpr int kScopes = 10'000'000;
  const double begin = processor_ns();
  for (int i = 0; i < kScopes; ++i) {
    const ingot::Scope scope(ingot::ScopeKind::op, "op", i);
    asm volatile("" : : "r"(&scope) : "memory");  // it has to be made, and forgotten again
  }
  return (processor_ns() - begin) / kScopes;
}

}  // namespace

int main() {
  double least = of_a_scope();
  for (int i = 0; i < 4; ++i) least = std::min(least, of_a_scope());
  std::printf("%.3g\n", least);
  return 0;
}
