#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ingot/models/adapter/lora.h"
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

}  // namespace ingot
