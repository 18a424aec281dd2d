#include "ingot/forecast/batch_upload.h"

#include <algorithm>
#include <array>

#include "ingot/core/backend.h"

namespace ingot::forecast {
namespace {

std::array<Tensor*, 7> parts_of(Batch& batch) {
  ForecastInput& input = batch.input;
  return {&input.x,      &input.past_marks, &input.future_marks, &input.past_inputs, &input.future_inputs,
          &batch.target, &batch.measured};
}

// Tensors begin where a GPU reads 16 bytes at a time.
std::int64_t aligned(std::int64_t elements) { return (elements + 3) / 4 * 4; }

}  // namespace

Batch BatchUpload::send(const Batch& batch) {
  if (backend(device_).capabilities().host_memory) return batch;
  Batch sent = batch;
  std::int64_t size = 0;
  for (const Tensor* part : parts_of(sent)) size += part->defined() ? aligned(part->numel()) : 0;
  if (!values_.has_value() || values_->tensor().numel() < size)
    values_.emplace(Shape{size}, DType::f32, device_);
  float* to = values_->host().data<float>();
  float* place = values_->tensor().view().as<float>();
  for (Tensor* part : parts_of(sent)) {
    if (!part->defined()) continue;
    const std::int64_t count = part->numel();
    std::copy_n(part->data<float>(), count, to);
    *part = {values_->tensor().storage(), contiguous_view(place, part->shape(), DType::f32, device_)};
    to += aligned(count);
    place += aligned(count);
  }
  values_->send();
  return sent;
}

}  // namespace ingot::forecast
