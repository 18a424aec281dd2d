#include "ingot/core/tensor_buffer.h"

#include <cstring>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"

namespace ingot {
namespace {

// Row-major copy of a strided CPU tensor, one element at a time: core has no kernels.
Tensor packed(const Tensor& from) {
  Tensor to = Tensor::empty(from.shape(), from.dtype());
  const std::size_t size = byte_size(from.dtype());
  const auto* source = static_cast<const std::byte*>(from.view().data);
  auto* target = static_cast<std::byte*>(to.view().data);
  std::array<std::int64_t, kMaxRank> index{};
  for (std::int64_t i = 0; i < from.numel(); ++i) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < from.rank(); ++axis)
      offset += index[static_cast<std::size_t>(axis)] * from.stride(axis);
    std::memcpy(target + static_cast<std::size_t>(i) * size,
                source + offset * static_cast<std::int64_t>(size), size);
    for (int axis = from.rank() - 1; axis >= 0; --axis) {
      if (++index[static_cast<std::size_t>(axis)] < from.dim(axis)) break;
      index[static_cast<std::size_t>(axis)] = 0;
    }
  }
  return to;
}

Tensor to_host(const Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor;
  INGOT_CHECK(
      tensor.is_contiguous(),
      KernelError("TensorBuffer", "a tensor on " + to_string(tensor.device()) + " must be contiguous first"));
  Tensor host = Tensor::empty(tensor.shape(), tensor.dtype());
  const Stream stream = current_stream(tensor.device());
  backend(tensor.device()).copy(host.view().data, tensor.view().data, tensor.nbytes(), stream);
  backend(tensor.device()).synchronize(stream);
  return host;
}

}  // namespace

TensorBuffer::TensorBuffer(const Tensor& tensor) {
  INGOT_CHECK(tensor.defined(), Error("TensorBuffer: the tensor is undefined"));
  const Tensor host = to_host(tensor.detach());
  tensor_ = host.is_contiguous() ? host : packed(host);
}

Tensor TensorBuffer::to_tensor(Device device) const {
  return device.is_cpu() ? tensor_ : Tensor::from_bytes(bytes(), shape(), dtype(), device);
}

}  // namespace ingot
