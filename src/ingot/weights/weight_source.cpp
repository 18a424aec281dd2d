#include "ingot/weights/weight_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/base/suggest.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot {

std::int64_t TensorInfo::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

void WeightSource::set_contents(std::vector<TensorInfo> tensors,
                                std::map<std::string, std::string> metadata) {
  tensors_ = std::move(tensors);
  std::ranges::sort(tensors_, {}, &TensorInfo::name);
  metadata_ = std::move(metadata);
}

const TensorInfo* WeightSource::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      tensors_, name, {}, [](const TensorInfo& info) { return std::string_view(info.name); });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const TensorInfo& WeightSource::get_metadata(std::string_view name) const {
  const TensorInfo* info = find(name);
  if (info != nullptr) return *info;
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const TensorInfo& tensor : tensors_) names.push_back(tensor.name);
  throw IoError(location_, fmt::format("holds no tensor '{}' among its {}{}", name, tensors_.size(),
                                       did_you_mean(name, names)));
}

std::vector<Tensor> WeightSource::load_tensors(std::span<const std::string> names) const {
  std::vector<const TensorInfo*> infos;
  infos.reserve(names.size());
  for (const std::string& name : names) infos.push_back(&get_metadata(name));
  std::vector<Tensor> tensors(names.size());
  const auto load_range = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      tensors[static_cast<std::size_t>(i)] = load(*infos[static_cast<std::size_t>(i)]);
    }
  };
  const auto count = static_cast<std::int64_t>(names.size());
  if (capabilities().concurrent) {
    parallel_for(count, 1, load_range);
  } else {
    load_range(0, count);
  }
  return tensors;
}

Blob WeightSource::stored(const TensorInfo& info) const {
  throw NotImplemented(fmt::format("{}: the stored bytes of '{}' from {}", location_, info.name, format()));
}

quant::PackedPtr WeightSource::packed(const TensorInfo& info, const PackedPart& part) const {
  const quant::BlockFormat* format = quant::find_block_format(info.stored_as);
  const bool stack = info.shape.size() == 3 && part.matrix >= 0;
  if (format == nullptr || !(stack || info.shape.size() == 2) || part.transposed || part.every > 1)
    return nullptr;
  const Blob blob = on_loan(stored(info));
  const std::int64_t matrices = stack ? info.shape[0] : 1, all = info.shape[stack ? 1 : 0];
  const std::int64_t row_bytes = static_cast<std::int64_t>(blob.bytes.size()) / (matrices * all),
                     rows = part.rows > 0 ? part.rows : all,
                     first = part.first + (stack ? part.matrix * all : 0);
  const Tensor blocks =
      tensor_in(blob, static_cast<std::size_t>(first * row_bytes), Shape({rows, row_bytes}), DType::u8);
  return pack_columns({.format = format, .rows = rows, .cols = info.shape.back(), .blocks = blocks}, part);
}

quant::PackedPtr WeightSource::pack_columns(quant::BlockMatrix matrix, const PackedPart& part) {
  if (part.columns == 0) return quant::pack(matrix);
  const std::int64_t block = matrix.format->elements;
  if (part.first_column % block != 0 || part.columns % block != 0) return nullptr;
  const NoGrad no_grad;
  const auto bytes = [&](std::int64_t columns) {
    return static_cast<std::int64_t>(matrix.format->row_bytes(columns));
  };
  matrix.blocks = contiguous(narrow(matrix.blocks, 1, bytes(part.first_column), bytes(part.columns)));
  matrix.cols = part.columns;
  return quant::pack(matrix);
}

void WeightSource::preload(std::span<const std::string> names) const {
  for (const std::string& name : names) get_metadata(name);
}

std::uint64_t WeightSource::total_bytes() const {
  std::uint64_t total = 0;
  for (const TensorInfo& tensor : tensors_) total += tensor.bytes;
  return total;
}

}  // namespace ingot
