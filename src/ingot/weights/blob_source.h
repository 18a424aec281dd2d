#pragma once

#include <utility>

#include "ingot/weights/weight_source.h"

namespace ingot {

/// NotImplemented that names the tensor where it has no dtype of ours or more axes than a Tensor.
void check_loadable(const WeightSource& source, const TensorInfo& info);

/// FormatError that names the first byte that is neither 0 nor 1, where the dtype is boolean: reading any
/// other as a bool is undefined behaviour. `bytes` are the tensor's.
void check_booleans(const TensorInfo& info, std::span<const std::byte> bytes);

/// A source whose tensors lie in one blob, in one piece each unless the format says otherwise.
template <class Base = WeightSource>
class BlobSource : public Base {
 public:
  WeightCapabilities capabilities() const override {
    return {.zero_copy = true, .concurrent = true, .preload = blob_.pages != nullptr};
  }
  void preload(std::span<const std::string> names) const override {
    for (const std::string& name : names) {
      const TensorInfo& info = this->get_metadata(name);
      will_need(blob_, info.offset, info.bytes);
    }
  }

 protected:
  explicit BlobSource(Blob blob) : Base(blob.name), blob_(std::move(blob)) {}
  Blob stored(const TensorInfo& info) const override { return part_of(blob_, info.offset, info.bytes); }

  Blob blob_;
};

}  // namespace ingot
