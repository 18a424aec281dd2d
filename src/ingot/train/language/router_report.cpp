#include "ingot/train/language/router_report.h"

#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace ingot {
namespace {

constexpr std::array kMeasures{
    std::pair{"router/aux_loss", &RouterUse::aux_loss}, std::pair{"router/z_loss", &RouterUse::z_loss},
    std::pair{"router/imbalance", &RouterUse::imbalance}, std::pair{"router/entropy", &RouterUse::entropy},
    std::pair{"router/unused", &RouterUse::unused}};

// Ranks have neighbouring experts, each as many.
void report_ranks(std::span<const float> sums, std::size_t experts, std::size_t ranks, StepRecord& record) {
  std::vector<double> pairs(ranks);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t expert = i % (2 * experts + 1);
    if (expert < experts) pairs[expert * ranks / experts] += static_cast<double>(sums[i]);
  }
  const double all = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    record.values.emplace_back(fmt::format("expert_load/rank_{}", rank),
                               all > 0 ? pairs[rank] * static_cast<double>(ranks) / all : 0);
}

}  // namespace

void report_routers(std::span<const float> sums, std::int64_t experts, std::int64_t choices,
                    std::int64_t expert_ranks, StepRecord& record) {
  const auto each = static_cast<std::size_t>(2 * experts + 1);
  std::vector<RouterUse> layers;
  for (std::size_t first = 0; first < sums.size(); first += each)
    layers.push_back(router_use(sums.subspan(first, each), choices));
  for (const auto& [name, measure] : kMeasures) {
    std::vector<double> values;
    values.reserve(layers.size());
    for (const RouterUse& layer : layers) values.push_back(layer.*measure);
    const double all = std::accumulate(values.begin(), values.end(), 0.0);
    record.values.emplace_back(name, all / static_cast<double>(values.size()));
    record.by_layer.emplace_back(name, std::move(values));
  }
  if (expert_ranks > 1)
    report_ranks(sums, static_cast<std::size_t>(experts), static_cast<std::size_t>(expert_ranks), record);
}

std::vector<std::string> router_layer_names(const RouterStatistics& statistics) {
  std::vector<std::string> names;
  for (const std::int64_t layer : statistics.layers()) names.push_back(fmt::format("layers.{}", layer));
  return names;
}

}  // namespace ingot
