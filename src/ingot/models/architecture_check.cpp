#include "ingot/models/architecture_check.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/printable.h"
#include "ingot/core/backend.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/quant/block_format.h"
#include "ingot/quant/matrix_format.h"
#include "ingot/quant/packed_slice.h"

namespace ingot {
namespace {

// What the checkpoint must hold under `rule` for a parameter of ours of this shape, without the fused rows of
// other rules.
Shape stored_shape(const WeightRule& rule, Shape shape) {
  if (rule.stacked > 0) shape = shape.erase(0);
  const bool is_stack = shape.rank() == 3 || (shape.rank() == 2 && rule.every > 1 && shape[0] == rule.groups);
  if (rule.groups > 0 && is_stack) {
    shape = shape.with(1, rule.every > 1 ? rule.rows * rule.every : rule.first + rule.rows);
  } else if (rule.rows > 0) {
    shape = shape.with(0, (rule.first + rule.rows) * std::max<std::int64_t>(rule.groups, 1));
  }
  if (const int last = shape.rank() - 1; rule.transposed && last > 0) {
    const std::int64_t in = shape[last];
    shape = shape.with(last, shape[last - 1]).with(last - 1, in);
  }
  return shape;
}

std::map<std::string, Shape> expected_tensors(const std::vector<ParameterShape>& parameters,
                                              const WeightMap& map) {
  std::map<std::string, Shape> expected;
  for (const ParameterShape& parameter : parameters) {
    const WeightRule rule = map.rule_for(parameter.name);
    const Shape shape = stored_shape(rule, parameter.shape);
    for (const std::string& name : sources_of(rule)) {
      const auto [at, added] = expected.emplace(name, shape);
      if (!added && shape.numel() > at->second.numel()) at->second = shape;  // a later part of a fused matrix
    }
  }
  return expected;
}

void note_variants(const WeightMap& map, const std::set<std::string>& names, ArchitectureReport& report) {
  for (const WeightSpelling& spelling : map.spellings) {
    const auto uses = [&](const std::string& name) {
      const std::size_t at = name.find(spelling.found);
      return spelling.at_start ? at == 0 : at != std::string::npos;
    };
    if (!spelling.variant.empty() && std::ranges::any_of(names, uses))
      report.variants.push_back(spelling.variant);
  }
  const auto inner = [&](const std::string& name) { return name.starts_with(map.prefix); };
  if (!map.prefix.empty() && std::ranges::none_of(names, inner)) {
    report.variants.push_back(fmt::format("inner model alone (no '{}')", map.prefix));
  }
}

}  // namespace

Tensor ShapeRecorder::provide(const ParamRequest& request) {
  parameters_.push_back({request.name, request.shape});
  const Tensor one = Tensor::zeros({1});
  View view = contiguous_view(one.view().data, request.shape, DType::f32, kCpu);
  view.strides = {};
  return {one.storage(), view};
}

void ArchitectureReport::require(const std::string& origin) const {
  if (missing.empty() && misshaped.empty()) {
    if (unexpected.empty()) return;
    std::string names;
    append_list(names, "not used", unexpected);
    log(LogLevel::warn, "ingot::models",
        fmt::format("{} holds tensors that a {} model of this configuration does not have", origin, family) +
            names);
    return;
  }
  std::string message = fmt::format(
      "{} does not hold this {} model's parameters (is the configuration the right one?)", origin, family);
  if (!variants.empty()) message += fmt::format("; it has: {}", fmt::join(variants, ", "));
  append_list(message, "missing", missing);
  append_list(message, "of another shape", misshaped);
  append_list(message, "not expected", unexpected);
  throw in_lines(Error(message));
}

void require_enough_tensors(std::int64_t layers, const char* key, const WeightSource& weights) {
  const auto there = static_cast<std::int64_t>(weights.tensors().size());
  INGOT_CHECK(layers <= there,
              FormatError(weights.location(), -1, key,
                          fmt::format("is {} in the configuration, but the weights hold only {} tensors",
                                      layers, there)));
}

ArchitectureReport check_architecture(const std::vector<ParameterShape>& parameters, const WeightMap& map,
                                      const WeightSource& weights) {
  ArchitectureReport report;
  std::map<std::string, Shape> expected = expected_tensors(parameters, map);
  std::set<std::string> names;
  for (const TensorInfo& info : weights.tensors()) {
    names.insert(info.name);
    const auto found = expected.find(map.canonical(info.name));
    const Shape shape{std::span<const std::int64_t>(info.shape)};
    if (found == expected.end()) {
      const auto matches = [&](const std::string& glob) {
        return glob_match(glob, info.name) || glob_match(glob, map.canonical(info.name));
      };
      if (std::ranges::any_of(map.ignored, matches)) continue;
      report.unexpected.push_back(fmt::format("{} {}", info.name, to_string(shape)));
      continue;
    }
    if (found->second != shape) {
      report.misshaped.push_back(fmt::format("{}: the model has {}, the file has {}", info.name,
                                             to_string(found->second), to_string(shape)));
    }
    expected.erase(found);
  }
  for (const auto& [name, shape] : expected)
    report.missing.push_back(fmt::format("{} {}", name, to_string(shape)));
  note_variants(map, names, report);
  return report;
}

namespace {

quant::MatrixFormat format_of(const std::string& parameter, const std::string& format, std::int64_t cols) {
  return quant::matrix_format(format, cols, quant::matrix_role(parameter));
}

// Floats of 16 bits, where a format of blocks has nothing else for such rows.
bool becomes_half(const ParamRequest& request, const LoadOptions& options) {
  return options.keep_quantized && !options.format.empty() && request.shape.rank() >= 2 &&
         format_of(request.name, options.format, request.shape[-1]).used == "f16";
}

}  // namespace

// Elements from which fresh memory costs little beside what fills it.
constexpr std::int64_t kLarge = std::int64_t{1} << 20;

MappedSource::MappedSource(const WeightSource& weights, WeightMap map, LoadOptions options)
    : weights_(weights), map_(std::move(map)), options_(options) {
  for (const TensorInfo& info : weights.tensors()) stored_[map_.canonical(info.name)] = info.name;
}

void MappedSource::drop_temporaries() {
  if (large_) backend(kCpu).trim();
  large_ = false;
}

Tensor MappedSource::provide(const ParamRequest& request) {
  drop_temporaries();
  large_ = request.shape.numel() >= kLarge;
  const NoGrad no_grad;
  const MemoryTagScope tag(MemoryTag::parameter);
  const WeightRule rule = map_.rule_for(request.name);
  if (rule.stacked > 0) return stacked(rule, request);
  return to(loaded(rule, request), options_.device).detach();
}

Tensor MappedSource::loaded(const WeightRule& rule, const ParamRequest& request) const {
  Imported stored = imported(rule, request.name, request.shape);
  if (becomes_half(request, options_)) stored.value = to(stored.value, DType::f16);
  const DType dtype = dtype_of_parameter(stored.value, request);
  const Tensor value = contiguous(to(stored.value, dtype));
  if (rounds(request)) return to(rounded_values(value, request.name), dtype);
  const bool shared = value.storage().get() == stored.shared && options_.device == value.device();
  return options_.copy && shared ? clone(value) : value;
}

// Each part is copied to its offset before the next is read: beside the whole there is never more than one.
Tensor MappedSource::stacked(const WeightRule& rule, const ParamRequest& request) const {
  const std::vector<std::string> names = sources_of(rule);
  INGOT_CHECK(request.shape.rank() > 0 && request.shape[0] == rule.stacked,
              ShapeMismatch(request.name, request.shape.to_vector(), {rule.stacked}, "parts of a stack"));
  Tensor whole;
  for (std::size_t i = 0; i < names.size(); ++i) {
    WeightRule one = rule;
    one.theirs = names[i];
    one.stacked = 0;
    Tensor part = imported(one, request.name, request.shape.erase(0)).value;
    if (becomes_half(request, options_)) part = to(part, DType::f16);
    if (!whole.defined())
      whole = Tensor::empty(request.shape, dtype_of_parameter(part, request), options_.device);
    if (rounds(request)) part = rounded_values(contiguous(to(part, whole.dtype())), request.name);
    copy_(select(whole, 0, static_cast<std::int64_t>(i)), to(part, options_.device));
  }
  return whole.detach();
}

MappedSource::Imported MappedSource::imported(const WeightRule& rule, const std::string& parameter,
                                              const Shape& shape) const {
  Imported result;
  result.value = import_tensor(rule, [&](const std::string& name) {
    const auto found = stored_.find(name);
    if (found == stored_.end()) return Tensor{};
    const Tensor tensor = weights_.load_tensor(found->second);
    const bool dequantized =
        quant::find_block_format(weights_.get_metadata(found->second).stored_as) != nullptr;
    if (!dequantized) result.shared = tensor.storage().get();
    return tensor;
  });
  const Tensor& value = result.value;
  INGOT_CHECK(value.defined() && value.shape() == shape,
              ShapeMismatch(parameter, shape.to_vector(),
                            value.defined() ? value.shape().to_vector() : std::vector<std::int64_t>{},
                            weights_.location() + " was not checked before it was loaded"));
  return result;
}

DType MappedSource::dtype_of_parameter(const Tensor& stored, const ParamRequest& request) const {
  if (request.dtype.has_value()) return *request.dtype;
  if (options_.wide_vectors && request.shape.rank() == 1) return DType::f32;
  return options_.dtype.value_or(stored.dtype());
}

bool MappedSource::rounds(const ParamRequest& request) const {
  return !options_.keep_quantized && !options_.format.empty() && request.shape.rank() > 1 &&
         !request.dtype.has_value();
}

namespace {

Tensor values_of(const quant::PackedMatrix& matrix) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(matrix.rows));
  std::iota(ids.begin(), ids.end(), 0);
  return quant::rows(matrix, Tensor::from(ids, {matrix.rows}));
}

}  // namespace

