#pragma once

#include <optional>

#include "ingot/core/transfer.h"
#include "ingot/forecast/windows.h"

namespace ingot::forecast {

/// Batches of windows on the device of a model, one after another, without waiting for it (core/transfer.h).
/// On the CPU they are handed on as they are.
class BatchUpload {
 public:
  explicit BatchUpload(Device device) : device_(device) {}
  /// `batch` on the device, for work that comes behind in its stream. Its values stay until the next call.
  Batch send(const Batch& batch);

 private:
  Device device_;
  std::optional<Upload> values_;  // f32: the tensors of a batch, concatenated
};

}  // namespace ingot::forecast
