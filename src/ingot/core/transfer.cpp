#include "ingot/core/transfer.h"

#include "ingot/base/error.h"

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

}  // namespace ingot