// What a matrix, or each of a stack of them, becomes in the format asked for; f32.
Tensor MappedSource::rounded_values(const Tensor& weight, const std::string& name) const {
  const quant::MatrixFormat format = format_of(name, options_.format, weight.shape().back());
  if (format.used == "f16") return to(to(weight, DType::f16), DType::f32);
  if (format.is_dense()) return to(weight, DType::f32);
  if (weight.rank() == 2) return values_of(*round_to_format(weight, name));
  std::vector<Tensor> stack;
  for (std::int64_t i = 0; i < weight.dim(0); ++i)
    stack.push_back(values_of(*round_to_format(contiguous(select(weight, 0, i)), name)));
  return reshape(concat(stack), weight.shape());
}

// What the file has in a quantized form of its own; `matrix` of a stack, or -1.
quant::PackedPtr MappedSource::pack_stored(const std::string& theirs, const WeightRule& rule,
                                           std::int64_t matrix) const {
  const auto found = stored_.find(theirs);
  if (found == stored_.end()) return nullptr;
  return weights_.load_packed(found->second, {.transposed = rule.transposed,
                                              .first = rule.first,
                                              .rows = rule.rows,
                                              .every = rule.every,
                                              .matrix = matrix});
}

quant::PackedPtr MappedSource::provide_quantized(const std::string& name, const Shape& shape) {
  if (!options_.keep_quantized || shape.rank() != 2) return nullptr;
  const NoGrad no_grad;
  const MemoryTagScope tag(MemoryTag::parameter);
  return on_device(kept(name, [&]() -> quant::PackedPtr {
    const WeightRule rule = map_.rule_for(name);
    const bool whole = rule.stacked == 0 && rule.groups == 0;
    if (options_.format.empty()) return whole ? pack_stored(rule.theirs, rule) : nullptr;
    if (format_of(name, options_.format, shape[1]).is_dense()) return nullptr;
    drop_temporaries();
    large_ = shape.numel() >= kLarge;
    return round_to_format(loaded(rule, {.name = name, .shape = shape, .init = {}}), name);
  }));
}

