#include "ingot/c_api/plugin.h"

#include <map>
#include <mutex>
#include <string>

#include "ingot/c_api/inner/call.h"
#include "ingot/plugin/load.h"

using namespace ingot;
using namespace ingot::c_api;

namespace {

// Strings that callers may keep. A plugin stays what it is, so each is made once.
struct ShownPlugin {
  std::string path, parts;
};

const ShownPlugin& shown(const LoadedPlugin& plugin) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, ShownPlugin>;
  const std::lock_guard lock(mutex);
  ShownPlugin& entry = (*all)[plugin.path];
  if (entry.path.empty()) {
    entry.path = plugin.path;
    for (const std::string& part : plugin.parts) entry.parts += (entry.parts.empty() ? "" : ", ") + part;
  }
  return entry;
}

}  // namespace

extern "C" {

IngotStatus ingot_plugin_load(const char* path) {
  return call(__func__, [&] { load_plugin(string_arg(path, "path")); });
}

IngotStatus ingot_plugin_count(size_t* count) {
  return call(__func__, [&] { result(count, "count") = loaded_plugins().size(); });
}

IngotStatus ingot_plugin_info(size_t index, IngotPluginInfo* info, size_t size) {
  return call(__func__, [&] {
    const auto& all = loaded_plugins();
    if (index >= all.size())
      throw InvalidArgument("index", "is " + std::to_string(index) + "; there are " +
                                         std::to_string(all.size()) + " plugins, counted from 0");
    const ShownPlugin& one = shown(all[index]);
    fill(info, size, IngotPluginInfo{.path = one.path.c_str(), .parts = one.parts.c_str()}, "info");
  });
}

}  // extern "C"
