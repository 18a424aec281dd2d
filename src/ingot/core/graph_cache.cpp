#include "ingot/core/graph_cache.h"

namespace ingot {

void GraphCache::run(const std::string& key, FunctionRef<void()> work) {
  ComputeBackend& on = backend(device_);
  if (!on.capabilities().graph_capture) {
    work();
    return;
  }
  const auto [entry, first] = entries_.try_emplace(key);
  if (first) {
    try {
      work();
    } catch (...) {
      entries_.erase(entry);
      throw;
    }
    return;
  }
  if (entry->second == nullptr) {
    on.trim();  // what the first run left in the cache would lie beside the memory that the recording keeps
    entry->second = on.capture(work);
  }
  entry->second->launch(current_stream(device_));
}

bool GraphCache::recorded(const std::string& key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second != nullptr;
}

}  // namespace ingot
