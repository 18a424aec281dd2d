#include "ingot/dist/ordered_sum.h"

#include <algorithm>
#include <cstdint>

#include "ingot/core/backend.h"
#include "ingot/kernels/copy.h"

namespace ingot::dist {
namespace {

bool on_host(const Tensor& tensor) { return backend(tensor.device()).capabilities().host_memory; }

// Copies, and waits until the values are there.
void move(const Tensor& from, const Tensor& to) {
  const Device device = on_host(from) ? to.device() : from.device();
  const Stream stream = current_stream(device);
  backend(device).copy(to.view().data, from.view().data, to.nbytes(), stream);
  backend(device).synchronize(stream);
}

Tensor host_copy(const Tensor& values) {
  if (on_host(values)) return values;
  const Tensor copy = Tensor::empty(values.shape(), values.dtype());
  move(values, copy);
  return copy;
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.view().as<std::byte>(), tensor.nbytes()};
}

std::vector<Slice> in_bytes(std::span<const Slice> slices, DType dtype) {
  std::vector<Slice> bytes;
  bytes.reserve(slices.size());
  for (const Slice& slice : slices)
    bytes.push_back({slice.begin * byte_size(dtype), slice.end * byte_size(dtype)});
  return bytes;
}

}  // namespace

std::vector<Slice> equal_slices(std::size_t n, int ranks) {
  constexpr std::size_t kGranule = 64;  // slices begin where kernels like them to
  const auto parts = static_cast<std::size_t>(ranks);
  const std::size_t count = ((n + parts - 1) / parts + kGranule - 1) / kGranule * kGranule;
  std::vector<Slice> slices;
  slices.reserve(parts);
  for (std::size_t i = 0; i < parts; ++i)
    slices.push_back({std::min(n, i * count), std::min(n, (i + 1) * count)});
  return slices;
}

Tensor slice_of(const Tensor& whole, const Slice& slice) {
  char* data = whole.view().as<char>() + slice.begin * byte_size(whole.dtype());
  const Shape shape{static_cast<std::int64_t>(slice.size())};
  return {whole.storage(), contiguous_view(data, shape, whole.dtype(), whole.device())};
}

void ordered_reduce_scatter(Communicator& communicator, const Tensor& values, std::span<const Slice> slices,
                            const std::vector<bool>& contributes, const Tensor& total, bool add) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::size_t own = slices[static_cast<std::size_t>(communicator.rank())].size();
  const Tensor received = Tensor::empty({static_cast<std::int64_t>(ranks * own)}, values.dtype());
  {
    const Tensor sent = host_copy(values);
    communicator.all_to_all(bytes_of(sent), in_bytes(slices, values.dtype()), bytes_of(received));
  }
  if (own == 0) return;
  const bool here = on_host(total);
  const Tensor sum = here ? total : Tensor::empty(total.shape(), total.dtype());
  if (add && !here) move(total, sum);
  bool begun = add;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (!contributes[rank]) continue;
    const Tensor part = slice_of(received, {rank * own, (rank + 1) * own});
    kernels::launch(kernels::copy, current_stream(kCpu),
                    {.x = part.view(), .y = sum.view(), .accumulate = begun});
    begun = true;
  }
  if (!here) move(sum, total);
}

void all_gather(Communicator& communicator, const Tensor& values, std::span<const Slice> slices) {
  const std::vector<Slice> bytes = in_bytes(slices, values.dtype());
  if (on_host(values)) return communicator.all_gather(bytes_of(values), bytes);
  const Tensor host = Tensor::empty(values.shape(), values.dtype());
  const Slice own = slices[static_cast<std::size_t>(communicator.rank())];
  move(slice_of(values, own), slice_of(host, own));
  communicator.all_gather(bytes_of(host), bytes);
  move(host, values);
}

}  // namespace ingot::dist
