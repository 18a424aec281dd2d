#pragma once

#include <cstdlib>
#include <string>

#include "tests/support/source_dir.h"

namespace ingot::mahjong {

/// Where the real games and vectors lie: INGOT_DATA_DIR, or shared/data beside the repository (also beside
/// the main checkout when this is a work tree two folders down).
inline std::string data_path(const std::string& name) {
  if (const char* dir = std::getenv("INGOT_DATA_DIR")) return std::string(dir) + "/mahjong/" + name;
  for (const char* up : {"/../shared/data/mahjong", "/../../shared/data/mahjong"}) {
    const std::string base = test::source_dir() + up;
    if (std::FILE* probe = std::fopen((base + "/wins_4p.json").c_str(), "rb")) {
      std::fclose(probe);
      return base + "/" + name;
    }
  }
  return test::source_dir() + "/../shared/data/mahjong/" + name;
}

}  // namespace ingot::mahjong
