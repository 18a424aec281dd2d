#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "ingot/c_api/device.h"
#include "ingot/c_api/inner/handles.h"
#include "ingot/c_api/ops.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/quant/packed_matrix.h"

// What the opaque handles of devices and tensors stand for.

struct IngotStream : ingot::c_api::Object {
  static constexpr const char* kName = "stream";
  IngotStream(ingot::Stream s, bool own) : stream(s), owned(own) {}
  ~IngotStream() override;
  ingot::Stream stream;
  bool owned;
};

struct IngotEvent : ingot::c_api::Object {
  static constexpr const char* kName = "event";
  explicit IngotEvent(ingot::Event e) : event(e) {}
  ~IngotEvent() override { ingot::backend(event.device).destroy_event(event); }
  ingot::Event event;
};

struct IngotTensor : ingot::c_api::Object {
  static constexpr const char* kName = "tensor";
  explicit IngotTensor(ingot::Tensor t) : tensor(std::move(t)) {}
  ingot::Tensor tensor;
};

struct IngotPackedMatrix : ingot::c_api::Object {
  static constexpr const char* kName = "packed matrix";
  explicit IngotPackedMatrix(ingot::quant::PackedPtr m) : matrix(std::move(m)) {}
  ingot::quant::PackedPtr matrix;
};

namespace ingot::c_api {

/// The device that an argument names, which exists: "cpu", "cuda:1"; NULL: the CPU.
Device device_arg(const char* device);
const char* device_name(Device device);
DType dtype_arg(IngotDtype dtype, const char* argument = "dtype");
Shape shape_arg(const std::int64_t* shape, std::int32_t rank);
inline Tensor tensor_arg(const IngotTensor* tensor) { return object_of(tensor)->tensor; }
inline Tensor tensor_or_none(const IngotTensor* tensor) {
  return tensor == nullptr ? Tensor() : tensor_arg(tensor);
}
inline IngotTensor* open_tensor(Tensor tensor) {
  return open_handle(std::make_shared<IngotTensor>(std::move(tensor)));
}

/// Inside it work goes into the stream of a call.
class OnStream {
 public:
  /// Throws DeviceMismatch where the stream is of another device than the operands.
  OnStream(const IngotStream* stream, Device device);

 private:
  std::shared_ptr<IngotStream> stream_;
  std::optional<StreamGuard> guard_;
};

}  // namespace ingot::c_api
