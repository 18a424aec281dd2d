#include "ingot/core/work_cache.h"

namespace ingot {

void WorkCache::run(const std::string& key, FunctionRef<void()> work) {
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
  if (entry->second == nullptr) entry->second = on.capture(work);
  entry->second->launch(current_stream(device_));
}

}  // namespace ingot
