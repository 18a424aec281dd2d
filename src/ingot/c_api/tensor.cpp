#include "ingot/c_api/tensor.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/c_api/inner/objects.h"
#include "ingot/core/dlpack.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

using namespace ingot;
using namespace ingot::c_api;

static_assert(static_cast<int>(DType::f32) == INGOT_F32 && static_cast<int>(DType::f64) == INGOT_F64 &&
              static_cast<int>(DType::f16) == INGOT_F16 && static_cast<int>(DType::bf16) == INGOT_BF16 &&
              static_cast<int>(DType::f8e4m3) == INGOT_F8E4M3 &&
              static_cast<int>(DType::f8e5m2) == INGOT_F8E5M2 && static_cast<int>(DType::i64) == INGOT_I64 &&
              static_cast<int>(DType::i32) == INGOT_I32 && static_cast<int>(DType::i16) == INGOT_I16 &&
              static_cast<int>(DType::i8) == INGOT_I8 && static_cast<int>(DType::u8) == INGOT_U8 &&
              static_cast<int>(DType::boolean) == INGOT_BOOL);
static_assert(kMaxRank == INGOT_MAX_RANK);

namespace ingot::c_api {

DType dtype_arg(IngotDtype dtype, const char* argument) {
  if (dtype < INGOT_F32 || dtype > INGOT_BOOL)
    throw InvalidArgument(argument, "is " + std::to_string(dtype) + ", which is not an IngotDtype");
  return static_cast<DType>(dtype);
}

Shape shape_arg(const std::int64_t* shape, std::int32_t rank) {
  if (rank < 0 || rank > kMaxRank)
    throw InvalidArgument(
        "rank", "is " + std::to_string(rank) + "; tensors have 0 to " + std::to_string(kMaxRank) + " axes");
  return Shape(array_arg(shape, static_cast<std::size_t>(rank), "shape"));
}

namespace {

/// `shape` with -1 replaced by what is left of `numel` elements.
Shape completed_shape(std::span<const std::int64_t> shape, std::int64_t numel) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  const auto open = std::ranges::find(sizes, -1);
  if (open != sizes.end()) {
    *open = 1;
    const std::int64_t known = Shape(sizes).numel();
    INGOT_CHECK(known > 0 && numel % known == 0,
                DimensionMismatch("reshape: " + std::to_string(numel) + " elements do not fit " +
                                  to_string(std::vector<std::int64_t>(shape.begin(), shape.end()))));
    *open = numel / known;
  }
  return Shape(sizes);
}

void check_bytes(const Tensor& tensor, std::size_t bytes) {
  INGOT_CHECK(bytes == tensor.nbytes(),
              DimensionMismatch("a tensor of shape " + to_string(tensor.shape()) + " and dtype " +
                                std::string(name(tensor.dtype())) + " holds " +
                                std::to_string(tensor.nbytes()) + " bytes, got " + std::to_string(bytes)));
}

Tensor wrapped(void* data, const Shape& shape, const std::int64_t* strides, DType dtype, Device device,
               std::function<void()> release) {
  if (shape.numel() > 0 && data == nullptr) throw InvalidArgument("data", "is NULL");
  if (reinterpret_cast<std::uintptr_t>(data) % byte_size(dtype) != 0)
    throw InvalidArgument("data",
                          "is not aligned to the dtype's " + std::to_string(byte_size(dtype)) + " bytes");
  View view = contiguous_view(data, shape, dtype, device);
  for (int i = 0; strides != nullptr && i < shape.rank(); ++i) {
    if (strides[i] < 0) throw InvalidArgument("strides", "has a negative one");
    view.strides[static_cast<std::size_t>(i)] = strides[i];
  }
  const Tensor memory = Tensor::wrap(data, shape, dtype, device, std::move(release));
  return {memory.storage(), view};
}

}  // namespace
}  // namespace ingot::c_api

extern "C" {

const char* ingot_dtype_name(IngotDtype dtype) {
  return dtype < INGOT_F32 || dtype > INGOT_BOOL ? "unknown" : name(static_cast<DType>(dtype)).data();
}
size_t ingot_dtype_size(IngotDtype dtype) {
  return dtype < INGOT_F32 || dtype > INGOT_BOOL ? 0 : byte_size(static_cast<DType>(dtype));
}

IngotStatus ingot_tensor_zeros(const int64_t* shape, int32_t rank, IngotDtype dtype, const char* device,
                               IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const Shape sizes = shape_arg(shape, rank);
    made = open_tensor(Tensor::zeros(sizes, dtype_arg(dtype), device_arg(device)));
  });
}

IngotStatus ingot_tensor_from(const void* data, size_t bytes, const int64_t* shape, int32_t rank,
                              IngotDtype dtype, const char* device, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const Shape sizes = shape_arg(shape, rank);
    const auto values = std::as_bytes(array_arg(static_cast<const char*>(data), bytes, "data"));
    check_bytes(Tensor(nullptr, contiguous_view(nullptr, sizes, dtype_arg(dtype), kCpu)), bytes);
    made = open_tensor(Tensor::from_bytes(values, sizes, dtype_arg(dtype), device_arg(device)));
  });
}

IngotStatus ingot_tensor_view(void* data, const int64_t* shape, const int64_t* strides, int32_t rank,
                              IngotDtype dtype, const char* device, IngotDeleter deleter, void* user,
                              IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const Shape sizes = shape_arg(shape, rank);
    made = open_tensor(wrapped(data, sizes, strides, dtype_arg(dtype), device_arg(device), [deleter, user] {
      if (deleter != nullptr) deleter(user);
    }));
  });
}

