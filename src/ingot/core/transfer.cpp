#include "ingot/core/transfer.h"

#include <algorithm>
#include <cstring>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"

namespace ingot {

Tensor host_tensor(const Shape& shape, DType dtype, Device device) {
  if (device.is_cpu()) return Tensor::empty(shape, dtype);
  const std::size_t bytes = estimate_tensor_bytes(shape, dtype);
  ComputeBackend& owner = backend(device);
  void* data = owner.allocate_host(bytes);
  return Tensor::wrap(data, shape, dtype, kCpu,
                      [&owner, data, bytes] { owner.deallocate_host(data, bytes); });
}

Upload::Upload(const Shape& shape, DType dtype, Device device)
    : tensor_(Tensor::empty(shape, dtype, device)) {
  for (Half& half : halves_) {
    half.host = device.is_cpu() ? tensor_ : host_tensor(shape, dtype, device);
    half.sent = backend(device).create_event();
  }
}

Upload::~Upload() {
  ComputeBackend& on = backend(tensor_.device());
  for (const Half& half : halves_) {
    // The copy reads memory that goes with this object. An error of the device shows where the next one
    // waits.
    try {
      if (half.busy) on.synchronize(half.sent);
    } catch (const Error&) {
    }
    on.destroy_event(half.sent);
  }
}

const Tensor& Upload::host() {
  Half& half = halves_[turn_];
  if (half.busy) backend(tensor_.device()).synchronize(half.sent);
  half.busy = false;
  return half.host;
}

void Upload::send() {
  const Device device = tensor_.device();
  if (device.is_cpu()) return;
  Half& half = halves_[turn_];
  const Stream stream = current_stream(device);
  backend(device).copy(tensor_.view().data, half.host.view().data, tensor_.nbytes(), stream);
  backend(device).record(half.sent, stream);
  half.busy = true;
  turn_ = 1 - turn_;
}

Download::Download(const Shape& shape, DType dtype, Device device)
    : device_(device), host_(host_tensor(shape, dtype, device)), arrived_(backend(device).create_event()) {}

Download::~Download() {
  try {
    backend(device_).synchronize(arrived_);  // the copy writes memory that goes with this object
  } catch (const Error&) {
    // shows where the next one waits
  }
  backend(device_).destroy_event(arrived_);
}

void Download::start(const Tensor& values) {
  INGOT_CHECK(values.is_contiguous() && values.shape() == host_.shape() && values.dtype() == host_.dtype(),
              ShapeMismatch("Download", host_.shape().to_vector(), values.shape().to_vector(),
                            "contiguous values of one shape and dtype are copied"));
  const Stream stream = current_stream(device_);
  backend(device_).copy(host_.view().data, values.view().data, host_.nbytes(), stream);
  backend(device_).record(arrived_, stream);
}

const Tensor& Download::wait() {
  backend(device_).synchronize(arrived_);
  return host_;
}

namespace {

constexpr std::size_t kHalfBytes = std::size_t{32} << 20;

// By all threads: one alone is slower than the bus.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::int64_t kGrain = std::int64_t{1} << 20;
  parallel_for(static_cast<std::int64_t>(bytes), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

HostCopies::HostCopies(Device device)
    : device_(device), stream_(backend(device).create_stream()), marked_(backend(device).create_event()) {
  for (Half& half : halves_) half.arrived = backend(device).create_event();
}

HostCopies::~HostCopies() {
  ComputeBackend& on = backend(device_);
  try {
    on.synchronize(stream_);  // the copies write memory that goes with this object
  } catch (const Error&) {
    // shows where the next one waits
  }
  for (const Half& half : halves_) on.destroy_event(half.arrived);
  on.destroy_event(marked_);
  on.destroy_stream(stream_);
}

void HostCopies::mark() { backend(device_).record(marked_, current_stream(device_)); }

std::vector<Tensor> HostCopies::copy(std::span<const Tensor> tensors) {
  for (Half& half : halves_) half.piece = {};  // a copy() that threw left its own
  backend(device_).wait(stream_, marked_);
  std::vector<Tensor> copies;
  std::size_t turn = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.device().is_cpu()) {
      copies.push_back(tensor);
      continue;
    }
    INGOT_ASSERT(tensor.device() == device_ && tensor.is_contiguous());
    const Tensor& made = copies.emplace_back(Tensor::empty(tensor.shape(), tensor.dtype()));
    for (std::size_t at = 0; at < tensor.nbytes(); at += kHalfBytes) {
      Half& half = halves_[turn];
      turn = 1 - turn;
      finish(half);
      start(half, {.from = tensor.view().as<const std::byte>() + at,
                   .to = made.view().as<std::byte>() + at,
                   .bytes = std::min(kHalfBytes, tensor.nbytes() - at)});
    }
  }
  for (Half& half : halves_) finish(half);
  return copies;
}

void HostCopies::start(Half& half, const Piece& piece) const {
  if (!half.staging.defined())
    half.staging = host_tensor({static_cast<std::int64_t>(kHalfBytes)}, DType::u8, device_);
  backend(device_).copy(half.staging.view().data, piece.from, piece.bytes, stream_);
  backend(device_).record(half.arrived, stream_);
  half.piece = piece;
}

void HostCopies::finish(Half& half) const {
  if (half.piece.bytes == 0) return;
  backend(device_).synchronize(half.arrived);
  copy_bytes(half.piece.to, half.staging.view().as<std::byte>(), half.piece.bytes);
  half.piece = {};
}

}  // namespace ingot
