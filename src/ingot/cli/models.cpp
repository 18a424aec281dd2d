#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/suggest.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/help_page.h"
#include "ingot/models/registry.h"

namespace ingot::cli {
namespace {

struct ModelsOptions {
  std::string name;
  bool json = false;
};

std::vector<std::string_view> task_names(const ModelInfo& info) {
  std::vector<std::string_view> names;
  for (const ModelTask task : info.tasks) names.push_back(name(task));
  return names;
}

nlohmann::ordered_json to_json(const ModelInfo& info) {
  return {{"name", info.name},         {"summary", info.summary},
          {"tasks", task_names(info)}, {"architectures", info.architectures},
          {"variants", info.variants}, {"repositories", info.repositories},
          {"gguf", info.gguf},         {"gguf_written", !info.gguf.empty() && info.gguf_written}};
}

const ModelInfo& wanted(const std::string& name) {
  if (const ModelInfo* info = find_model(name)) return *info;
  throw InvalidConfig("name", fmt::format("Ingot has no '{}'{}; `ingot models` lists what it has", name,
                                          did_you_mean(name, known_model_names())));
}

void print_one(const ModelInfo& info) {
  fmt::print("{}\n\n", wrap_on_terminal(fmt::format("{}: {}", info.name, info.summary), 2, STDOUT_FILENO));
  fmt::print("  can            {}\n", fmt::join(task_names(info), ", "));
  if (!info.architectures.empty()) fmt::print("  architectures  {}\n", fmt::join(info.architectures, ", "));
  if (!info.gguf.empty())
    fmt::print("  GGUF           {}, read{}\n", info.gguf, info.gguf_written ? " and written" : "");
  fmt::print("  variants       {}\n", fmt::join(info.variants, "\n                 "));
  if (info.repositories.empty()) return;
  fmt::print("  such as        {}\n", fmt::join(info.repositories, "\n                 "));
}

void print_all() {
  std::size_t width = 0, tasks = 0;
  for (const ModelInfo& info : model_registry()) {
    width = std::max(width, info.name.size());
    tasks = std::max(tasks, fmt::format("{}", fmt::join(task_names(info), ", ")).size());
  }
  // Beside names and tasks there have to be columns for the summary; on a narrow terminal it stands below.
  constexpr std::size_t kSummary = 24;
  const bool narrow = is_terminal(STDOUT_FILENO) &&
                      terminal_columns(STDOUT_FILENO) < static_cast<int>(width + tasks + 4 + kSummary);
  for (const ModelInfo& info : model_registry()) {
    const std::string left = fmt::format("{:<{}}  {:<{}}  ", info.name, width,
                                         fmt::format("{}", fmt::join(task_names(info), ", ")), tasks);
    const int indent = narrow ? 4 : static_cast<int>(left.size());
    const std::string summary = wrap_on_terminal(info.summary, indent, STDOUT_FILENO);
    if (narrow)
      fmt::print("{}: {}\n    {}\n", info.name, fmt::join(task_names(info), ", "), summary);
    else
      fmt::print("{}{}\n", left, summary);
  }
  fmt::print("\n{}\n", wrap_on_terminal("`ingot models NAME` tells variants and published models of one.", 0,
                                        STDOUT_FILENO));
}

int run(const ModelsOptions& o) {
  if (o.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const ModelInfo& info : model_registry()) json.push_back(to_json(info));
    fmt::print("{}\n", printable_json(dump_json(o.name.empty() ? json : to_json(wanted(o.name)), 2)));
  } else if (o.name.empty()) {
    print_all();
  } else {
    print_one(wanted(o.name));
  }
  return 0;
}

}  // namespace

void add_models(Command& root) {
  auto o = std::make_shared<ModelsOptions>();
  Command command =
      root.subcommand("models", "List the model families that Ingot opens, and what each can do");
  command.option("name", o->name, "A family (llama) or an architecture (LlamaForCausalLM)");
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot models gemma2", "its variants, and published models of this layout");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
