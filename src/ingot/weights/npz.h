#pragma once

#include <memory>
#include <span>
#include <string>

#include "ingot/weights/blob.h"
#include "ingot/weights/safetensors_writer.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// A .npz archive of numpy.savez or numpy.savez_compressed: one tensor per .npy file in it, under its name.
/// Stored arrays alias the file, compressed ones are inflated when they are loaded. Errors as for .npy files.
std::unique_ptr<WeightSource> open_npz(Blob blob);

/// Writes tensors as numpy.savez does (uncompressed), atomically. IoError for element types that NumPy lacks
/// (bf16, 8-bit floats), InvalidConfig for names given twice.
void write_npz(const std::string& path, std::span<const StoredTensor> tensors);

}  // namespace ingot
