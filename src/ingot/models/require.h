#pragma once

#include <string>

#include "ingot/base/error.h"

namespace ingot {

/// InvalidConfig about `key` unless `holds`.
inline void require(bool holds, const char* key, const std::string& problem) {
  INGOT_CHECK(holds, InvalidConfig(key, problem));
}

}  // namespace ingot
