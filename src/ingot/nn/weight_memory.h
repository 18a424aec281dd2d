#pragma once

#include <vector>

#include "ingot/nn/expert_linear.h"
#include "ingot/nn/linear_weight.h"

namespace ingot {

/// The tensors that a quantized weight is made of, to be moved while it stays the weight that it is; none of
/// a dense one, which is a parameter. The weight gets a matrix of its own first, where others share it; a
/// second call makes another, and the tensors of the first are gone.
std::vector<Tensor*> quantized_memory(LinearWeight& weight);
std::vector<Tensor*> quantized_memory(ExpertLinear& experts);

}  // namespace ingot
