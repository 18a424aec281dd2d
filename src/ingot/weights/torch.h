#pragma once

#include <memory>
#include <string>

#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// A state dict as torch.save writes it: a zip archive (PyTorch 1.6 and later), or the format before. Nothing
/// in the file is run: its pickle may name only what tensors and dictionaries are rebuilt from, and a
/// FormatError names anything else. Nested dictionaries join their keys with dots; of a training checkpoint
/// the model's part is offered (under "state_dict", "model_state_dict", "model" or "module"), and plain
/// values beside it become metadata.
///
/// Contiguous tensors alias a mapped file, strided ones are put in order. FormatError also for tensors that
/// reach beyond their storage, and storages that reach beyond the file.
std::unique_ptr<WeightSource> open_torch(Blob blob);

/// Whether a file begins as torch.save's of either kind do; a zip archive still has to hold a data.pkl.
bool is_legacy_torch(std::span<const std::byte> start);

}  // namespace ingot
