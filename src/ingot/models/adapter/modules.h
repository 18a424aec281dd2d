#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ingot/models/adapter/lora.h"
#include "ingot/nn/expert_linear.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/nn/split_source.h"

namespace ingot {

/// A weight, and the module of the family's checkpoints that it is, or is a part of.
struct AdaptedWeight {
  LinearWeight* weight;
  std::string ours;    ///< "model.layers.0.self_attn.q_proj"
  std::string module;  ///< "model.layers.0.self_attn.qkv_proj"
  /// Rows [first, first + rows) of the module; rows 0: all of it.
  std::int64_t first = 0, rows = 0;
  std::int64_t groups = 0;  ///< > 0: these rows of each of so many equal parts of the module
  bool is_head = false;     ///< makes logits, or looks tokens up
  /// Of the whole model's, where ranks have that together; what is above is the whole's, too.
  std::optional<ParamPart> part{};

  Shape whole_shape() const { return part.has_value() ? part->whole : weight->shape(); }
};

/// All weights of a model, in its order.
std::vector<AdaptedWeight> adapted_weights(AdaptedModel model);

/// A linear layer of all experts of a mixture, and what it is in the family's checkpoints: a module for each
/// expert, or a parameter that stacks them, alone or fused with another layer.
struct AdaptedExperts {
  ExpertLinear* experts;
  std::string ours;      ///< "model.layers.0.mlp.experts.gate_proj"
  WeightRule rule;       ///< with the layer's number
  bool is_gated = true;  ///< the layer's experts have a gate beside the up projection
  /// Of the whole model's stack, where ranks have that together.
  std::optional<ParamPart> part{};

  Shape whole_shape() const { return part.has_value() ? part->whole : experts->shape(); }

  /// Whether checkpoints have a module for each expert.
  bool is_modules() const { return rule.stacked > 0; }
  std::int64_t count() const { return experts->shape()[0]; }
  /// Of one expert: "model.layers.0.mlp.experts.3.gate_proj".
  std::string module(std::int64_t expert) const;
  /// The module of all experts of the layer, as transformers 5 has it, and as we call it, which is what it
  /// has for some families whose checkpoints call it otherwise: "model.layers.0.mlp.experts".
  std::string container() const;
  std::string our_container() const;
  /// Its parameter that stacks this layer: "gate_up_proj" or "down_proj".
  std::string parameter() const;
  std::string stacked_name() const { return container() + "." + parameter(); }
  /// What patterns of ranks and scales see.
  std::string pattern_name() const { return is_modules() ? module(0) : stacked_name(); }
};

/// All layers of experts of a model, in its order.
std::vector<AdaptedExperts> adapted_experts(AdaptedModel model);
/// Whether a configuration targets them: by `target_modules`, where checkpoints have a module for each
/// expert, or by `target_parameters`. All-linear does; excluding a container ("experts") leaves all in it
/// out.
bool targets(const LoraConfig& config, const AdaptedExperts& at);
std::int64_t rank_of(const LoraConfig& config, const AdaptedExperts& at);
float scale_of(const LoraConfig& config, const AdaptedExperts& at, std::int64_t rank);

/// Everything of a model that takes adapters.
struct AdaptedParts {
  std::vector<AdaptedWeight> weights;
  std::vector<AdaptedExperts> experts;
  explicit AdaptedParts(AdaptedModel model)
      : weights(adapted_weights(model)), experts(adapted_experts(model)) {}
};

}  // namespace ingot
