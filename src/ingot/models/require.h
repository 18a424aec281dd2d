#pragma once

#include <cstdint>
#include <string>

#include "ingot/base/error.h"

namespace ingot {

/// InvalidConfig about `key` unless `holds`.
inline void require(bool holds, const char* key, const std::string& problem) {
  INGOT_CHECK(holds, InvalidConfig(key, problem));
}

/// Far above every model there is, and low enough that products of three sizes cannot wrap and a model of so
/// many layers can be described.
inline constexpr std::int64_t kMaxModelSize = std::int64_t{1} << 20, kMaxModelLayers = 4096,
                              kMaxVocabulary = std::int64_t{1} << 28,
                              kMaxExperts = std::int64_t{1} << 18;  // of all layers together

/// InvalidConfig about `key` unless `value` is from 1 to `most`.
inline void require_size(std::int64_t value, const char* key, std::int64_t most = kMaxModelSize) {
  require(value > 0, key, "must be positive, got " + std::to_string(value));
  require(value <= most, key,
          "is " + std::to_string(value) + "; " + std::to_string(most) + " at most are allowed");
}

}  // namespace ingot
