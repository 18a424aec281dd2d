#include "ingot/models/adapter/gguf_experts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/nn/expert_linear.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Of a tensor of the family's checkpoints, which may have several layers one below the other.
ModuleSize size_of(const AdapterBase& base, const AdaptedExperts& at) {
  ModuleSize size{.rows = 0,
                  .columns = at.whole_shape()[2],
                  .transposed = at.rule.transposed,
                  .experts = at.count(),
                  .apart = at.is_modules()};
  for (const AdaptedExperts& other : base.parts.experts)
    if (other.rule.theirs == at.rule.theirs) size.rows += other.whole_shape()[1];
  return size;
}

std::vector<std::int64_t> own_rows(const AdaptedExperts& at, const ModuleSize& size) {
  Tensor numbered = numbered_rows(size);
  if (size.transposed) numbered = contiguous(transpose(numbered, -2, -1));
  const Tensor own = import_tensor(at.rule, [&](const std::string&) { return numbered; });
  return read_numbered_rows(at.ours, select(own, 0, 0)).rows;
}

// Numbers of rows of the checkpoint's tensor as numbers of the layer's own; nothing where they are others.
std::optional<GgufRows> counted_from(const GgufRows& tensor, const std::vector<std::int64_t>& own) {
  if (tensor.rows.size() != own.size()) return std::nullopt;
  std::map<std::int64_t, std::int64_t> number;
  for (std::size_t i = 0; i < own.size(); ++i) number[own[i]] = static_cast<std::int64_t>(i);
  GgufRows rows = tensor;
  for (std::int64_t& row : rows.rows) {
    const auto found = number.find(row);
    if (found == number.end()) return std::nullopt;
    row = found->second;
  }
  return rows;
}

}  // namespace

GgufRows experts_in_gguf(const AdapterBase& base, const std::string& place, const AdaptedExperts& at) {
  const ModuleSize size = size_of(base, at);
  const std::vector<std::int64_t> own = own_rows(at, size);
  for (const GgufRows& tensor : rows_in_gguf(base, place, at.pattern_name(), sources_of(at.rule), size))
    if (std::optional<GgufRows> rows = counted_from(tensor, own)) return *std::move(rows);
  throw NotImplemented(fmt::format(
      "{}: an adapter of '{}' in a GGUF file, which has it in one tensor with another layer; merge "
      "the adapter into the model (ingot merge)",
      place, at.ours));
}

Tensor expert_rows_to_gguf(const Tensor& b, const GgufRows& rows, float scale) {
  std::vector<Tensor> experts;
  for (std::int64_t e = 0; e < b.dim(0); ++e) experts.push_back(rows_to_gguf(select(b, 0, e), rows, scale));
  return stack(experts);
}

ExpertStacks stacks_of_gguf(const std::string& file, const AdaptedExperts& at, const GgufRows& rows,
                            const Tensor& lora_a, const Tensor& lora_b, double alpha) {
  const Shape shape = at.whole_shape();
  const std::int64_t rank = lora_a.dim(1);
  INGOT_CHECK(
      rank > 0 && lora_b.rank() == 3 && lora_a.shape() == Shape({shape[0], rank, shape[2]}) &&
          lora_b.shape() == Shape({shape[0], shape[1], rank}),
      Error(fmt::format("{}: the adapter of '{}' ({}) has lora_a {} and lora_b {}, and the model's stack is "
                        "{}; is it of another base model?",
                        file, rows.name, at.ours, to_string(lora_a.shape()), to_string(lora_b.shape()),
                        to_string(shape))));
  ExpertStacks stacks{.at = &at,
                      .a = contiguous(to(lora_a, DType::f32)),
                      .b = Tensor::zeros(lora_b.shape()),
                      .scale = alpha == 0 ? 1 : static_cast<float>(alpha / static_cast<double>(rank))};
  for (std::int64_t e = 0; e < shape[0]; ++e)
    rows_from_gguf(select(lora_b, 0, e), rows, 0, 1, select(stacks.b, 0, e));
  return stacks;
}

}  // namespace ingot
