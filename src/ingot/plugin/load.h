#pragma once

#include <string>
#include <vector>

namespace ingot {

/// What a plugin brought, by kind and name: "reporter csv".
struct LoadedPlugin {
  std::string path;
  std::vector<std::string> parts;
};

/// Opens a shared library and lets it register what it has, for the life of the process; one that is there
/// already is left as it is. A plugin is code: it can do what this process can. Before other threads use what
/// it may add. InvalidConfig that names the file where that is not a shared library, has no entry function,
/// needs symbols that this Ingot lacks, was built for another version, or adds a name that is taken.
void load_plugin(const std::string& path);
/// Those that INGOT_PLUGINS names, with ':' between them.
void load_plugins_from_env();

/// In the order in which they were loaded.
const std::vector<LoadedPlugin>& loaded_plugins();

}  // namespace ingot
