#pragma once

#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/nn/visit.h"

// What a lease of weights (nn/weight_lease.h) takes out of a block and puts back.
namespace ingot {

/// The matrices of a block, trained or not, but those of adapters: what is worth moving. Vectors take little,
/// and recomputation asks for those of layers before.
std::vector<Parameter*> moved_parameters(ModuleRef block);

/// `of` without memory, but there for those who list parameters.
Tensor without_memory(const Tensor& of, Device device);

/// What autograd knows of the place stays.
void put_value(Tensor& place, Tensor value);

}  // namespace ingot
