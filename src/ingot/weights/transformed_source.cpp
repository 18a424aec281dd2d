#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/memory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/weights/ggml_type.h"
#include "ingot/weights/transform.h"

namespace ingot {
namespace {

bool keep_rows(const TensorRecipe& recipe, int rank) {
  if (recipe.inputs.size() > 1 && (recipe.concat_axis == -1 || recipe.concat_axis == rank - 1)) return false;
  return std::ranges::all_of(recipe.steps, [rank](const Transform& step) { return step.keeps_rows(rank); });
}

/// The blocks of a quantized tensor as bytes [..., bytes of a row], which row operations take like any
/// tensor.
Tensor rows_of_blocks(const WeightSource& source, const TensorInfo& info, const GgmlType& type) {
  std::vector<std::int64_t> shape = info.shape;
  shape.back() = static_cast<std::int64_t>(type.bytes(static_cast<std::uint64_t>(shape.back())));
  return tensor_in(source.stored_bytes(info.name), 0, Shape(std::span<const std::int64_t>(shape)), DType::u8);
}

Tensor joined(std::vector<Tensor> inputs, int axis) {
  return inputs.size() == 1 ? std::move(inputs.front()) : concat(inputs, axis);
}

Blob blob_of(const Tensor& tensor, const std::string& name) {
  const Tensor whole = contiguous(tensor);
  auto* data = static_cast<std::byte*>(whole.view().data);
  return {name, {data, whole.nbytes()}, whole.storage(), {}};
}

const GgmlType* blocks_of(const TensorInfo& info) {
  const GgmlType* type = find_ggml_type(info.stored_as);
  return type != nullptr && type->block_elements > 1 ? type : nullptr;
}

}  // namespace

TransformedSource::TransformedSource(std::shared_ptr<const WeightSource> base,
                                     std::vector<TensorRecipe> recipes)
    : WeightSource(base->location()), base_(std::move(base)), recipes_(std::move(recipes)) {
  std::ranges::sort(recipes_, {}, &TensorRecipe::name);
  std::vector<TensorInfo> tensors;
  for (std::size_t i = 0; i < recipes_.size(); ++i) {
    INGOT_CHECK(i == 0 || recipes_[i].name != recipes_[i - 1].name,
                InvalidConfig(recipes_[i].name, "two tensors would have this name"));
    tensors.push_back(describe(recipes_[i]));
  }
  keep_ties(tensors);
  set_contents(std::move(tensors), base_->metadata());
}

// `tensors`: in the order of recipes_. Values that were the same still are where the same is done to both.
void TransformedSource::keep_ties(std::span<TensorInfo> tensors) const {
  const auto is_same_tensor = [](const TensorRecipe& recipe) {
    return recipe.inputs.size() == 1 && recipe.steps.size() <= 1 &&
           std::ranges::all_of(recipe.steps, &Transform::is_cast);
  };
  std::map<std::string_view, const TensorInfo*> made_of;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (is_same_tensor(recipes_[i])) made_of.try_emplace(recipes_[i].inputs.front(), &tensors[i]);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto other = made_of.find(tensors[i].same_as);
    const bool is_kept =
        other != made_of.end() && is_same_tensor(recipes_[i]) && other->second->dtype == tensors[i].dtype;
    tensors[i].same_as = is_kept ? other->second->name : "";
  }
}

