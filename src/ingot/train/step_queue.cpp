#include "ingot/train/step_queue.h"

#include "ingot/base/error.h"

namespace ingot {

StepQueue::StepQueue(Device device)
    : device_(device), most_running_(backend(device).capabilities().streams ? kSlots - 1 : 0) {}

void StepQueue::push(const Tensor& metrics) {
  INGOT_ASSERT(running() < kSlots);
  std::optional<Download>& download = downloads_[static_cast<std::size_t>(pushed_ % kSlots)];
  if (!download.has_value()) download.emplace(metrics.shape(), DType::f32, device_);
  download->start(metrics);
  ++pushed_;
}

std::span<const float> StepQueue::pop() {
  INGOT_ASSERT(running() > 0);
  const Tensor& values = slot(popped_++).wait();
  return {values.data<float>(), static_cast<std::size_t>(values.numel())};
}

}  // namespace ingot
