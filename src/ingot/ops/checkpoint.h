#pragma once

#include <functional>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// function(input) without keeping what it computes inside: the backward pass runs it once more to get that
/// back (Chen et al. 2016, "Training deep nets with sublinear memory cost"). Memory falls to the input and
/// the output, time grows by one forward pass. Random numbers are the same both times, so results equal those
/// of a plain call bit for bit. Parameters that `function` uses get their gradients as usual; other tensors
/// that it captures do not.
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& input);
/// The same for a function of several results.
std::vector<Tensor> checkpoint(const std::function<std::vector<Tensor>(const Tensor&)>& function,
                               const Tensor& input);

}  // namespace ingot
