#pragma once

#include <memory>

#include "ingot/core/tensor.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/optim/offload.h"

namespace ingot {

/// Inputs of layers that a backward pass runs again, in the host's memory or in files until it does. On a
/// device with memory of its own each goes while its layer computes, and comes back while the layer behind it
/// is differentiated, on streams beside the work: at most two are on the device. On the CPU they are in
/// mapped files, whose pages the system may write out.
class OffloadedActivations final : public CheckpointStore {
 public:
  /// Of a device with memory of its own, or to Offload::disk. to.directory is made where it is missing.
  OffloadedActivations(Device device, const OffloadConfig& to);
  ~OffloadedActivations() override;
  std::shared_ptr<Held> put(const Tensor& input) override;

 private:
  struct Pool;
  class Input;
  std::shared_ptr<Pool> pool_;  // lives as long as what it gave
  std::weak_ptr<Input> last_;
};

}  // namespace ingot
