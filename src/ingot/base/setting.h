#pragma once

#include <string>

namespace ingot {

/// One key of a configuration as it took effect.
struct Setting {
  std::string name;  ///< a dotted path: "optimizer.learning_rate"
  std::string value;
  bool given = true;  ///< somebody set it; else it is the default
};

}  // namespace ingot
