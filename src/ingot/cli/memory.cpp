#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/cli/commands.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/train/language/expert_sharing.h"
#include "ingot/train/language/language_trainer.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/train/language/new_tokens.h"
#include "ingot/train/language/planning/memory_limit.h"

namespace ingot::cli {
namespace {

struct MemoryOptions {
  std::string config;
  std::string gpu_memory, limit;
  std::vector<std::string> set;
  std::int64_t ranks = 1;
  bool json = false;
};

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr Recompute kRecompute[] = {Recompute::none, Recompute::selective, Recompute::full};

MemoryPlan plan(const TrainConfig& config, const LanguageConfig& model, const PlannedPlace& where) {
  return where.gpu_bytes > 0 ? plan_memory_of_gpu(config, model, where.gpu_bytes, where.ranks)
                             : plan_memory(config, model, where.ranks);
}

// What the run would need with an optimizer, by kRecompute.
struct Choice {
  std::string optimizer;
  std::array<std::size_t, std::size(kRecompute)> needed{};
};

// The optimizer that was asked for, and the variant of AdamW with less state.
std::vector<Choice> choices(TrainConfig config, const LanguageConfig& model, const PlannedPlace& where) {
  std::vector<Choice> list{{.optimizer = config.optimizer.name}};
  if (config.optimizer.name == "adamw") list.push_back({.optimizer = "adamw_8bit"});
  for (Choice& choice : list) {
    config.optimizer.name = choice.optimizer;
    for (std::size_t i = 0; i < choice.needed.size(); ++i) {
      config.recompute = kRecompute[i];
      choice.needed[i] = plan(config, model, where).needed();
    }
  }
  return list;
}

// What memory_limit chooses from, and what it takes: the first that fits.
void print_combinations(const std::vector<MemoryChoice>& choices, std::size_t limit) {
  std::size_t width = 46;
  for (const MemoryChoice& choice : choices) width = std::max(width, choice.text().size());
  fmt::print("\n  {:<{}} {:>10} {:>10}  within {}\n", "combination, fastest first", width, "memory",
             "step time", human_bytes(limit));
  bool taken = false;
  for (const MemoryChoice& choice : choices) {
    const char* note = !choice.fits ? "" : taken ? "fits" : "fits; memory_limit takes this";
    taken = taken || choice.fits;
    fmt::print("  {:<{}} {:>10} {:>+8.0f} %  {}\n", choice.text(), width, human_bytes(choice.plan.needed()),
               100 * choice.slowdown, note);
  }
}

nlohmann::ordered_json json_of(const std::vector<MemoryChoice>& choices) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MemoryChoice& choice : choices)
    list.push_back({{"recompute", name(choice.recompute)},
                    {"offload_optimizer", name(choice.offload)},
                    {"offload_gradients", name(choice.gradients)},
                    {"offload_weights", name(choice.weights)},
                    {"offload_activations", name(choice.activations)},
                    {"with_overhead", choice.plan.needed()},
                    {"offloaded", choice.plan.offloaded},
                    {"offloaded_gradients", choice.plan.offloaded_gradients},
                    {"offloaded_weights", choice.plan.offloaded_weights},
                    {"offloaded_activations", choice.plan.offloaded_activations},
                    {"slowdown", choice.slowdown},
                    {"fits", choice.fits}});
  return list;
}

void print_json(const MemoryPlan& plan, const std::vector<Choice>& choices,
                const std::vector<MemoryChoice>& combinations, std::size_t available, const Recipe& recipe) {
  nlohmann::ordered_json parts, with;
  for (const auto& [what, bytes] : plan.parts()) parts[what] = bytes;
  for (const Choice& choice : choices) {
    for (std::size_t i = 0; i < choice.needed.size(); ++i)
      with[choice.optimizer][name(kRecompute[i])] = choice.needed[i];
  }
  fmt::print("{}\n", printable_json(dump_json(
                         nlohmann::ordered_json{{"recipe", name(recipe.kind)},
                                                {"parts", parts},
                                                {"total", plan.total()},
                                                {"waiting", plan.waiting},
                                                {"with_overhead", plan.needed()},
                                                {"offloaded", plan.offloaded},
                                                {"offloaded_gradients", plan.offloaded_gradients},
                                                {"offloaded_weights", plan.offloaded_weights},
                                                {"offloaded_activations", plan.offloaded_activations},
                                                {"available", available},
                                                {"fits", plan.needed() <= available},
                                                {"with_overhead_by_optimizer_and_recompute", with},
                                                {"combinations", json_of(combinations)}},
                         2)));
}

