#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ingot/models/language/router_statistics.h"
#include "ingot/train/history.h"

namespace ingot {

/// Adds what routers did in a step to its record: RouterUse of each layer by name ("router/imbalance"), and
/// the means over the layers as values. `sums`: RouterStatistics::sums() on the host, of all ranks together.
/// With several `expert_ranks`, which share the experts out, "expert_load/rank_0" and so on too: the pairs of
/// each one's experts, where 1 is an equal share.
void report_routers(std::span<const float> sums, std::int64_t experts, std::int64_t choices,
                    std::int64_t expert_ranks, StepRecord& record);

/// "layers.3", of the layers with experts.
std::vector<std::string> router_layer_names(const RouterStatistics& statistics);

}  // namespace ingot
