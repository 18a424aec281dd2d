#pragma once

#include <memory>
#include <string>

#include "ingot/core/tensor.h"
#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

namespace ingot {

/// Writes a tensor as a .npy file (version 1.0), atomically. NumPy has no bf16 and no 8-bit floats: convert
/// those first.
void write_npy(const std::string& path, const Tensor& tensor);

/// Reads a .npy file. Big-endian and Fortran-ordered arrays are put into our order. FormatError names what is
/// wrong, NotImplemented an element type that Ingot lacks (unsigned of more than 8 bits, complex, objects).
Tensor read_npy(const std::string& path);

/// The same as a source of one tensor, named like the file without ".npy".
std::unique_ptr<WeightSource> open_npy(Blob blob);
std::unique_ptr<WeightSource> open_npy(const std::string& path);

}  // namespace ingot
