#pragma once

#include <concepts>
#include <memory>

#include "ingot/models/architecture_check.h"
#include "ingot/models/weight_map.h"

namespace ingot {

/// A model that can be exchanged between programs: it knows what a checkpoint calls its parameters, can tell
/// whether one fits without reading a tensor, and can be made from it. LanguageModel and BertModel are such
/// models.
template <class M>
concept PortableModel = requires(const typename M::Config& config, const WeightSource& weights,
                                 const LoadOptions& options) {
  { M::weight_map(config) } -> std::same_as<WeightMap>;
  { M::architecture_check(config, weights) } -> std::same_as<ArchitectureReport>;
  { M::from_weights(config, weights, options) } -> std::same_as<std::unique_ptr<M>>;
};

}  // namespace ingot