TensorInfo TransformedSource::describe(const TensorRecipe& recipe) const {
  INGOT_CHECK(!recipe.inputs.empty(), InvalidConfig(recipe.name, "is made from nothing"));
  TensorInfo info = base_->get_metadata(recipe.inputs.front());
  info.name = recipe.name;
  if (recipe.steps.empty() && recipe.inputs.size() == 1) return info;
  INGOT_CHECK(info.dtype.has_value(),
              InvalidConfig(recipe.name, fmt::format("cannot be made from element type {}", info.stored_as)));
  TensorForm form{info.shape, *info.dtype};
  const int rank = static_cast<int>(form.shape.size());
  for (std::size_t i = 1; i < recipe.inputs.size(); ++i) {
    const TensorInfo& next = base_->get_metadata(recipe.inputs[i]);
    const int axis = recipe.concat_axis < 0 ? recipe.concat_axis + rank : recipe.concat_axis;
    std::vector<std::int64_t> expected = form.shape;
    INGOT_CHECK(
        axis >= 0 && axis < rank && next.dtype == info.dtype && next.shape.size() == expected.size(),
        InvalidConfig(recipe.name, fmt::format("'{}' cannot be put behind '{}': they differ in type or rank",
                                               recipe.inputs[i], recipe.inputs[0])));
    expected[static_cast<std::size_t>(axis)] = next.shape[static_cast<std::size_t>(axis)];
    INGOT_CHECK(expected == next.shape,
                ShapeMismatch(recipe.name + ": " + recipe.inputs[i], expected, next.shape));
    form.shape[static_cast<std::size_t>(axis)] += next.shape[static_cast<std::size_t>(axis)];
  }
  const bool mixed = !stored_alike(recipe);
  const quant::BlockFormat* blocks = nullptr;
  for (std::size_t i = 0; i < recipe.steps.size(); ++i) {
    INGOT_CHECK(blocks == nullptr, InvalidConfig(recipe.name, "a step follows the one that quantizes"));
    form = recipe.steps[i].infer(form, recipe.name);
    blocks = recipe.steps[i].block_format();
  }
  info.shape = form.shape;
  const auto elements = static_cast<std::uint64_t>(info.numel());
  const GgmlType* stored = blocks_of(info);
  if (mixed) info.stored_as = ingot::name(form.dtype);
  if (blocks != nullptr) {
    info.stored_as = blocks->name;
    info.bytes = elements / static_cast<std::uint64_t>(blocks->elements) * blocks->bytes;
  } else if (stored != nullptr && !mixed && keep_rows(recipe, rank)) {
    info.bytes = stored->bytes(elements);
  } else {
    if (stored != nullptr || form.dtype != *info.dtype) info.stored_as = ingot::name(form.dtype);
    info.bytes = elements * byte_size(form.dtype);
  }
  info.dtype = form.dtype;
  return info;
}

// Whether the inputs have one element type; of several blocks of one are not rows of the other.
bool TransformedSource::stored_alike(const TensorRecipe& recipe) const {
  return std::ranges::all_of(recipe.inputs, [&](const std::string& name) {
    return base_->get_metadata(name).stored_as == base_->get_metadata(recipe.inputs.front()).stored_as;
  });
}

const TensorRecipe& TransformedSource::recipe_of(const TensorInfo& info) const {
  return *std::ranges::lower_bound(recipes_, info.name, {}, &TensorRecipe::name);
}

WeightCapabilities TransformedSource::capabilities() const {
  WeightCapabilities result = base_->capabilities();
  result.zero_copy = false;
  return result;
}

void TransformedSource::preload(std::span<const std::string> names) const {
  for (const std::string& name : names) base_->preload(recipe_of(get_metadata(name)).inputs);
}

Tensor TransformedSource::load(const TensorInfo& info) const {
  const NoGrad no_grad;
  const TensorRecipe& recipe = recipe_of(info);
  return transformed(recipe, recipe.steps);
}

Tensor TransformedSource::transformed(const TensorRecipe& recipe, std::span<const Transform> steps) const {
  std::vector<Tensor> inputs;
  for (const std::string& name : recipe.inputs) inputs.push_back(base_->load_tensor(name));
  Tensor x = joined(std::move(inputs), recipe.concat_axis);
  for (const Transform& step : steps) x = step.apply(x);
  return contiguous(x);
}

