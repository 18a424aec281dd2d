#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ingot/benchmark/measure.h"

namespace ingot::benchmark {

struct KernelsOptions {
  std::string device = "cpu", dtype = "f32";
  std::int64_t megabytes = 256;  ///< of a kernel's main operand
  std::int64_t sequence = 4096;  ///< that attention spans
  std::int64_t runs = 9;
  std::vector<std::string> kernels{};  ///< of kernel_case_names(); none: all
};
std::vector<std::string> kernel_case_names();
/// Single kernels, beside what copies and matmuls reach. `shown` gets the lines of the text as they come: a
/// run that is cut off has shown what it found.
Report time_kernels(const KernelsOptions& options, const std::function<void(const std::string&)>& shown = {});

}  // namespace ingot::benchmark
