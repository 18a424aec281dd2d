#include "ingot/models/language/tensor_parallel.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/models/architecture_check.h"
#include "ingot/models/language/decoder_attention.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

constexpr std::int64_t kRows = 16;  // between which quantized matrices are cut

// Why a family cannot be split; empty where it can.
std::string obstacle(const LanguageConfig& c) {
  if (c.is_recurrent()) return "some of its layers keep a state (convolutions, Mamba, the delta rule)";
  if (c.hidden_size_per_layer_input > 0)
    return "its layers have inputs of their own (hidden_size_per_layer_input)";
  if (c.num_kv_shared_layers > 0) return "its last layers read others' keys (num_kv_shared_layers)";
  if (c.global_head_dim > 0 && c.global_head_dim != c.head_dim)
    return "its layers have heads of two sizes (global_head_dim)";
  if (c.attention_k_eq_v ||
      (c.num_global_key_value_heads > 0 && c.num_global_key_value_heads != c.num_key_value_heads))
    return "its layers have keys and values of two kinds (attention_k_eq_v, num_global_key_value_heads)";
  if (c.experts_beside_mlp && c.num_experts > 0) return "its experts stand beside an MLP";
  return {};
}

LanguageConfig validated(LanguageConfig config) {
  config.validate();
  return config;
}

std::map<std::string, Shape> shapes_of(const LanguageConfig& config) {
  ShapeRecorder recorder;
  const LanguageModel model(config, recorder);
  std::map<std::string, Shape> shapes;
  for (const ParameterShape& parameter : recorder.parameters())
    shapes.emplace(parameter.name, parameter.shape);
  return shapes;
}

bool has(const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; }

// A bias of results that are summed.
bool is_summed_bias(const std::string& name) {
  return name.ends_with(".o_proj.bias") || name.ends_with(".down_proj.bias") ||
         name.ends_with(".down_proj_bias") || name.ends_with(".fc2_latent_proj.bias");
}

}  // namespace

TensorParallelSplit::TensorParallelSplit(LanguageConfig config, ParamProvider& whole,
                                         std::shared_ptr<const RankGroup> ranks)
    : ranks_(std::move(ranks)),
      whole_(validated(std::move(config))),
      config_(whole_),
      shapes_(shapes_of(config_)) {
  if (const std::string why = obstacle(config_); !why.empty()) refuse("are not available: " + why);
  split_heads(unit_of(whole, ".self_attn.o_proj.weight"));
  const auto split_inner = [&](Range& range, std::int64_t& size, const char* key, const std::string& module,
                               const std::string& ending) {
    const std::int64_t down = unit_of(whole, module + "down_proj" + ending);
    if (down == 0) return;  // no layer has one
    const std::int64_t rows = unit_of(whole, module + "up_proj" + ending) > 1 ? kRows : 1;
    range = own(borders(size, std::lcm(down, rows), key));
    size = range.size();
  };
  split_inner(inner_, config_.intermediate_size, "intermediate_size", ".mlp.", ".weight");
  split_inner(expert_inner_, config_.moe_intermediate_size, "moe_intermediate_size", ".mlp.experts.", "");
  split_inner(shared_inner_, config_.shared_expert_intermediate_size, "shared_expert_intermediate_size",
              ".mlp.shared_expert.", ".weight");
  vocabulary_borders_ = borders(config_.vocab_size, kRows, "vocab_size");
  vocabulary_ = own(vocabulary_borders_);

  config_.num_attention_heads = heads_.size();
  config_.num_key_value_heads = kv_heads_.size();
}

void TensorParallelSplit::refuse(const std::string& why) const {
  throw InvalidConfig("tensor_parallel_size",
                      fmt::format("{} ranks of a {} model {}", ranks_->size(), config_.model_type, why));
}

// 0: there is none.
std::int64_t TensorParallelSplit::unit_of(ParamProvider& whole, const std::string& ending) const {
  std::vector<const std::pair<const std::string, Shape>*> matches;
  for (const auto& each : shapes_)
    if (each.first.ends_with(ending)) matches.push_back(&each);
  if (matches.empty()) return 0;
  // Formats differ between layers, at the ends most of all; blocks of 32 and of 256 are not mixed otherwise.
  std::int64_t unit = 1;
  for (const auto* match : {matches.front(), matches[matches.size() / 2], matches.back()})
    unit = std::lcm(unit, whole.column_unit(match->first, match->second));
  return unit;
}

std::vector<std::int64_t> TensorParallelSplit::borders(std::int64_t all, std::int64_t unit,
                                                       const char* what) const {
  const std::int64_t units = (all + unit - 1) / unit, size = ranks_->size();
  if (units < size)
    refuse(fmt::format("are too many: its {} is {}, which can be split at multiples of {}; take {} at most",
                       what, all, unit, units));
  std::vector<std::int64_t> borders;
  for (std::int64_t rank = 0; rank <= size; ++rank)
    borders.push_back(std::min(all, units * rank / size * unit));
  return borders;
}

TensorParallelSplit::Range TensorParallelSplit::own(const std::vector<std::int64_t>& borders) const {
  const auto rank = static_cast<std::size_t>(ranks_->rank());
  return {borders[rank], borders[rank + 1], borders.back()};
}

