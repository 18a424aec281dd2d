#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// A tensor to be stored. What it is must be known first; the values are asked for when their turn comes, so
/// that converting a model needs memory for one tensor, not for all.
struct StoredTensor {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  std::function<Tensor()> values;
  /// Another of those to be stored that has these very values (TensorInfo::same_as): files that can hold them
  /// once for both do.
  std::string same_as = {};

  /// One that is there already. It is not copied: it must not change before it is written.
  static StoredTensor of(std::string name, const Tensor& tensor);
};

struct SafetensorsOptions {
  /// Free text for the header. transformers wants to see which framework's layout this is; "pt" is ours.
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  /// Above this size a directory gets several files. transformers' default.
  std::uint64_t max_shard_bytes = 5'000'000'000;
  /// The data begins at a multiple of this in the file.
  std::size_t data_alignment = 8;
};

/// Writes one file, atomically: the largest element types first, then by name, as the Python library does,
/// and byte for byte what it writes. Replacing the file that the tensors come from is safe. InvalidConfig for
/// names given twice, ShapeMismatch where the values are not what was announced.
void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const SafetensorsOptions& options = {});
/// The same for tensors by name.
void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors);
/// Bytes that their values take.
std::size_t nbytes(const std::map<std::string, Tensor>& tensors);

/// Writes model.safetensors into a directory, or model-00001-of-0000N.safetensors and
/// model.safetensors.index.json where one file would be too large. Tensors go to shards in the given order.
/// Returns the names of the files. Not atomic as a whole: give it the path of an AtomicDirectory.
std::vector<std::string> write_safetensors_directory(const std::string& directory,
                                                     std::span<const StoredTensor> tensors,
                                                     const SafetensorsOptions& options = {});

}  // namespace ingot
