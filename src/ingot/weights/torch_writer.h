#pragma once

#include <map>
#include <span>
#include <string>

#include "ingot/weights/safetensors_writer.h"

namespace ingot {

/// Writes a state dict as torch.save does (a zip archive, PyTorch 1.6 and later), atomically:
/// torch.load(weights_only=True) opens it. Tensors that are the same_as others share their storage. IoError
/// for 8-bit floats, InvalidConfig for names given twice.
void write_torch(const std::string& path, std::span<const StoredTensor> tensors);
/// The same for tensors by name. Those that share memory share a storage.
void write_torch(const std::string& path, const std::map<std::string, Tensor>& tensors);

}  // namespace ingot
