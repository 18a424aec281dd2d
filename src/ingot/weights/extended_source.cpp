#include "ingot/weights/extended_source.h"

#include <utility>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {
namespace {

class ExtendedSource final : public WeightSource {
 public:
  ExtendedSource(std::shared_ptr<const WeightSource> base, std::map<std::string, Tensor> more)
      : WeightSource(base->location()), base_(std::move(base)), more_(std::move(more)) {
    std::vector<TensorInfo> tensors;
    tensors.reserve(base_->tensors().size() + more_.size());
    for (const TensorInfo& info : base_->tensors())
      if (!more_.contains(info.name)) tensors.push_back(info);
    for (const auto& [name, tensor] : more_) {
      TensorInfo info;
      info.name = name;
      info.shape = tensor.shape().to_vector();
      info.dtype = tensor.dtype();
      info.bytes = static_cast<std::uint64_t>(tensor.numel()) * byte_size(tensor.dtype());
      tensors.push_back(std::move(info));
    }
    set_contents(std::move(tensors), base_->metadata());
  }
  std::string_view format() const override { return base_->format(); }
  WeightCapabilities capabilities() const override { return base_->capabilities(); }

 protected:
  Tensor load(const TensorInfo& info) const override {
    const auto found = more_.find(info.name);
    return found != more_.end() ? found->second : base_->load_tensor(info.name);
  }
  Blob stored(const TensorInfo& info) const override {
    return more_.contains(info.name) ? WeightSource::stored(info) : base_->stored_bytes(info.name);
  }
  std::shared_ptr<const quant::PackedMatrix> packed(const TensorInfo& info,
                                                    const PackedPart& part) const override {
    return more_.contains(info.name) ? nullptr : base_->load_packed(info.name, part);
  }

 private:
  std::shared_ptr<const WeightSource> base_;
  std::map<std::string, Tensor> more_;
};

}  // namespace

std::shared_ptr<const WeightSource> with_tensors(std::shared_ptr<const WeightSource> base,
                                                 std::map<std::string, Tensor> more) {
  return std::make_shared<ExtendedSource>(std::move(base), std::move(more));
}

}  // namespace ingot
