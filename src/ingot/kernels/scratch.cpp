#include "ingot/kernels/scratch.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/core/backend.h"

namespace ingot::kernels {

int scratch_parts(Device device) {
  if (device.is_cpu()) return num_threads();
  return 4 * std::max(1, backend(device).capabilities().compute_units);
}

}  // namespace ingot::kernels
