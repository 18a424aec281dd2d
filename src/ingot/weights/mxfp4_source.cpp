#include "ingot/weights/mxfp4_source.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/quant/packed_checkpoints.h"

namespace ingot {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales", kMethod = "mxfp4";

class MxFp4Source final : public WeightSource {
 public:
  explicit MxFp4Source(std::shared_ptr<const WeightSource> base)
      : WeightSource(base->location()), base_(std::move(base)) {
    std::set<std::string> consumed;
    std::vector<TensorInfo> tensors;
    for (const TensorInfo& info : base_->tensors())
      if (info.name.ends_with(kBlocks)) tensors.push_back(describe(info, consumed));
    for (const TensorInfo& info : base_->tensors())
      if (!consumed.contains(info.name)) tensors.push_back(info);
    set_contents(std::move(tensors), base_->metadata());
  }

  std::string_view format() const override { return base_->format(); }
  WeightCapabilities capabilities() const override {
    return {.concurrent = base_->capabilities().concurrent};
  }

 protected:
  Tensor load(const TensorInfo& info) const override {
    if (info.stored_as != kMethod) return base_->load_tensor(info.name);
    const NoGrad no_grad;
    Tensor values = Tensor::empty(Shape{std::span<const std::int64_t>(info.shape)});
    for (std::int64_t expert = 0; expert < info.shape[0]; ++expert)
      copy_(select(values, 0, expert), transpose(matrix(info, expert, {}).dequantize(), 0, 1));
    return values;
  }
  Blob stored(const TensorInfo& info) const override {
    INGOT_CHECK(info.stored_as != kMethod,
                NotImplemented(fmt::format("{}: the stored bytes of '{}', which stands in several tensors",
                                           location(), info.name)));
    return base_->stored_bytes(info.name);
  }
  quant::PackedPtr packed(const TensorInfo& info, const PackedPart& part) const override {
    if (info.stored_as != kMethod) return base_->load_packed(info.name, part);
    if (part.matrix < 0 || !part.transposed) return nullptr;
    const NoGrad no_grad;
    return pack_columns(matrix(info, part.matrix, part), part);
  }

 private:
  quant::BlockMatrix matrix(const TensorInfo& info, std::int64_t expert, const PackedPart& part) const {
    const auto rows = [&](std::string_view field) {
      const Tensor mine = select(base_->load_tensor(info.name + std::string(field)), 0, expert);
      if (part.rows == 0) return mine;
      return part.every > 1 ? slice(mine, 0, part.first, kEnd, part.every)
                            : narrow(mine, 0, part.first, part.rows);
    };
    return quant::from_mxfp4(contiguous(rows(kBlocks)), contiguous(rows(kScales)), info.name);
  }

  TensorInfo describe(const TensorInfo& blocks, std::set<std::string>& consumed) const {
    TensorInfo info;
    info.name = blocks.name.substr(0, blocks.name.size() - kBlocks.size());
    const TensorInfo* scales = base_->find(info.name + std::string(kScales));
    INGOT_CHECK(scales != nullptr,
                InvalidConfig(info.name + std::string(kScales),
                              fmt::format("is missing from {}, which has {}", location(), blocks.name)));
    INGOT_CHECK(
        blocks.shape.size() == 4 && blocks.shape[3] == 16 &&
            scales->shape == std::vector(blocks.shape.begin(), blocks.shape.end() - 1),
        InvalidConfig(blocks.name, fmt::format("has shape {} beside scales of {}; MXFP4 has [experts, "
                                               "out, in / 32, 16] beside [experts, out, in / 32]",
                                               to_string(blocks.shape), to_string(scales->shape))));
    info.shape = {blocks.shape[0], 32 * blocks.shape[2], blocks.shape[1]};
    info.dtype = DType::f32;
    info.stored_as = kMethod;
    info.bytes = blocks.bytes + scales->bytes;
    info.file = blocks.file;
    consumed.insert({blocks.name, scales->name});
    return info;
  }

  std::shared_ptr<const WeightSource> base_;
};

}  // namespace

std::shared_ptr<const WeightSource> open_mxfp4(std::shared_ptr<const WeightSource> base) {
  return std::make_shared<MxFp4Source>(std::move(base));
}

}  // namespace ingot
