#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/weights/blob.h"
#include "ingot/weights/gguf_metadata.h"
#include "ingot/weights/weight_source.h"

// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

namespace ingot {

/// What stands before the data of a GGUF file. Shapes are in our order (the innermost axis last; GGUF writes
/// it first), offsets count from the file's start.
struct GgufHeader {
  GgufMetadata metadata;
  std::vector<TensorInfo> tensors;  ///< in the file's order
  std::uint64_t alignment = 32;
  std::uint64_t data_begin = 0;
};

/// Reads and checks a header. `start` holds the first bytes of a file of `file_size` bytes: the header at
/// least. FormatError names file, offset and field otherwise, and where tensors overlap, reach beyond the end
/// or are not aligned.
GgufHeader parse_gguf_header(std::span<const std::byte> start, std::uint64_t file_size,
                             const std::string& file);

/// A GGUF file, or the files that one was split into. Tensors of block-quantized types load as f32;
/// stored_bytes() gives their blocks.
class GgufSource : public WeightSource {
 public:
  /// The metadata with their types; metadata() has the same as text.
  const GgufMetadata& fields() const { return fields_; }

 protected:
  using WeightSource::WeightSource;
  GgufMetadata fields_;
};

/// One file, whatever it says about being part of several.
std::unique_ptr<GgufSource> open_gguf(Blob blob);
/// "dir/name-00002-of-00003.gguf" -> the names of all three; empty where the name has no such form.
std::vector<std::string> gguf_part_paths(const std::string& path);
/// A file; of a split model (`name-00001-of-00003.gguf`) any part opens all, which must lie in one directory.
std::unique_ptr<GgufSource> open_gguf(const std::string& path);

}  // namespace ingot
