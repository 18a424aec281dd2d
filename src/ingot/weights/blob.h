#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ingot/core/tensor.h"

namespace ingot {

/// Bytes of a file (or of something like one) that stay where they are for as long as anybody holds them.
/// Every format is read from one, so it does not matter where the bytes come from.
struct Blob {
  std::string name;  ///< path or address, for messages
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
  /// Null unless pages can be fetched ahead: called with (offset, size).
  std::function<void(std::size_t, std::size_t)> will_need;
};

/// A file mapped copy-on-write; nothing is read yet.
Blob map_blob(const std::string& path);
/// Bytes in memory, which are taken over.
Blob memory_blob(std::string name, std::vector<std::byte> bytes);

/// A part of a blob, which keeps the whole alive. The range must lie inside.
Blob part_of(const Blob& blob, std::size_t offset, std::size_t size);

/// The tensor whose values stand at `offset` of the blob: an alias that keeps the blob alive where the
/// address suits the dtype, else a copy. The range must lie inside the blob.
Tensor tensor_in(const Blob& blob, std::size_t offset, const Shape& shape, DType dtype);

}  // namespace ingot
