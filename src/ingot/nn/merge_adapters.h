#pragma once

#include <string>

#include "ingot/nn/expert_linear.h"
#include "ingot/nn/linear_weight.h"

namespace ingot {

/// Adds the updates of the adapters that are on to a dense weight, or stack of experts, in f32, rounds to its
/// dtype, and removes all of its adapters. Error that names it where it is quantized and has one that is on.
void merge_adapters_into(const std::string& name, LinearWeight& weight);
void merge_adapters_into(const std::string& name, ExpertLinear& experts);

}  // namespace ingot
