#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ingot/core/device.h"
#include "ingot/dist/communicator.h"

namespace ingot::dist {

struct CheckedOperation {
  std::string name;
  bool right = false;           ///< on every rank
  double seconds = 0;           ///< the median of some, of the first rank
  double bytes_per_second = 0;  ///< that a rank sends and receives; 0 where it does not move bytes
};

/// Does each operation with some `bytes` of a device's memory, looks at what comes out, and times it. All
/// ranks call it.
std::vector<CheckedOperation> check_operations(Communicator& communicator, Device device, std::size_t bytes);

}  // namespace ingot::dist
