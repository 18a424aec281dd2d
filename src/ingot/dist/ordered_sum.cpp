#include "ingot/dist/ordered_sum.h"

#include <cstdint>
#include <cstring>
#include <span>

#include "ingot/core/backend.h"
#include "ingot/kernels/copy.h"

namespace ingot::dist {
namespace {

void copy_bytes(const Tensor& from, void* to, std::size_t bytes) {
  const Stream stream = current_stream(from.device());
  backend(from.device()).copy(to, from.view().data, bytes, stream);
  backend(from.device()).synchronize(stream);
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.view().as<std::byte>(), tensor.nbytes()};
}

Tensor slice(const Tensor& whole, std::int64_t index, std::int64_t count) {
  char* data = whole.view().as<char>() + index * count * static_cast<std::int64_t>(byte_size(whole.dtype()));
  return {whole.storage(), contiguous_view(data, {count}, whole.dtype(), whole.device())};
}

void add_or_copy(const Tensor& from, const Tensor& to, bool accumulate) {
  kernels::launch(kernels::copy, current_stream(kCpu),
                  {.x = from.view(), .y = to.view(), .accumulate = accumulate});
}

}  // namespace

void ordered_sum(Communicator& communicator, const Tensor& values, const std::vector<bool>& contributes,
                 const Tensor& total, bool add) {
  const std::int64_t ranks = communicator.size(), n = values.numel();
  if (ranks == 1) {
    if (values.view().data != total.view().data)
      kernels::launch(kernels::copy, current_stream(total.device()),
                      {.x = values.view(), .y = total.view(), .accumulate = add});
    return;
  }
  // Whole vectors, so that slices begin where kernels like them to; the last ones may reach past the end.
  constexpr std::int64_t kGranule = 64;
  const std::int64_t count = ((n + ranks - 1) / ranks + kGranule - 1) / kGranule * kGranule;
  const Tensor sent = Tensor::empty({ranks * count}, values.dtype());
  const Tensor received = Tensor::empty({ranks * count}, values.dtype());
  const auto tail = static_cast<std::size_t>(ranks * count - n) * byte_size(values.dtype());
  std::memset(sent.view().as<char>() + values.nbytes(), 0, tail);
  copy_bytes(values, sent.view().data, values.nbytes());
  communicator.all_to_all(bytes_of(sent), bytes_of(received));

  const Tensor sum = Tensor::empty({count}, values.dtype());
  bool begun = add;
  if (add) {
    copy_bytes(total, sent.view().data, total.nbytes());
    add_or_copy(slice(sent, communicator.rank(), count), sum, false);
  }
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (!contributes[static_cast<std::size_t>(rank)]) continue;
    add_or_copy(slice(received, rank, count), sum, begun);
    begun = true;
  }
  communicator.all_gather(bytes_of(sum), bytes_of(received));
  const Stream stream = current_stream(total.device());
  backend(total.device()).copy(total.view().data, received.view().data, total.nbytes(), stream);
  backend(total.device()).synchronize(stream);
}

}  // namespace ingot::dist
