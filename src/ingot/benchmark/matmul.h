#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/benchmark/measure.h"

namespace ingot::benchmark {

struct MatmulOptions {
  std::vector<std::string> formats{};  ///< none: those that matter most
  std::string against = "f32";         ///< the format that speeds are relative to
  std::int64_t out = 4096, in = 4096, batch = 1, runs = 9;
};
/// Matmuls of a weight [out, in] in each format, beside what memory gives.
Report time_matmul(const MatmulOptions& options);

}  // namespace ingot::benchmark
