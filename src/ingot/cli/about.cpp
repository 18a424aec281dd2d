#include "ingot/cli/about.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/version.h"
#include "ingot/cli/commands.h"
#include "ingot/plugin/load.h"
#include "ingot/runtime/compute_backend.h"

namespace ingot::cli {
namespace {

std::string version_text(const std::string& commit) {
  std::string here, others;
  for (const ComputeBackendChoice& backend : compute_backends()) {
    std::string& list = backend.available ? here : others;
    list += (list.empty() ? "" : ", ") + backend.name;
  }
  std::string text = fmt::format("ingot {}\n", version());
  if (!commit.empty()) text += fmt::format("commit    {}\n", commit);
  text += fmt::format("backends  {} (in use: {})\n", here, compute_backend());
  if (!others.empty()) text += fmt::format("not here  {} (ingot devices says why)\n", others);
  for (const LoadedPlugin& plugin : loaded_plugins())
    text += fmt::format("plugin    {}: {}\n", plugin.path, fmt::join(plugin.parts, ", "));
  return text + fmt::format("compiler  {}", compiler());
}

}  // namespace

Program ingot_program(const std::string& commit) {
  return {
      .name = "ingot",
      .description =
          "Ingot trains, runs and serves models natively, on CPUs and NVIDIA GPUs. Start with: ingot demo",
      .version = [commit] { return version_text(commit); },
      .add_commands = add_all_commands};
}

}  // namespace ingot::cli