void TensorParallelSplit::split_heads(std::int64_t unit) {
  if (config_.is_latent()) {  // every rank has the latents, of which all heads' keys and values are made
    const std::int64_t step = unit / std::gcd(unit, config_.v_head_dim);
    heads_ = kv_heads_ = own(borders(config_.num_attention_heads, step, "num_attention_heads"));
    return;
  }
  const std::int64_t groups = config_.num_key_value_heads, in_group = config_.num_attention_heads / groups;
  if (ranks_->size() > groups) return split_more_ranks_than_kv_heads(unit);
  // So many groups of heads have their border at a border of blocks.
  const std::int64_t width = in_group * config_.head_dim, step = unit / std::gcd(unit, width);
  kv_heads_ = own(borders(groups, step, "num_key_value_heads"));
  heads_ = {kv_heads_.begin * in_group, kv_heads_.end * in_group, config_.num_attention_heads};
}

// Neighbouring ranks have one head of keys and values, and share its queries out.
void TensorParallelSplit::split_more_ranks_than_kv_heads(std::int64_t unit) {
  const std::int64_t size = ranks_->size(), rank = ranks_->rank(), groups = config_.num_key_value_heads,
                     heads = config_.num_attention_heads, in_group = heads / groups;
  const std::int64_t group = rank * groups / size, first = (group * size + groups - 1) / groups,
                     sharing = ((group + 1) * size + groups - 1) / groups - first;
  const std::int64_t step = unit / std::gcd(unit, config_.head_dim), units = (in_group + step - 1) / step;
  const std::int64_t most = (size + groups - 1) / groups;  // ranks of a group
  if (units < most || in_group * config_.head_dim % unit != 0)
    refuse(
        fmt::format("are too many: its {} query heads of {} elements share {} heads of keys and values, and "
                    "can be split at multiples of {} elements",
                    heads, config_.head_dim, groups, unit));
  is_first_with_keys_ = rank == first;
  const auto border = [&](std::int64_t i) {
    return group * in_group + std::min(in_group, units * i / sharing * step);
  };
  heads_ = {border(rank - first), border(rank - first + 1), heads};
  kv_heads_ = {group, group + 1, groups};
}

// What a parameter is split by; null: every rank has all of it.
const TensorParallelSplit::Range* TensorParallelSplit::range_of(const std::string& name) const {
  const auto is_of_keys = [&] {
    return has(name, ".k_proj.") || has(name, ".v_proj.") || has(name, ".k_norm.");
  };
  if (has(name, ".self_attn.")) return is_of_keys() ? &kv_heads_ : &heads_;
  if (has(name, ".mlp.experts.")) return &expert_inner_;
  if (has(name, ".mlp.shared_expert.")) return &shared_inner_;
  if (has(name, ".mlp.")) return &inner_;
  return has(name, "embed_tokens.") || name == "lm_head.weight" ? &vocabulary_ : nullptr;
}

ParamPart TensorParallelSplit::part(const std::string& name, const Shape& own) const {
  ParamPart part{.whole = shapes_.at(name)};
  part.is_zero = is_summed_bias(name) && ranks_->rank() > 0;
  const Range* range = range_of(name);
  for (int axis = 0; axis < own.rank() && range != nullptr; ++axis) {
    if (own[axis] == part.whole[axis]) continue;
    const std::int64_t each = part.whole[axis] / range->all;  // elements of a head
    part.axis = axis;
    part.begin = range->begin * each;
    part.end = range->end * each;
  }
  return part;
}

WeightSplit TensorParallelSplit::split(const std::string& name) const {
  using Kind = WeightSplit::Kind;
  const bool in_experts = has(name, ".mlp.experts.") || has(name, ".mlp.shared_expert.");
  if (name.ends_with(".mlp.experts")) return {.kind = Kind::columns, .ranks = ranks_};
  if (name.ends_with(".self_attn.o_proj.weight") || (name.ends_with(".mlp.down_proj.weight") && !in_experts))
    return {.kind = Kind::columns, .ranks = ranks_};
  if (config_.qk_norm == QkNorm::width &&
      (name.ends_with(".q_norm.weight") || name.ends_with(".k_norm.weight")))
    return {.kind = Kind::features,
            .ranks = ranks_,
            .features = shapes_.at(name).numel(),
            .counts = range_of(name) == &heads_ || is_first_with_keys_};
  if (range_of(name) != &vocabulary_) return {};
  return {.kind = Kind::vocabulary, .ranks = ranks_, .borders = vocabulary_borders_};
}

void LanguageModel::set_part(std::shared_ptr<const TensorParallelSplit> of) {
  part = std::move(of);
  if (config.position != PositionKind::alibi) return;
  const Tensor columns = alibi_query_columns(part->whole_config(), device());
  alibi_ = clone(narrow(columns, 2, part->first_head(), config.num_attention_heads));
}

std::unique_ptr<LanguageModel> make_split_model(const LanguageConfig& config, ParamProvider& whole,
                                                std::shared_ptr<const RankGroup> ranks) {
  auto split = std::make_shared<TensorParallelSplit>(config, whole, std::move(ranks));
  SplitSource source(whole, *split);
  auto model = std::make_unique<LanguageModel>(split->config(), source);
  model->set_part(std::move(split));
  return model;
}

}  // namespace ingot
