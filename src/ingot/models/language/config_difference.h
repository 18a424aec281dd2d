#pragma once

#include <optional>
#include <string>

#include "ingot/models/language/config.h"

namespace ingot {

/// The first thing that two models of these configurations compute differently, as "key value (other)"; none
/// where they give the same numbers, whatever they are called and however they spell it. Numbers may differ
/// by an f32's rounding.
std::optional<std::string> difference_of(const LanguageConfig& wanted, const LanguageConfig& found);

}  // namespace ingot
