// Makes `ingot` say what a build with CUDA says where there is no GPU.
#include "ingot/core/device_config.h"
#include "ingot/plugin/plugin.h"

INGOT_PLUGIN(registrar) {
  static_cast<void>(registrar);
  ingot::expect_gpu();
}
