// Shared libraries that add to Ingot (docs/plugins.md).
#include "bindings.h"

#include "ingot/plugin/load.h"

namespace ingot::python {

void bind_plugins(nb::module_& module) {
  module.def("_load_plugins_from_env", load_plugins_from_env);
  module.def(
      "load_plugin", load_plugin, "path"_a,
      "Loads a shared library that adds kernels, a backend, weight formats, reporters, environments or ONNX "
      "operators, for the life of the process (docs/plugins.md). A plugin is code: it can do what this "
      "process "
      "can. One of another version of Ingot is InvalidConfig.");
  module.def(
      "loaded_plugins",
      [] {
        std::map<std::string, std::vector<std::string>> plugins;
        for (const LoadedPlugin& plugin : loaded_plugins()) plugins[plugin.path] = plugin.parts;
        return plugins;
      },
      "The plugins of this process: file, and what it brought (\"reporter csv\").");
}

}  // namespace ingot::python
