#include "ingot/base/parallel.h"

#include <algorithm>
#include <exception>
#include <mutex>

#include <omp.h>

#include "ingot/base/error.h"

namespace ingot {

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int n) {
  INGOT_CHECK(n > 0, InvalidConfig("threads", "must be at least 1, got " + std::to_string(n)));
  omp_set_num_threads(n);
}

bool in_parallel() { return omp_in_parallel() != 0; }

void parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t parts = std::min<std::int64_t>(num_threads(), (n + grain - 1) / grain);
  if (parts <= 1 || in_parallel()) {
    body(0, n);
    return;
  }
  std::exception_ptr failure;
  std::mutex mutex;
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (std::int64_t part = 0; part < parts; ++part) {
    try {
      body(n * part / parts, n * (part + 1) / parts);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ingot
