#include "ingot/weights/blob.h"

#include <cstdint>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/memory.h"

namespace ingot {

Blob map_blob(const std::string& path) {
  auto file = std::make_shared<MappedFile>(path, MappedFile::Access::copy_on_write);
  const std::span<std::byte> bytes = file->writable_bytes();
  // By pointer: the blob itself owns the file, and a shared_ptr in here would be held by what it keeps.
  auto ahead = [map = file.get()](std::size_t offset, std::size_t size) { map->will_need(offset, size); };
  return {path, bytes, std::move(file), std::move(ahead)};
}

Blob memory_blob(std::string name, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  const std::span<std::byte> all(*owner);
  return {std::move(name), all, std::move(owner), {}};
}

Blob part_of(const Blob& blob, std::size_t offset, std::size_t size) {
  INGOT_ASSERT(offset <= blob.bytes.size() && size <= blob.bytes.size() - offset);
  Blob part{blob.name, blob.bytes.subspan(offset, size), blob.owner, {}};
  if (blob.will_need) {
    part.will_need = [ahead = blob.will_need, offset](std::size_t at, std::size_t count) {
      ahead(offset + at, count);
    };
  }
  return part;
}

Tensor tensor_in(const Blob& blob, std::size_t offset, const Shape& shape, DType dtype) {
  const std::size_t size = estimate_tensor_bytes(shape, dtype);
  INGOT_ASSERT(offset <= blob.bytes.size() && size <= blob.bytes.size() - offset);
  if (size == 0) return Tensor::empty(shape, dtype);
  std::byte* data = blob.bytes.data() + offset;
  if (reinterpret_cast<std::uintptr_t>(data) % byte_size(dtype) == 0) {
    return Tensor::wrap(data, shape, dtype, kCpu, [owner = blob.owner] {});
  }
  return Tensor::from_bytes(blob.bytes.subspan(offset, size), shape, dtype);
}

}  // namespace ingot
