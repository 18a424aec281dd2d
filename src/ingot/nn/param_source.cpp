#include "ingot/nn/param_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/printable.h"
#include "ingot/core/meta_backend.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/quant/packed_slice.h"

namespace ingot {
namespace {

// The right shape in almost no memory (every stride is 0), for a model that finish() will refuse anyway.
Tensor placeholder(const Shape& shape, DType dtype, Device device) {
  const Tensor one = Tensor::zeros({1}, dtype, device);
  View view = contiguous_view(one.view().data, shape, dtype, device);
  view.strides = {};
  return {one.storage(), view};
}

}  // namespace

void append_list(std::string& message, std::string_view what, const std::vector<std::string>& lines) {
  constexpr std::size_t kListed = 20;
  if (lines.empty()) return;
  message += fmt::format("\n  {} ({}):", what, lines.size());
  for (std::size_t i = 0; i < std::min(lines.size(), kListed); ++i) message += "\n    " + printable(lines[i]);
  if (lines.size() > kListed) message += fmt::format("\n    ... and {} more", lines.size() - kListed);
}

ParamSource ParamSource::scope(std::string_view name) const {
  return {*provider_, name.empty() ? prefix_ : prefix_ + std::string(name) + "."};
}

ParamSource ParamSource::scope(std::string_view name, std::int64_t index) const {
  return scope(fmt::format("{}.{}", name, index));
}

Parameter ParamSource::take(std::string_view name, const Shape& shape, const Init& init,
                            const ParamOptions& options) const {
  std::string full = prefix_ + std::string(name);
  validate(init);
  Tensor value = provider_->provide({full, shape, init, options.dtype});
  INGOT_CHECK(
      value.defined() && value.shape() == shape,
      ShapeMismatch(full, shape.to_vector(), value.shape().to_vector(), "as the weight provider has it"));
  const bool trainable = options.trainable && provider_->trainable() && is_floating_point(value.dtype());
  return Parameter(std::move(full), std::move(value), trainable, options.decay.value_or(shape.rank() >= 2));
}

namespace {

quant::PackedPtr cut(const quant::PackedPtr& matrix, const MatrixPart& part, const std::string& name) {
  const MemoryTagScope tag(MemoryTag::parameter);
  if (matrix == nullptr || part.axis < 0) return matrix;
  return part.axis == 0 ? quant::slice_rows(*matrix, part.begin, part.end, name)
                        : quant::slice_columns(*matrix, part.begin, part.end, name);
}

}  // namespace

quant::PackedPtr ParamProvider::provide_quantized_part(const std::string& name, const Shape& whole,
                                                       const MatrixPart& part) {
  return cut(provide_quantized(name, whole), part, name);
}

std::vector<quant::PackedPtr> ParamProvider::provide_quantized_stack_part(const std::string& name,
                                                                          const Shape& whole,
                                                                          const MatrixPart& part) {
  std::vector<quant::PackedPtr> stack = provide_quantized_stack(name, whole);
  for (quant::PackedPtr& matrix : stack) matrix = cut(matrix, part, name);
  return stack;
}

std::int64_t ParamProvider::column_unit(const std::string&, const Shape&) { return 1; }
WeightSplit ParamProvider::split(const std::string&) { return {}; }

quant::PackedPtr ParamProvider::provide_quantized(const std::string&, const Shape&) { return nullptr; }

std::vector<quant::PackedPtr> ParamProvider::provide_quantized_stack(const std::string&, const Shape&) {
  return {};
}

std::vector<quant::PackedPtr> ParamSource::take_quantized_stack(std::string_view name,
                                                                const Shape& shape) const {
  const std::string full = prefix_ + std::string(name);
  std::vector<quant::PackedPtr> stack = provider_->provide_quantized_stack(full, shape);
  for (const quant::PackedPtr& matrix : stack)
    INGOT_CHECK(static_cast<std::int64_t>(stack.size()) == shape[0] && matrix->rows == shape[1] &&
                    matrix->cols == shape[2],
                ShapeMismatch(full, shape.to_vector(),
                              {static_cast<std::int64_t>(stack.size()), matrix->rows, matrix->cols},
                              "as the quantized file has it"));
  return stack;
}

quant::PackedPtr ParamSource::take_quantized(std::string_view name, const Shape& shape) const {
  const std::string full = prefix_ + std::string(name);
  quant::PackedPtr matrix = provider_->provide_quantized(full, shape);
  INGOT_CHECK(
      matrix == nullptr || Shape({matrix->rows, matrix->cols}) == shape,
      ShapeMismatch(full, shape.to_vector(), {matrix->rows, matrix->cols}, "as the quantized file has it"));
  return matrix;
}

RngKey parameter_stream(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  constexpr std::uint64_t kInit = 0x696e6974;  // "init": apart from streams that other modules derive
  return {seed, mix_stream(kInit, hash)};
}

InitSource::InitSource(std::uint64_t seed, DType dtype, Device device)
    : seed_(seed), dtype_(dtype), device_(device) {
  INGOT_CHECK(is_floating_point(dtype),
              InvalidConfig("dtype", fmt::format("parameters are floating, got {}", ingot::name(dtype))));
}

Tensor InitSource::provide(const ParamRequest& request) {
  const MemoryTagScope tag(MemoryTag::parameter);
  const Tensor value = Tensor::empty(request.shape, request.dtype.value_or(dtype_));
  fill_(value, request.init, parameter_stream(seed_, request.name));
  return to(value, device_);
}

Tensor MetaSource::provide(const ParamRequest& request) {
  return Tensor::empty(request.shape, request.dtype.value_or(dtype_), kMeta);
}

TensorMapSource::TensorMapSource(std::map<std::string, Tensor> tensors, LoadOptions options,
                                 std::string origin)
    : tensors_(std::move(tensors)), options_(options), origin_(std::move(origin)) {}

Tensor TensorMapSource::provide(const ParamRequest& request) {
  const auto found = tensors_.find(request.name);
  taken_.insert(request.name);
  if (found == tensors_.end()) {
    missing_.push_back(fmt::format("{} {}", request.name, to_string(request.shape)));
  } else if (found->second.shape() != request.shape) {
    misshaped_.push_back(fmt::format("{}: the model has {}, {} has {}", request.name,
                                     to_string(request.shape), origin_, to_string(found->second.shape())));
  } else {
    const NoGrad no_grad;
    const MemoryTagScope tag(MemoryTag::parameter);
    const Tensor& stored = found->second;
    const DType wanted =
        options_.wide_vectors && stored.rank() == 1 ? DType::f32 : options_.dtype.value_or(stored.dtype());
    const DType dtype = request.dtype.value_or(wanted);
    Tensor value = contiguous(to(to(stored, dtype), options_.device));
    if (options_.copy && value.storage() == stored.storage()) value = clone(value);
    return value.detach();
  }
  return placeholder(request.shape, options_.dtype.value_or(DType::f32), options_.device);
}

void TensorMapSource::finish(const std::vector<std::string>& ignore_unexpected) const {
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : tensors_) {
    const auto matches = [&name = name](const std::string& glob) { return glob_match(glob, name); };
    if (taken_.contains(name) || std::ranges::any_of(ignore_unexpected, matches)) continue;
    unexpected.push_back(fmt::format("{} {}", name, to_string(tensor.shape())));
  }
  if (missing_.empty() && misshaped_.empty() && unexpected.empty()) return;
  std::string message =
      fmt::format("{} does not hold this model's parameters (is the configuration the right one?):", origin_);
  append_list(message, "missing", missing_);
  append_list(message, "of another shape", misshaped_);
  append_list(message, "not expected", unexpected);
  throw Error(message);
}

}  // namespace ingot
