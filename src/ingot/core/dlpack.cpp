#include "ingot/core/dlpack.h"

#include <memory>
#include <optional>
#include <string>

#include <dlpack/dlpack.h>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"

namespace ingot {
namespace {

// A capsule and what it points to; dies in its deleter.
struct Exported {
  Tensor tensor;
  std::array<std::int64_t, kMaxRank> shape, strides;
  DLManagedTensor capsule;
};

// kDLBool, which headers have from DLPack 0.8 on.
constexpr std::uint8_t kBool = 6;

DLDataType to_dl(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * byte_size(dtype));
  switch (dtype) {
    case DType::f32:
    case DType::f64:
    case DType::f16:
      return {kDLFloat, bits, 1};
    case DType::bf16:
      return {kDLBfloat, bits, 1};
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
      return {kDLInt, bits, 1};
    case DType::u8:
      return {kDLUInt, bits, 1};
    case DType::boolean:
      return {kBool, bits, 1};
    default:
      throw NotImplemented("dtype " + std::string(name(dtype)) + " in DLPack; convert with to(dtype) first");
  }
}

std::optional<DType> from_dl(DLDataType type) {
  if (type.lanes != 1) return std::nullopt;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32,
                            DType::i16, DType::i8, DType::u8, DType::boolean}) {
    const DLDataType candidate = to_dl(dtype);
    if (candidate.code == type.code && candidate.bits == type.bits) return dtype;
  }
  return std::nullopt;
}

}  // namespace

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  INGOT_CHECK(tensor.defined(), Error("to_dlpack: the tensor is undefined"));
  INGOT_CHECK(
      tensor.device().is_cpu() || tensor.device().is_cuda(),
      NotImplemented("DLPack of memory on " + to_string(tensor.device()) + "; copy it to the CPU first"));
  auto exported = std::make_unique<Exported>();
  exported->tensor = tensor.detach();
  exported->shape = tensor.view().shape;
  exported->strides = tensor.view().strides;
  DLTensor& out = exported->capsule.dl_tensor;
  out.data = tensor.view().data;
  out.device = {tensor.device().is_cpu() ? kDLCPU : kDLCUDA, tensor.device().index};
  out.ndim = tensor.rank();
  out.dtype = to_dl(tensor.dtype());
  out.shape = exported->shape.data();
  out.strides = exported->strides.data();
  out.byte_offset = 0;
  exported->capsule.manager_ctx = exported.get();
  exported->capsule.deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); };
  return &exported.release()->capsule;
}

Tensor from_dlpack(DLManagedTensor* capsule) {
  INGOT_CHECK(capsule != nullptr, Error("from_dlpack: the capsule is null"));
  const DLTensor& in = capsule->dl_tensor;
  const std::optional<DType> dtype = from_dl(in.dtype);
  INGOT_CHECK(dtype.has_value(), NotImplemented("DLPack dtype with code " + std::to_string(in.dtype.code) +
                                                " and " + std::to_string(in.dtype.bits) + " bits"));
  INGOT_CHECK(in.device.device_type == kDLCPU || in.device.device_type == kDLCUDA,
              DeviceNotAvailable("DLPack device type " + std::to_string(in.device.device_type),
                                 "CPU and CUDA are known"));
  const bool on_cpu = in.device.device_type == kDLCPU;
  INGOT_CHECK(on_cpu || (in.device.device_id >= 0 && in.device.device_id <= INT8_MAX),
              DeviceNotAvailable("cuda:" + std::to_string(in.device.device_id), "there are not so many"));
  const Device device{on_cpu ? DeviceType::cpu : DeviceType::cuda,
                      static_cast<std::int8_t>(on_cpu ? 0 : in.device.device_id)};
  static_cast<void>(backend(device));  // throws where this process has no such device
  const Shape shape(std::span<const std::int64_t>(in.shape, static_cast<std::size_t>(in.ndim)));
  INGOT_CHECK(in.data != nullptr || shape.numel() == 0, Error("from_dlpack: the capsule's data is null"));
  for (int i = 0; in.strides != nullptr && i < in.ndim; ++i)
    INGOT_CHECK(in.strides[i] >= 0, NotImplemented("negative strides in DLPack; copy the array first"));
  void* data = static_cast<char*>(in.data) + in.byte_offset;
  const auto release = [capsule] {
    if (capsule->deleter != nullptr) capsule->deleter(capsule);
  };
  const Tensor tensor = Tensor::wrap(data, shape, *dtype, device, release);
  View view = tensor.view();
  for (int i = 0; in.strides != nullptr && i < in.ndim; ++i)
    view.strides[static_cast<std::size_t>(i)] = in.strides[i];
  return {tensor.storage(), view};
}

}  // namespace ingot