std::vector<quant::PackedPtr> MappedSource::provide_quantized_stack(const std::string& name,
                                                                    const Shape& shape) {
  const WeightRule rule = map_.rule_for(name);
  const bool one_by_one = rule.stacked > 0;  // or all experts in one tensor
  if (!options_.keep_quantized || (one_by_one && rule.stacked != shape[0])) return {};
  if (!options_.format.empty() && format_of(name, options_.format, shape[2]).is_dense()) return {};
  const NoGrad no_grad;
  const MemoryTagScope tag(MemoryTag::parameter);
  const std::vector<std::string> theirs = sources_of(rule);
  Tensor all;
  const auto dense = [&](std::int64_t expert) {
    if (one_by_one) return weights_.load_tensor(stored_.at(theirs[static_cast<std::size_t>(expert)]));
    if (!all.defined()) all = imported(rule, name, shape).value;
    return contiguous(select(all, 0, expert));
  };
  std::vector<quant::PackedPtr> experts;
  for (std::int64_t e = 0; e < shape[0]; ++e) {
    const std::string expert = fmt::format("{}.{}", name, e);
    experts.push_back(kept(expert, [&]() -> quant::PackedPtr {
      if (!options_.format.empty()) return round_to_format(dense(e), expert);
      return one_by_one ? pack_stored(theirs[static_cast<std::size_t>(e)], rule)
                        : pack_stored(theirs.front(), rule, e);
    }));
    if (experts.back() == nullptr) return {};
    experts.back() = on_device(experts.back());
  }
  return experts;
}

