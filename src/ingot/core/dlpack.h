#pragma once

#include "ingot/core/tensor.h"

struct DLManagedTensor;

namespace ingot {

/// The tensor as a DLPack capsule (https://dmlc.github.io/dlpack), sharing its memory, which lives until the
/// capsule's deleter ran. Strides are kept. Throws NotImplemented for dtypes that DLPack 0.6 cannot name
/// (8-bit floats).
DLManagedTensor* to_dlpack(const Tensor& tensor);

/// A tensor over the memory of a capsule, which is consumed: its deleter runs with the last handle. Throws
/// DeviceNotAvailable or NotImplemented, without consuming, for devices and dtypes that Ingot has not.
Tensor from_dlpack(DLManagedTensor* capsule);

}  // namespace ingot
