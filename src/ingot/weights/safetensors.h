#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

// The format: https://huggingface.co/docs/safetensors (8 bytes little-endian length N, N bytes of JSON,
// data).

namespace ingot {

/// What the first 8 + N bytes of a .safetensors file say. Offsets of the tensors count from the file's start.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in the order of their data
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;
};

/// The format allows no header beyond this; a length above it is damage or malice.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Reads and checks a header. `start` holds the first bytes of a file of `file_size` bytes, the header at
/// least; so a remote file needs two small reads. Every byte of data must belong to exactly one tensor, sizes
/// must agree with shapes, names must differ. FormatError names file, offset and field otherwise.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> start, std::uint64_t file_size,
                                           const std::string& file);

/// One .safetensors file.
std::unique_ptr<WeightSource> open_safetensors(Blob blob);
/// A .safetensors file, a `*.safetensors.index.json` with its shards, or a directory that holds either
/// (model.safetensors first). Shards must be files beside the index, and hold just what it promises.
std::unique_ptr<WeightSource> open_safetensors(const std::string& path);
/// All tensors of what open_safetensors opens, by name: copies, free to be changed.
std::map<std::string, Tensor> read_safetensors(const std::string& path);

}  // namespace ingot