IngotStatus ingot_tensor_close(IngotTensor* tensor) {
  return call(__func__, [&] { close_handle(tensor); });
}

IngotStatus ingot_tensor_info(const IngotTensor* tensor, IngotTensorInfo* info, size_t size) {
  return call(__func__, [&] {
    const Tensor t = tensor_arg(tensor);
    IngotTensorInfo values{.dtype = static_cast<IngotDtype>(t.dtype()),
                           .rank = t.rank(),
                           .shape = {},
                           .strides = {},
                           .numel = t.numel(),
                           .nbytes = t.nbytes(),
                           .data = t.view().data,
                           .device = device_name(t.device()),
                           .is_contiguous = t.is_contiguous() ? 1 : 0};
    for (int i = 0; i < t.rank(); ++i) {
      values.shape[i] = t.dim(i);
      values.strides[i] = t.stride(i);
    }
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_tensor_read(const IngotTensor* tensor, void* to, size_t bytes) {
  return call(__func__, [&] {
    const NoGrad no_grad;
    const Tensor t = tensor_arg(tensor);
    check_bytes(t, bytes);
    if (bytes == 0) return;
    if (to == nullptr) throw InvalidArgument("to", "is NULL");
    const Tensor row_major = contiguous(t);
    const Stream stream = current_stream(t.device());
    backend(t.device()).copy(to, row_major.view().data, bytes, stream);
    backend(t.device()).synchronize(stream);
  });
}

IngotStatus ingot_tensor_write(IngotTensor* tensor, const void* from, size_t bytes) {
  return call(__func__, [&] {
    const NoGrad no_grad;
    const Tensor t = tensor_arg(tensor);
    check_bytes(t, bytes);
    const auto values = std::as_bytes(array_arg(static_cast<const char*>(from), bytes, "from"));
    copy_(t, Tensor::from_bytes(values, t.shape(), t.dtype(), t.device()));
    backend(t.device()).synchronize(current_stream(t.device()));
  });
}

IngotStatus ingot_tensor_clone(const IngotTensor* tensor, IngotStream* stream, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    const Tensor t = tensor_arg(tensor);
    const OnStream on(stream, t.device());
    made = open_tensor(clone(t));
  });
}

IngotStatus ingot_tensor_to_dtype(const IngotTensor* tensor, IngotDtype dtype, IngotStream* stream,
                                  IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    const Tensor t = tensor_arg(tensor);
    const OnStream on(stream, t.device());
    const DType wanted = dtype_arg(dtype);
    made = open_tensor(wanted == t.dtype() ? clone(t) : to(t, wanted));
  });
}

IngotStatus ingot_tensor_to_device(const IngotTensor* tensor, const char* device, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    const Tensor t = tensor_arg(tensor);
    const Device wanted = device_arg(device);
    made = open_tensor(wanted == t.device() ? clone(t) : to(t, wanted));
  });
}

IngotStatus ingot_tensor_copy(IngotTensor* to, const IngotTensor* from, IngotStream* stream) {
  return call(__func__, [&] {
    const NoGrad no_grad;
    const Tensor target = tensor_arg(to), source = tensor_arg(from);
    INGOT_CHECK(target.shape() == source.shape(),
                ShapeMismatch("ingot_tensor_copy", target.shape().to_vector(), source.shape().to_vector()));
    INGOT_CHECK(target.device() == source.device(),
                DeviceMismatch("ingot_tensor_copy", to_string(target.device()), to_string(source.device())));
    const OnStream on(stream, target.device());
    copy_(target, source);
  });
}

IngotStatus ingot_tensor_reshape(const IngotTensor* tensor, const int64_t* shape, int32_t rank,
                                 IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    const Tensor t = tensor_arg(tensor);
    const auto sizes = array_arg(shape, static_cast<std::size_t>(std::max(rank, 0)), "shape");
    made = open_tensor(reshape(t, completed_shape(sizes, t.numel())));
  });
}

IngotStatus ingot_tensor_slice(const IngotTensor* tensor, int32_t axis, int64_t start, int64_t stop,
                               int64_t step, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    made = open_tensor(slice(tensor_arg(tensor), axis, start, stop, step));
  });
}

IngotStatus ingot_tensor_select(const IngotTensor* tensor, int32_t axis, int64_t index, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    made = open_tensor(select(tensor_arg(tensor), axis, index));
  });
}

IngotStatus ingot_tensor_transpose(const IngotTensor* tensor, int32_t a, int32_t b, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    made = open_tensor(transpose(tensor_arg(tensor), a, b));
  });
}

IngotStatus ingot_tensor_broadcast(const IngotTensor* tensor, const int64_t* shape, int32_t rank,
                                   IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const NoGrad no_grad;
    made = open_tensor(broadcast_to(tensor_arg(tensor), shape_arg(shape, rank)));
  });
}

IngotStatus ingot_tensor_to_dlpack(const IngotTensor* tensor, struct DLManagedTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = to_dlpack(tensor_arg(tensor));
  });
}

IngotStatus ingot_tensor_from_dlpack(struct DLManagedTensor* managed, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_tensor(from_dlpack(&required(managed, "managed")));
  });
}

}  // extern "C"