// Blocks, as bytes, that go through the steps of a recipe that keeps rows.
Tensor TransformedSource::transformed_rows(const TensorRecipe& recipe, const GgmlType& type) const {
  std::vector<Tensor> inputs;
  for (const std::string& name : recipe.inputs) {
    inputs.push_back(rows_of_blocks(*base_, base_->get_metadata(name), type));
  }
  Tensor x = joined(std::move(inputs), recipe.concat_axis);
  for (const Transform& step : recipe.steps) x = step.apply(x);
  return x;
}

Blob TransformedSource::stored(const TensorInfo& info) const {
  const NoGrad no_grad;
  const TensorRecipe& recipe = recipe_of(info);
  if (recipe.steps.empty() && recipe.inputs.size() == 1) return base_->stored_bytes(recipe.inputs.front());
  if (const GgmlType* type = blocks_of(info)) {
    if (!recipe.steps.empty() && recipe.steps.back().block_format() != nullptr) {
      const std::span before(recipe.steps.data(), recipe.steps.size() - 1);
      return memory_blob(location(), recipe.steps.back().blocks_of(transformed(recipe, before)));
    }
    return blob_of(transformed_rows(recipe, *type), location());
  }
  return blob_of(load(info), location());
}

// A cast says only what a quantized matrix' values would be computed in, so none counts here.
quant::PackedPtr TransformedSource::packed(const TensorInfo& info, const PackedPart& part) const {
  const NoGrad no_grad;
  TensorRecipe recipe = recipe_of(info);
  if (!recipe.steps.empty() && recipe.steps.back().block_format() != nullptr)
    return WeightSource::packed(info, part);
  if (recipe.stacks_in_turns) {
    const auto inputs = static_cast<std::int64_t>(recipe.inputs.size());
    if (!part.transposed || part.matrix < 0 || part.every != inputs || part.first >= inputs) return nullptr;
    return base_->load_packed(
        recipe.inputs[static_cast<std::size_t>(part.first)],
        {.matrix = part.matrix, .first_column = part.first_column, .columns = part.columns});
  }
  if (recipe.stacks_in_order) {
    const std::int64_t rows = info.shape[2] / static_cast<std::int64_t>(recipe.inputs.size());
    if (!part.transposed || part.matrix < 0 || part.every != 1 || part.rows != rows || part.first % rows != 0)
      return nullptr;
    return base_->load_packed(
        recipe.inputs[static_cast<std::size_t>(part.first / rows)],
        {.matrix = part.matrix, .first_column = part.first_column, .columns = part.columns});
  }
  std::erase_if(recipe.steps, [](const Transform& step) { return step.is_cast(); });
  const TensorInfo& input = base_->get_metadata(recipe.inputs.front());
  const bool passes = info.shape.size() == 2  // or a stack as it is
                          ? std::ranges::all_of(recipe.steps, &Transform::transposes_matrix)
                          : recipe.steps.empty();
  if (recipe.inputs.size() == 1 && passes) {
    PackedPart of_base = part;
    of_base.transposed = part.transposed != (recipe.steps.size() % 2 == 1);
    return base_->load_packed(input.name, of_base);
  }
  const GgmlType* type = blocks_of(input);
  const quant::BlockFormat* format = quant::find_block_format(input.stored_as);
  if (type == nullptr || format == nullptr || part.transposed || info.shape.size() != 2 ||
      !stored_alike(recipe) || !keep_rows(recipe, static_cast<int>(input.shape.size())))
    return nullptr;
  const Tensor blocks = contiguous(transformed_rows(recipe, *type));
  return pack_columns(
      {.format = format,
       .rows = part.rows > 0 ? part.rows : info.shape[0],
       .cols = info.shape[1],
       .blocks = part.rows > 0 ? contiguous(narrow(blocks, 0, part.first, part.rows)) : blocks},
      part);
}

std::vector<TensorRecipe> identity_recipes(const WeightSource& source) {
  std::vector<TensorRecipe> recipes;
  for (const TensorInfo& info : source.tensors()) recipes.push_back({info.name, {info.name}, {}});
  return recipes;
}

}  // namespace ingot
