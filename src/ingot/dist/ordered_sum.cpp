#include "ingot/dist/ordered_sum.h"

#include <algorithm>
#include <cstdint>

#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/kernels/copy.h"

namespace ingot::dist {
namespace {

constexpr std::size_t kGranule = 64;  // slices and pieces begin where kernels like them to

// Copies, and waits until the values are there.
void move(const Tensor& from, const Tensor& to) {
  const Device device = has_host_memory(from.device()) ? to.device() : from.device();
  const Stream stream = current_stream(device);
  backend(device).copy(to.view().data, from.view().data, to.nbytes(), stream);
  backend(device).synchronize(stream);
}

Tensor host_copy(const Tensor& values) {
  if (has_host_memory(values.device())) return values;
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

void send_parts(Communicator& engine, const Tensor& values, std::span<const Slice> slices,
                const Tensor& received) {
  engine.all_to_all(bytes_of(values), in_bytes(slices, values.dtype()), bytes_of(received));
}

// Slices in as many pieces as it takes for all slices' pieces together to be one message. One piece at least:
// ranks do as many operations, whatever their own slices.
class Pieces {
 public:
  Pieces(const Communicator& communicator, std::span<const Slice> slices, DType dtype) : slices_(slices) {
    const std::size_t elements = communicator.message_bytes() / byte_size(dtype) / slices.size();
    each_ = std::max(kGranule, elements / kGranule * kGranule);
    for (const Slice& slice : slices) count_ = std::max(count_, (slice.size() + each_ - 1) / each_);
  }
  std::size_t count() const { return count_; }
  std::vector<Slice> operator[](std::size_t i) const {
    std::vector<Slice> pieces;
    pieces.reserve(slices_.size());
    for (const Slice& slice : slices_) {
      const Slice within = of(i, slice.size());
      pieces.push_back({slice.begin + within.begin, slice.begin + within.end});
    }
    return pieces;
  }
  /// Of a slice of so many elements, counted from where that begins.
  Slice of(std::size_t i, std::size_t size) const {
    return {std::min(size, i * each_), std::min(size, (i + 1) * each_)};
  }

 private:
  std::span<const Slice> slices_;
  std::size_t each_ = 0, count_ = 1;
};

// This rank's slice of every rank's values, one behind the other.
Tensor gather_parts(Communicator& engine, const Tensor& values, std::span<const Slice> slices) {
  const std::size_t own = slices[static_cast<std::size_t>(engine.rank())].size();
  const auto n = static_cast<std::int64_t>(own * slices.size());
  const Tensor received = Tensor::empty({n}, values.dtype(), values.device());
  send_parts(engine, values, slices, received);
  return received;
}

// In the current stream of their device.
void add_parts(const Tensor& received, const std::vector<bool>& contributes, const Tensor& total, bool add) {
  const auto own = static_cast<std::size_t>(total.numel());
  if (own == 0) return;
  for (std::size_t rank = 0; rank < contributes.size(); ++rank) {
    if (!contributes[rank]) continue;
    const Tensor part = slice_of(received, {rank * own, (rank + 1) * own});
    kernels::launch(kernels::copy, current_stream(total.device()),
                    {.x = part.view(), .y = total.view(), .accumulate = add});
    add = true;
  }
}

// Piece for piece: what is received takes a message's memory.
void sum_pieces(Communicator& engine, const Communicator& bounds, const Tensor& values,
                std::span<const Slice> slices, const std::vector<bool>& contributes, const Tensor& total,
                bool add) {
  const Pieces pieces(bounds, slices, values.dtype());
  const auto own = static_cast<std::size_t>(total.numel());
  for (std::size_t i = 0; i < pieces.count(); ++i)
    add_parts(gather_parts(engine, values, pieces[i]), contributes, slice_of(total, pieces.of(i, own)), add);
}

void gather_pieces(Communicator& engine, const Communicator& bounds, const Tensor& values,
                   std::span<const Slice> slices) {
  const Pieces pieces(bounds, slices, values.dtype());
  for (std::size_t i = 0; i < pieces.count(); ++i)
    engine.all_gather(bytes_of(values), in_bytes(pieces[i], values.dtype()));
}

}  // namespace

std::vector<Slice> equal_slices(std::size_t n, int ranks) {
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
  if (Communicator* engine = communicator.of(values.device());
      engine != nullptr && !has_host_memory(values.device())) {
    const StreamGuard guard(engine->stream());  // of the memory in passing, too
    sum_pieces(*engine, communicator, values, slices, contributes, total, add);
    return backend(values.device()).synchronize(engine->stream());
  }
  const Tensor host = host_copy(values);
  if (has_host_memory(total.device()))
    return sum_pieces(communicator, communicator, host, slices, contributes, total, add);
  const Tensor sum = Tensor::empty(total.shape(), total.dtype());
  if (add) move(total, sum);
  sum_pieces(communicator, communicator, host, slices, contributes, sum, add);
  move(sum, total);
}

void fast_reduce_scatter(Communicator& communicator, const Tensor& values, std::span<const Slice> slices,
                         const std::vector<bool>& contributes, const Tensor& total, bool add) {
  Communicator* engine = communicator.of(values.device());
  if (engine == nullptr || !engine->reduces(values.dtype()))
    return ordered_reduce_scatter(communicator, values, slices, contributes, total, add);
  ComputeBackend& device = backend(values.device());
  const StreamGuard guard(engine->stream());
  if (!contributes[static_cast<std::size_t>(communicator.rank())])
    device.fill_bytes(values.view().data, 0, values.nbytes(), engine->stream());
  const Tensor sum = add ? Tensor::empty(total.shape(), total.dtype(), total.device()) : total;
  engine->reduce_scatter(bytes_of(values), in_bytes(slices, values.dtype()), bytes_of(sum), values.dtype());
  if (!add || sum.numel() == 0) return;
  kernels::launch(kernels::copy, engine->stream(), {.x = sum.view(), .y = total.view(), .accumulate = true});
  device.synchronize(engine->stream());
}

void all_gather(Communicator& communicator, const Tensor& values, std::span<const Slice> slices) {
  if (has_host_memory(values.device())) return gather_pieces(communicator, communicator, values, slices);
  if (Communicator* engine = communicator.of(values.device()))
    return gather_pieces(*engine, communicator, values, slices);
  const Tensor host = Tensor::empty(values.shape(), values.dtype());
  const Slice own = slices[static_cast<std::size_t>(communicator.rank())];
  move(slice_of(values, own), slice_of(host, own));
  gather_pieces(communicator, communicator, host, slices);
  move(host, values);
}

void all_to_all(Communicator& communicator, const Tensor& values, std::span<const Slice> slices,
                const Tensor& received) {
  if (has_host_memory(values.device())) return send_parts(communicator, values, slices, received);
  if (Communicator* engine = communicator.of(values.device()))
    return send_parts(*engine, values, slices, received);
  const Tensor host = Tensor::empty(received.shape(), received.dtype());
  send_parts(communicator, host_copy(values), slices, host);
  move(host, received);
}

void all_reduce(Communicator& communicator, const Tensor& values) {
  const auto floats = [](const Tensor& x) {
    return std::span(x.view().as<float>(), static_cast<std::size_t>(x.numel()));
  };
  if (has_host_memory(values.device())) return communicator.all_reduce(floats(values));
  if (Communicator* engine = communicator.of(values.device())) return engine->all_reduce(floats(values));
  const Tensor host = host_copy(values);
  communicator.all_reduce(floats(host));
  move(host, values);
}

}  // namespace ingot::dist
