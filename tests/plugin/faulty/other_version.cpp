#include "ingot/plugin/plugin.h"

// What a plugin of another version does. It must not get to its registrar.
extern "C" __attribute__((visibility("default"))) void ingot_plugin(IngotPluginCall* call) {
  call->plugin_abi = "Ingot 9.7, another ABI";
}
