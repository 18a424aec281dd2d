#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/weights/ggml_type.h"
#include "ingot/weights/gguf_metadata.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {

/// A tensor to be stored in a GGUF file. Its bytes are asked for when their turn comes.
struct GgufTensor {
  using Sink = FunctionRef<void(std::span<const std::byte>)>;

  std::string name;
  std::vector<std::int64_t> shape;  ///< innermost axis last
  const GgmlType* type = nullptr;
  /// Gives the bytes, row-major, in one piece or several.
  std::function<void(Sink)> write;

  /// In the element type of its dtype. InvalidConfig, with advice, for one that GGUF files lack.
  static GgufTensor of(StoredTensor tensor);
};

/// Writes one GGUF file (version 3), atomically, tensors in the given order; byte for byte what gguf-py
/// writes for the same. metadata's general.alignment holds (default 32). InvalidConfig for names given twice,
/// more than four axes, or rows that are not whole blocks.
void write_gguf(const std::string& path, const GgufMetadata& metadata, std::span<const GgufTensor> tensors);

/// The same as several files, NAME-00001-of-0000N.gguf and so on for the path NAME.gguf, where the tensors
/// take more than `max_bytes`: each part holds as many of them, in their order, as fit (at least one), and
/// the first holds the metadata, as llama.cpp's own splitter has it. One file, `path` itself, otherwise.
/// Returns the paths. Each appears whole or not at all; if one cannot be written, those before it are
/// removed.
std::vector<std::string> write_gguf_parts(const std::string& path, const GgufMetadata& metadata,
                                          std::span<const GgufTensor> tensors, std::uint64_t max_bytes);

}  // namespace ingot
