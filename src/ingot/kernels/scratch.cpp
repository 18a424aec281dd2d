#include "ingot/kernels/scratch.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/kernel_traits.h"

namespace ingot::kernels {

int scratch_parts(Device device) {
  if (!kernel_traits(device).scratch) return num_threads();
  return 4 * std::max(1, backend(device).capabilities().compute_units);
}

}  // namespace ingot::kernels
