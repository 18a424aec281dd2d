#pragma once

#include <map>
#include <memory>
#include <string>

#include "ingot/core/backend.h"

namespace ingot {

/// Runs work that repeats, as the steps of a training do: the first time as it is (which fills caches), the
/// second time it is captured, and from then on the recording runs. On a device that cannot capture it always
/// runs as it is. One thread.
class GraphCache {
 public:
  explicit GraphCache(Device device) : device_(device) {}

  /// Puts `work` into the current stream. Under one key it must always do the same with the same memory: a
  /// key names the shapes and switches that it depends on, and tensors that it makes and leaves behind are
  /// made anew only where it is not a recording that runs.
  void run(const std::string& key, FunctionRef<void()> work);
  /// Whether a recording of `key` is there, which the next run() repeats.
  bool recorded(const std::string& key) const;
  /// Forgets what was recorded, and with it the memory that it keeps.
  void clear() { entries_.clear(); }

 private:
  Device device_;
  std::map<std::string, std::unique_ptr<CapturedWork>> entries_;  // null: ran once
};

}  // namespace ingot
