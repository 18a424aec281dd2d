#include <map>
#include <set>
#include <string>

#include "ingot/infer/engine.h"

namespace ingot::infer {

namespace {

// Of adapters that are loaded, evicted ones without bytes, and of those that went while requests have them;
// of one name together.
std::vector<AdapterStats> adapter_stats(const AdapterBank& bank, std::span<const AdapterHandle> running,
                                        std::span<const AdapterHandle> waiting) {
  std::map<std::string, AdapterStats> stats;
  std::set<std::uint64_t> counted;
  const auto of = [&](const BankedAdapter& adapter) -> AdapterStats& {
    AdapterStats& own = stats.try_emplace(adapter.source.name).first->second;
    own.name = adapter.source.name;
    if (counted.insert(adapter.number).second) own.bytes += adapter.bytes;
    return own;
  };
  for (const NamedAdapter& evicted_too : bank.known()) stats[evicted_too.name].name = evicted_too.name;
  for (const AdapterHandle& adapter : bank.list()) of(*adapter);
  for (const AdapterHandle& adapter : running) ++of(*adapter).running;
  for (const AdapterHandle& adapter : waiting) ++of(*adapter).waiting;
  std::vector<AdapterStats> list;
  list.reserve(stats.size());
  for (auto& [name, each] : stats) list.push_back(std::move(each));
  return list;
}

}  // namespace

EngineStats Engine::stats() const {
  EngineStats stats{.running = static_cast<std::int64_t>(active_.size()),
                    .waiting = static_cast<std::int64_t>(waiting_.size()),
                    .preemptions = preemptions_,
                    .cache = pool_.stats()};
  if (options_.adapters == nullptr) return stats;
  std::vector<AdapterHandle> running, waiting;
  for (const auto& s : active_)
    if (s->request_.held_adapter != nullptr) running.push_back(s->request_.held_adapter);
  for (const auto& s : waiting_)
    if (s->request_.held_adapter != nullptr) waiting.push_back(s->request_.held_adapter);
  stats.adapters = adapter_stats(*options_.adapters, running, waiting);
  stats.most_adapters = static_cast<std::int64_t>(options_.adapters->most());
  return stats;
}

}  // namespace ingot::infer
