#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "ingot/kernels/kernel.h"

namespace ingot {

class ComputeBackend;
class Environment;
class Reporter;
struct WeightFormat;
namespace onnx {
struct OpRow;
}

/// What a plugin adds itself with. Names that are taken already are InvalidConfig.
class PluginRegistrar {
 public:
  PluginRegistrar() = default;
  virtual ~PluginRegistrar() = default;
  PluginRegistrar(const PluginRegistrar&) = delete;
  PluginRegistrar& operator=(const PluginRegistrar&) = delete;

  /// An implementation that is asked before those that are there. It keeps the kernel's contract, which
  /// stands in the kernel's header, and refuses in accepts() what it cannot run.
  template <class Args>
  void add_kernel(kernels::Kernel<Args>& kernel, DeviceType device,
                  const kernels::Implementation<Args>& implementation) {
    kernel.add_first(device, implementation);
    note("kernel", std::string(kernel.name()) + " (" + implementation.name + ")");
  }
  /// A device, "toy" and "toy:1" in settings: its kind is the plugin's own (register_device_type), and the
  /// kernels of that kind are added to kernels/ with Kernel::add().
  virtual void add_backend(std::unique_ptr<ComputeBackend> backend) = 0;
  /// An operator of ONNX graphs: "com.example.Clip01". `row.name` outlives the process' graphs.
  virtual void add_onnx_op(const onnx::OpRow& row) = 0;
  /// A format that open_weights() knows from then on.
  virtual void add_weight_format(const WeightFormat& format) = 0;
  /// A name that `report_to` takes.
  virtual void add_reporter(const std::string& name, std::function<std::shared_ptr<Reporter>()> make) = 0;
  /// A name that make_environment() takes; `make` gets the number of games and the seed.
  virtual void add_environment(
      const std::string& name,
      std::function<std::unique_ptr<Environment>(std::size_t, std::uint64_t)> make) = 0;

 protected:
  /// For lists of what a plugin brought.
  virtual void note(const std::string& kind, const std::string& name) = 0;
};

}  // namespace ingot

#define INGOT_PLUGIN_TEXT_(x) #x
#define INGOT_PLUGIN_TEXT(x) INGOT_PLUGIN_TEXT_(x)
/// What Ingot and plugins tell each other: the version whose headers were compiled, as major.minor, and the
/// layout of the standard library's strings.
#define INGOT_PLUGIN_ABI "Ingot 0.1, _GLIBCXX_USE_CXX11_ABI=" INGOT_PLUGIN_TEXT(_GLIBCXX_USE_CXX11_ABI)

extern "C" {
/// What a plugin's entry function gets. The layout is the same in every version.
struct IngotPluginCall {
  const char* host_abi;               ///< INGOT_PLUGIN_ABI of the program
  const char* plugin_abi;             ///< to be set: the plugin's
  ingot::PluginRegistrar* registrar;  ///< not to be touched where the two differ
};
}

/// Defines the entry function of a plugin; once in each, with what it adds:
///
///     INGOT_PLUGIN(registrar) { registrar.add_reporter("csv", make_csv_reporter); }
// NOLINTBEGIN(bugprone-macro-parentheses): a parameter's name
#define INGOT_PLUGIN(registrar)                                                                      \
  static void ingot_plugin_register(ingot::PluginRegistrar&);                                        \
  extern "C" __attribute__((visibility("default"))) void ingot_plugin(IngotPluginCall* call) {       \
    call->plugin_abi = INGOT_PLUGIN_ABI;                                                             \
    if (std::strcmp(call->host_abi, call->plugin_abi) == 0) ingot_plugin_register(*call->registrar); \
  }                                                                                                  \
  static void ingot_plugin_register(ingot::PluginRegistrar& registrar)
// NOLINTEND(bugprone-macro-parentheses)