void print_plan(const MemoryPlan& plan, std::size_t available, std::string_view where) {
  for (const auto& [what, bytes] : plan.parts()) {
    const double share = static_cast<double>(bytes) / static_cast<double>(plan.total());
    fmt::print("  {:<12} {:>10}  {:>3.0f} %  {:#<{}}\n", what, human_bytes(bytes), 100 * share, "",
               static_cast<int>(40 * share));
  }
  fmt::print("\n  {:<12} {:>10}\n", "total", human_bytes(plan.total()));
  if (plan.waiting > 0)
    fmt::print("  {:<12} {:>10}  of buckets of gradients where links are slow, beside the total\n", "waiting",
               human_bytes(plan.waiting));
  fmt::print("  {:<12} {:>10}  with what the allocator cannot use, a tenth{}\n", "needed",
             human_bytes(plan.needed()), plan.on_gpu ? " of activations and transients at their most" : "");
  fmt::print("  {:<12} {:>10}  {}\n", where, human_bytes(available),
             plan.needed() <= available ? "it fits" : "it does not fit");
  if (plan.offloaded > 0)
    fmt::print("  {:<12} {:>10}  of the optimizer, beside the total\n", "offloaded",
               human_bytes(plan.offloaded));
  if (plan.offloaded_gradients > 0)
    fmt::print("  {:<12} {:>10}  of gradients, beside the total\n", "offloaded",
               human_bytes(plan.offloaded_gradients));
  if (plan.offloaded_weights > 0)
    fmt::print("  {:<12} {:>10}  of layers that do not compute, beside the total\n", "offloaded",
               human_bytes(plan.offloaded_weights));
  if (plan.offloaded_activations > 0)
    fmt::print("  {:<12} {:>10}  of inputs of layers, beside the total\n", "offloaded",
               human_bytes(plan.offloaded_activations));
}

void print_choices(const std::vector<Choice>& choices, std::size_t available) {
  fmt::print("\n  {:<12}", "recompute:");
  for (const Recompute recompute : kRecompute) fmt::print(" {:>12}", name(recompute));
  for (const Choice& choice : choices) {
    fmt::print("\n  {:<12}", choice.optimizer);
    for (const std::size_t needed : choice.needed)
      fmt::print(" {:>10} {}", human_bytes(needed), needed <= available ? '*' : ' ');
  }
  fmt::print("\n  *: fits\n");
}

int run(const MemoryOptions& o) {
  Config file = Config::load(o.config);
  for (const std::string& assignment : o.set) file.set(assignment);
  if (!o.limit.empty()) file.set("memory_limit=" + o.limit, "--limit");
  TrainConfig config = read_train_config(file);
  const LanguageConfig model = plan_new_tokens(config);
  const std::size_t gpu_bytes = o.gpu_memory.empty() ? 0 : parse_bytes(o.gpu_memory, "--gpu-memory");
  const std::size_t there = gpu_bytes > 0 ? gpu_bytes : backend(config.training_device()).memory_info().free;
  const std::size_t available = allowed_memory(config, there);
  INGOT_CHECK(o.ranks >= 1 && o.ranks <= kMostRanks,
              InvalidConfig("--ranks", fmt::format("is {}, expected 1 to {}", o.ranks, kMostRanks)));
  if (config.shares_experts()) check_expert_ranks(config, model, static_cast<int>(o.ranks));
  const PlannedPlace where{.gpu_bytes = gpu_bytes, .ranks = static_cast<int>(o.ranks)};
  const MemoryPlan wanted = plan(config, model, where);
  const std::vector<Choice> others = choices(config, model, where);
  const std::vector<MemoryChoice> combinations = memory_choices(config, model, available, where);
  if (o.json) {
    print_json(wanted, others, combinations, available, config.recipe);
    return 0;
  }
  fmt::print("{} parameters, {} tokens per optimizer step{}{}\n\n",
             human_count(static_cast<double>(model.parameter_count())),
             human_count(static_cast<double>(config.tokens_per_step() * o.ranks)),
             o.ranks > 1 ? fmt::format(", in each of {} processes", o.ranks) : "",
             config.recipe.is_on() ? fmt::format(", recipe {}", name(config.recipe.kind)) : "");
  const bool limited = config.memory_limit.is_on();
  print_plan(wanted, available, limited ? "limit" : gpu_bytes > 0 ? "GPU" : "free");
  print_choices(others, available);
  print_combinations(combinations, available);
  if (limited) static_cast<void>(best_choice(combinations, config, available));
  return 0;
}

}  // namespace

void add_memory(Command& root) {
  auto o = std::make_shared<MemoryOptions>();
  Command command = root.subcommand("memory", "Tell what a training run will need, before it runs");
  command.option("config", o->config, "Training configuration (YAML)").required();
  command.option(
      "--gpu-memory", o->gpu_memory,
      "Plan for a GPU with so much memory, here or not: 80GB, 139GiB; default: what is free where the "
      "configuration trains");
  command
      .option("--limit", o->limit,
              "Within so much memory (24GB, auto): which combination memory_limit would take")
      .placeholder("SIZE");
  command.option("--ranks", o->ranks, "Of a run of so many processes (mpirun -n N), in each; see zero_stage")
      .placeholder("N");
  command.option("--set", o->set, "Change a key: --set per_device_train_batch_size=4")
      .placeholder("KEY=VALUE");
  command.flag("--json", o->json, "Print JSON, sizes in bytes");
  command.example("ingot memory train.yaml --set recompute=selective", "what recomputation would save");
  command.example("ingot memory train.yaml --limit 24GB", "what memory_limit: 24GB would choose");
  command.example("ingot memory train.yaml --gpu-memory 80GB", "whether it fits on a GPU that is elsewhere");
  command.example("ingot memory train.yaml --ranks 8 --set zero_stage=2", "each of eight processes");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
