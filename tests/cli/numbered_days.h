#pragma once

#include <cmath>
#include <fstream>
#include <string>

namespace ingot::testing {

/// Numbered days with a weekly wave.
inline void write_days(const std::string& path, int days) {
  std::ofstream file(path);
  file << "ds,sales\n";
  for (int i = 0; i < days; ++i)
    file << i << "," << 20 + 5 * std::sin(i * 6.283185307 / 7) + 0.01 * i << "\n";
}

}  // namespace ingot::testing