namespace {

// Whether a part is rounded as it would be in the whole matrix: no scale spans more than the part.
bool rounds_in_parts(const std::string& format, int axis) {
  // One scale is the whole matrix', or that of tiles which a part may begin in.
  if (format == "ternary" || format == "nvfp4" || format == "fp8-128x128") return false;
  if (axis == 0) return true;
  const auto groups = quant::find_group_options(format);
  return quant::find_block_format(format) != nullptr || format == "nf4" || (groups && groups->group > 0);
}

}  // namespace

// Reads no more than the part, as far as blocks and recipes allow that.
quant::PackedPtr MappedSource::provide_quantized_part(const std::string& name, const Shape& whole,
                                                      const MatrixPart& part) {
  const WeightRule rule = map_.rule_for(name);
  const bool plain = options_.keep_quantized && options_.store == nullptr && part.axis >= 0 &&
                     rule.groups == 0 && rule.stacked == 0 && rule.every == 1;
  const quant::MatrixFormat format =
      options_.format.empty() ? quant::MatrixFormat{} : format_of(name, options_.format, whole[1]);
  if (!plain || (!format.is_dense() && !rounds_in_parts(format.used, part.axis)))
    return ParamProvider::provide_quantized_part(name, whole, part);
  const NoGrad no_grad;
  const MemoryTagScope tag(MemoryTag::parameter);
  const std::int64_t count = part.end - part.begin;
  if (!options_.format.empty()) {
    if (format.is_dense()) return nullptr;
    const Tensor weight = loaded(rule, {.name = name, .shape = whole, .init = {}});
    return quant::quantize_and_pack(contiguous(narrow(weight, part.axis, part.begin, count)), format.used,
                                    name);
  }
  PackedPart stored{.transposed = rule.transposed, .first = rule.first, .rows = rule.rows};
  if (part.axis == 0) {
    stored.first += part.begin;
    stored.rows = count;
  } else {
    stored.first_column = part.begin;
    stored.columns = count;
  }
  const auto found = stored_.find(rule.theirs);
  if (found == stored_.end()) return nullptr;
  quant::PackedPtr matrix = weights_.load_packed(found->second, stored);
  return matrix != nullptr ? matrix : ParamProvider::provide_quantized_part(name, whole, part);
}

// The first rows of a matrix, or of the first of a stack, as they are going to be packed.
quant::PackedPtr MappedSource::pack_few_rows(const std::string& name, const Shape& shape) const {
  constexpr std::int64_t kFew = 16;
  WeightRule rule = map_.rule_for(name);
  const bool is_stack = shape.rank() == 3;
  if (!options_.format.empty()) {
    if (format_of(name, options_.format, shape.back()).is_dense()) return nullptr;
    const std::vector<float> ones(static_cast<std::size_t>(kFew * shape.back()), 1.0F);
    return round_to_format(Tensor::from(ones, {kFew, shape.back()}), name);
  }
  if (rule.groups > 0 && !is_stack) return nullptr;
  const std::int64_t rows = rule.rows > 0 ? rule.rows : shape[is_stack ? 1 : 0];
  rule.rows = std::min(kFew, rows);
  const bool in_one = is_stack && rule.stacked == 0;
  return pack_stored(sources_of(rule).front(), rule, in_one ? 0 : -1);
}

std::int64_t MappedSource::column_unit(const std::string& name, const Shape& shape) {
  if (!options_.keep_quantized) return 1;
  const NoGrad no_grad;
  const quant::PackedPtr rows = pack_few_rows(name, shape);
  return rows == nullptr ? 1 : quant::column_unit(*rows);
}

quant::PackedPtr MappedSource::on_device(const quant::PackedPtr& matrix) const {
  if (matrix == nullptr || options_.device == matrix->data.device()) return matrix;
  auto moved = std::make_shared<quant::PackedMatrix>(*matrix);
  moved->data = to(matrix->data, options_.device);
  if (matrix->order.defined()) moved->order = to(matrix->order, options_.device);
  return moved;
}

quant::PackedPtr MappedSource::round_to_format(const Tensor& weight, const std::string& name) const {
  return quant::quantize_and_pack(weight, format_of(name, options_.format, weight.dim(1)).used, name);
}

quant::PackedPtr MappedSource::kept(const std::string& name, FunctionRef<quant::PackedPtr()> make) const {
  if (options_.store == nullptr) return make();
  if (quant::PackedPtr found = options_.store->find(name)) return found;
  quant::PackedPtr made = make();
  return made == nullptr ? nullptr : options_.store->add(name, std::move(made));
}

}  // namespace ingot
