#pragma once

#include "ingot/c_api/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Loads a plugin for the life of the process: a shared library that adds kernels, a backend, weight formats,
/// reporters, environments or ONNX operators (docs/plugins.md). One that is there already is left as it is.
/// Those that the environment's INGOT_PLUGINS names are loaded by the first call of all. A plugin is code: it
/// can do what this process can. Call it before other threads use what it adds. INGOT_INVALID_CONFIG, naming
/// the file, where it is not a plugin, was built for another version, or adds a name that is taken.
INGOT_API IngotStatus ingot_plugin_load(const char* path);

/// A plugin of this process. The library owns the strings.
typedef struct IngotPluginInfo {
  const char* path;   ///< of the file
  const char* parts;  ///< what it brought, by kind and name: "reporter csv, environment nim"
} IngotPluginInfo;

/// How many plugins were loaded.
INGOT_API IngotStatus ingot_plugin_count(size_t* count);
/// Plugin `index` of ingot_plugin_count(). *info has `size` bytes: sizeof(IngotPluginInfo).
INGOT_API IngotStatus ingot_plugin_info(size_t index, IngotPluginInfo* info, size_t size);

#ifdef __cplusplus
}
#endif
