#include "bindings.h"

#include "ingot/base/version.h"
#include "ingot/runtime/initialize.h"

NB_MODULE(_core, module) {
  using namespace ingot::python;
  ingot::initialize();
  module.doc() = "The compiled part of the package ingot.";
  module.attr("__version__") = std::string(ingot::version());
  module.def("_set_leak_warnings", &nb::set_leak_warnings, "on"_a);
  bind_errors(module);
  nb::class_<ingot::Tensor> tensor = bind_tensor(module);
  bind_buffers(module);
  bind_ops(module, tensor);
  bind_layer_ops(module);
  bind_sequence_ops(module);
  bind_optimizers(module);
  bind_weights(module);
  bind_language(module);
  bind_generation(module);
  bind_training(module);
  bind_tables(module);
  bind_forecast(module);
  bind_tune(module);
  bind_environments(module);
  bind_mahjong(module);
  bind_export(module);
  bind_config_keys(module);
  bind_plugins(module);
}
