#include "ingot/weights/tensor_bytes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"

namespace ingot {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

/// Copies elements [begin, begin + count) in row-major order of a strided CPU view.
void gather(const View& view, std::int64_t begin, std::int64_t count, std::byte* out) {
  const std::size_t size = byte_size(view.dtype);
  std::array<std::int64_t, kMaxViewRank> index{};
  std::int64_t rest = begin;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = rest % view.dim(axis);
    rest /= view.dim(axis);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < view.rank; ++axis) {
      offset += index[static_cast<std::size_t>(axis)] * view.stride(axis);
    }
    std::memcpy(out, static_cast<const std::byte*>(view.data) + offset * static_cast<std::int64_t>(size),
                size);
    out += size;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      if (++index[static_cast<std::size_t>(axis)] < view.dim(axis)) break;
      index[static_cast<std::size_t>(axis)] = 0;
    }
  }
}

}  // namespace

void for_each_byte_range(const Tensor& tensor, FunctionRef<void(std::span<const std::byte>)> take) {
  INGOT_CHECK(tensor.defined(), Error("cannot store an undefined tensor"));
  if (tensor.numel() == 0) return;
  const View& view = tensor.view();
  const auto* data = static_cast<const std::byte*>(view.data);
  if (tensor.is_contiguous() && has_host_memory(tensor.device())) {
    take({data, tensor.nbytes()});
    return;
  }
  std::vector<std::byte> buffer(std::min(tensor.nbytes(), kBufferBytes));
  if (has_host_memory(tensor.device())) {
    const auto step = static_cast<std::int64_t>(buffer.size() / byte_size(view.dtype));
    for (std::int64_t begin = 0; begin < tensor.numel(); begin += step) {
      const std::int64_t count = std::min(step, tensor.numel() - begin);
      gather(view, begin, count, buffer.data());
      take({buffer.data(), static_cast<std::size_t>(count) * byte_size(view.dtype)});
    }
    return;
  }
  INGOT_CHECK(tensor.is_contiguous(),
              NotImplemented("storing a strided tensor of another device than the CPU; "
                             "call contiguous() first"));
  ComputeBackend& device = backend(tensor.device());
  const Stream stream = current_stream(tensor.device());
  for (std::size_t begin = 0; begin < tensor.nbytes(); begin += buffer.size()) {
    const std::size_t count = std::min(buffer.size(), tensor.nbytes() - begin);
    device.copy(buffer.data(), data + begin, count, stream);
    device.synchronize(stream);
    take({buffer.data(), count});
  }
}

}  // namespace ingot
