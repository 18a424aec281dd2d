#include "ingot/plugin/load.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/shared_library.h"
#include "ingot/core/backend.h"
#include "ingot/onnx/register_op.h"
#include "ingot/plugin/plugin.h"
#include "ingot/rl/named_environment.h"
#include "ingot/train/reporter.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEntry = "ingot_plugin";

std::vector<LoadedPlugin>& plugins() {
  static std::vector<LoadedPlugin> list;
  return list;
}

class Registrar final : public PluginRegistrar {
 public:
  void add_backend(std::unique_ptr<ComputeBackend> backend) override {
    const std::string device = to_string(backend->device());
    BackendRegistry::instance().add(std::move(backend));
    note("backend", device);
  }
  void add_onnx_op(const onnx::OpRow& row) override {
    onnx::register_op(row);
    note("ONNX operator", std::string(row.name));
  }
  void add_weight_format(const WeightFormat& format) override {
    register_weight_format(format);
    note("weight format", format.name);
  }
  void add_reporter(const std::string& name, std::function<std::shared_ptr<Reporter>()> make) override {
    register_reporter(name, std::move(make));
    note("reporter", name);
  }
  void add_environment(
      const std::string& name,
      std::function<std::unique_ptr<Environment>(std::size_t, std::uint64_t)> make) override {
    register_environment(name, std::move(make));
    note("environment", name);
  }

  std::vector<std::string> parts;

 private:
  void note(const std::string& kind, const std::string& name) override { parts.push_back(kind + " " + name); }
};

// The loader would look up a name without a slash among the system's libraries.
std::string path_of_library(const std::string& path) {
  std::error_code problem;
  const fs::path whole = fs::canonical(path, problem);
  INGOT_CHECK(!problem, InvalidConfig("plugin", fmt::format("{}: {}", path, problem.message())));
  std::ifstream file(whole, std::ios::binary);
  std::string magic(4, '\0');
  file.read(magic.data(), 4);
  INGOT_CHECK(file && magic == "\177ELF",
              InvalidConfig("plugin", fmt::format("{} is not a shared library", path)));
  return whole.string();
}

// A library that another program opened for itself, as Python does with its modules, shows its symbols to no
// other one; a plugin needs them. Where this is the program itself nothing can be opened, and nothing has to
// be.
void show_own_symbols() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&load_plugins_from_env), &own) != 0 && own.dli_fname != nullptr)
    dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

using Entry = void(IngotPluginCall*);

Entry* entry_of(const std::string& path) {
  show_own_symbols();
  SharedLibrary library(std::span(&path, 1));
  INGOT_CHECK(library.native() != nullptr,
              InvalidConfig("plugin",  // the loader's reason begins with the path
                            fmt::format("cannot load {}; build it with the headers of this version of Ingot, "
                                        "and without linking a libingot of its own",
                                        library.problem())));
  Entry* entry = nullptr;
  library.find(entry, kEntry);
  INGOT_CHECK(entry != nullptr,
              InvalidConfig("plugin", fmt::format("{} has no function {}: it is not a plugin of Ingot "
                                                  "(INGOT_PLUGIN of ingot/plugin/plugin.h defines it)",
                                                  path, kEntry)));
  return entry;
}

}  // namespace

void load_plugin(const std::string& path) {
  const std::string file = path_of_library(path);
  if (std::ranges::find(plugins(), file, &LoadedPlugin::path) != plugins().end()) return;
  Registrar registrar;
  IngotPluginCall call{.host_abi = INGOT_PLUGIN_ABI, .plugin_abi = nullptr, .registrar = &registrar};
  try {
    entry_of(file)(&call);
  } catch (const InvalidConfig&) {
    throw;
  } catch (const std::exception& error) {
    throw InvalidConfig("plugin", fmt::format("{} could not register itself: {}", path, error.what()));
  }
  const std::string built_for = call.plugin_abi == nullptr ? "something unknown" : call.plugin_abi;
  INGOT_CHECK(built_for == INGOT_PLUGIN_ABI,
              InvalidConfig("plugin", fmt::format("{} was built for {}, but this is {}; build it again with "
                                                  "the headers of this version",
                                                  path, built_for, INGOT_PLUGIN_ABI)));
  plugins().push_back({.path = file, .parts = std::move(registrar.parts)});
}

void load_plugins_from_env() {
  // Environment: INGOT_PLUGINS | shared libraries to load, with `:` between them ([Plugins](plugins.md))
  const std::optional<EnvSetting> setting = env_setting("PLUGINS");
  if (!setting.has_value()) return;
  std::string_view rest = setting->value;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) load_plugin(std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

const std::vector<LoadedPlugin>& loaded_plugins() { return plugins(); }

}  // namespace ingot
