#include "ingot/core/tensor.h"

#include <cstring>
#include <string>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"

namespace ingot {

Storage::Storage(std::size_t bytes, Device device)
    : data_(nullptr), bytes_(bytes), backend_(&backend(device)), device_(device), tag_(current_memory_tag()) {
  data_ = backend_->allocate(bytes_, tag_);
}

Storage::Storage(void* data, std::size_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), backend_(nullptr), release_(std::move(release)), device_(device) {}

Storage::~Storage() {
  if (backend_ != nullptr) backend_->deallocate(data_, bytes_, tag_);
  if (release_) release_();
}

View contiguous_view(void* data, const Shape& shape, DType dtype, Device device) {
  View view;
  view.data = data;
  view.rank = shape.rank();
  view.dtype = dtype;
  view.device = device;
  std::int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    view.shape[static_cast<std::size_t>(i)] = shape[i];
    view.strides[static_cast<std::size_t>(i)] = stride;
    stride *= shape[i];
  }
  return view;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  auto storage = std::make_shared<Storage>(estimate_tensor_bytes(shape, dtype), device);
  void* data = storage->data();
  return {std::move(storage), contiguous_view(data, shape, dtype, device)};
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  backend(device).fill_bytes(tensor.view().data, 0, tensor.nbytes(), current_stream(device));
  return tensor;
}

Tensor Tensor::from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  INGOT_CHECK(bytes.size() == tensor.nbytes(),
              DimensionMismatch("a tensor of shape " + to_string(shape) + " and dtype " +
                                std::string(name(dtype)) + " holds " + std::to_string(tensor.nbytes()) +
                                " bytes, got " + std::to_string(bytes.size())));
  const Stream stream = current_stream(device);
  backend(device).copy(tensor.view().data, bytes.data(), bytes.size(), stream);
  backend(device).synchronize(stream);  // the caller's bytes may go away now
  return tensor;
}

Tensor Tensor::wrap(void* data, const Shape& shape, DType dtype, Device device,
                    std::function<void()> release) {
  auto storage =
      std::make_shared<Storage>(data, estimate_tensor_bytes(shape, dtype), device, std::move(release));
  return {std::move(storage), contiguous_view(data, shape, dtype, device)};
}

void Tensor::check_data_access(DType wanted) const {
  INGOT_CHECK(defined(), Error("data() of an undefined tensor"));
  INGOT_CHECK(wanted == dtype(), KernelError("data", "the tensor has dtype " + std::string(name(dtype())) +
                                                         ", asked for as " + std::string(name(wanted))));
  INGOT_CHECK(device().is_cpu(), DeviceMismatch("data", "cpu", to_string(device())));
}

void Tensor::copy_to_host(std::span<std::byte> to, DType wanted) const {
  INGOT_CHECK(defined(), Error("to_vector() of an undefined tensor"));
  INGOT_CHECK(wanted == dtype(),
              KernelError("to_vector", "the tensor has dtype " + std::string(name(dtype())) +
                                           ", asked for as " + std::string(name(wanted))));
  INGOT_CHECK(is_contiguous(),
              KernelError("to_vector", "the tensor is not contiguous; call contiguous() first"));
  const Stream stream = current_stream(device());
  backend(device()).copy(to.data(), view_.data, to.size(), stream);
  backend(device()).synchronize(stream);
}

double Tensor::item() const {
  INGOT_CHECK(numel() == 1,
              DimensionMismatch("item() takes a tensor of one element, got shape " + to_string(shape())));
  View one = contiguous_view(view_.data, {}, dtype(), device());
  return dispatch_any(dtype(), [&]<class T>() {
    T value{};
    Tensor(storage_, one).copy_to_host(std::as_writable_bytes(std::span<T>(&value, 1)), dtype_of<T>);
    if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<double>(value);
    } else {
      return static_cast<double>(static_cast<float>(value));
    }
  });
}

bool Tensor::requires_grad() const { return meta_ != nullptr && meta_->requires_grad; }

bool Tensor::is_leaf() const { return meta_ == nullptr || meta_->grad_fn == nullptr; }

Tensor& Tensor::set_requires_grad(bool value) {
  INGOT_CHECK(is_leaf(), Error("set_requires_grad: only leaves can be changed; detach() the tensor first"));
  INGOT_CHECK(!value || is_floating_point(dtype()),
              Error("set_requires_grad: only floating tensors have gradients, this one is " +
                    std::string(name(dtype()))));
  if (meta_ == nullptr) meta_ = std::make_shared<AutogradMeta>();
  meta_->requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const { return meta_ == nullptr ? Tensor{} : meta_->grad.gradient(); }

void Tensor::set_grad(Tensor grad) const {
  INGOT_CHECK(meta_ != nullptr, Error("set_grad: the tensor does not require a gradient"));
  GradBuffer& buffer = meta_->grad;
  INGOT_CHECK(!buffer.fixed || !grad.defined() || grad.view().data == buffer.memory.view().data,
              Error("set_grad: the gradient's memory is fixed (a bucket holds it); write into it instead"));
  buffer.written = grad.defined();
  if (!buffer.fixed) buffer.memory = std::move(grad);
}

}  // namespace ingot
