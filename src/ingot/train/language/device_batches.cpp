#include "ingot/train/language/device_batches.h"

#include <algorithm>

namespace ingot {
namespace {

constexpr std::int64_t kParts = 4;  // tokens, targets, positions, doc_start

}  // namespace

DeviceBatches::DeviceBatches(std::int64_t count, std::int64_t rows, std::int64_t length, Device device)
    : part_size_(rows * length),
      indices_({count, kParts, part_size_}, DType::i32, device),
      numbers_({1 + count}, DType::f32, device) {}

void DeviceBatches::send(std::span<const data::Batch> batches, std::int64_t targets) {
  std::int32_t* to = indices_.host().data<std::int32_t>();
  std::int64_t counted = 0;
  shapes_.clear();
  lengths_.clear();
  masked_.clear();
  for (const data::Batch& batch : batches) {
    for (const Tensor* part : {&batch.tokens, &batch.targets, &batch.positions, &batch.doc_start}) {
      if (part->defined()) std::copy_n(part->data<std::int32_t>(), part->numel(), to);
      to += part_size_;
    }
    const std::int32_t* positions = batch.positions.data<std::int32_t>();
    shapes_.push_back(batch.tokens.shape());
    masked_.push_back(batch.doc_start.defined());
    lengths_.push_back(*std::max_element(positions, positions + batch.positions.numel()) + 1);
    counted += batch.valid_targets;
  }
  if (targets < 0) targets = counted;
  auto* number = numbers_.host().data<float>();
  *number++ = static_cast<float>(targets);
  for (const data::Batch& batch : batches)
    *number++ =
        static_cast<float>(batch.valid_targets) / static_cast<float>(std::max<std::int64_t>(targets, 1));
  indices_.send();
  numbers_.send();
}

DecoderInput DeviceBatches::input(std::size_t i) const {
  return {.tokens = part(i, 0),
          .positions = part(i, 2),
          .doc_start = masked_[i] ? part(i, 3) : Tensor{},
          .length = lengths_[i]};
}

Tensor DeviceBatches::part(std::size_t batch, std::int64_t which) const {
  const Tensor& all = indices_.tensor();
  std::int32_t* data =
      all.view().as<std::int32_t>() + (static_cast<std::int64_t>(batch) * kParts + which) * part_size_;
  return {all.storage(), contiguous_view(data, shapes_[batch], DType::i32, all.device())};
}

Tensor DeviceBatches::number(std::size_t i) const {
  const Tensor& all = numbers_.tensor();
  return {all.storage(), contiguous_view(all.view().as<float>() + i, {}, DType::f32, all.device())};
}

}  // namespace ingot
