#pragma once

#include <cstdint>
#include <string>

#include "ingot/benchmark/measure.h"

namespace ingot::benchmark {

struct StepMatmulsOptions {
  std::string shape = "gpt2";  ///< of shape_names()
  std::string dtype = "f32", device = "cpu";
  std::int64_t batch = 4, sequence = 64;
  double seconds = 5;  ///< how long they are repeated

  std::int64_t tokens() const { return batch * sequence; }
};
/// The matmuls of a training step alone, back to back: what the step cannot exceed.
Report time_step_matmuls(const StepMatmulsOptions& options);

}  // namespace ingot::benchmark
