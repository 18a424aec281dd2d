#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/json.h"
#include "ingot/base/units.h"
#include "ingot/cli/verbs.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/train/memory_plan.h"
#include "ingot/train/trainer.h"

namespace ingot::cli {
namespace {

struct MemoryOptions {
  std::string config;
  std::string card;
  std::vector<std::string> set;
  bool json = false;
};

int run(const MemoryOptions& o) {
  Config file = Config::load(o.config);
  for (const std::string& assignment : o.set) file.set(assignment);
  const TrainConfig config = read_train_config(file);
  const LanguageConfig model = planned_architecture(config);
  const std::size_t card = o.card.empty() ? 0 : parse_bytes(o.card, "--card");
  const MemoryPlan plan = card > 0 ? plan_memory_of_card(config, model, card) : plan_memory(config, model);
  const std::size_t needed = plan.needed();
  const std::size_t available = card > 0 ? card : backend(config.training_device()).memory_info().free;
  if (o.json) {
    nlohmann::ordered_json parts;
    for (const auto& [what, bytes] : plan.parts()) parts[what] = bytes;
    fmt::print("{}\n", dump_json(nlohmann::ordered_json{{"parts", parts},
                                                        {"total", plan.total()},
                                                        {"with_overhead", needed},
                                                        {"available", available},
                                                        {"fits", needed <= available}},
                                 2));
    return 0;
  }
  fmt::print("{} parameters, {} tokens per optimiser step\n\n",
             human_count(static_cast<double>(model.parameter_count())),
             human_count(static_cast<double>(config.tokens_per_step())));
  for (const auto& [what, bytes] : plan.parts()) {
    const double share = static_cast<double>(bytes) / static_cast<double>(plan.total());
    fmt::print("  {:<12} {:>10}  {:>3.0f} %  {:#<{}}\n", what, human_bytes(bytes), 100 * share, "",
               static_cast<int>(40 * share));
  }
  fmt::print("\n  {:<12} {:>10}  (with what the allocator cannot use, a tenth{}: {})\n", "total",
             human_bytes(plan.total()), plan.on_card ? " of activations and transients" : "",
             human_bytes(needed));
  fmt::print("  {:<12} {:>10}  {}\n", card > 0 ? "card" : "free", human_bytes(available),
             needed <= available ? "it fits" : "it does not fit");
  return 0;
}

}  // namespace

void add_memory(Command& root) {
  auto o = std::make_shared<MemoryOptions>();
  Command verb = root.verb("memory", "Tell what a training run will need, before it runs");
  verb.option("config", o->config, "Training configuration (YAML)").required();
  verb.option(
      "--card", o->card,
      "Plan for a card with so much memory, here or not: 80GB, 139GiB; default: what is free where the "
      "configuration trains");
  verb.option("--set", o->set, "Change a key: --set per_device_train_batch_size=4");
  verb.flag("--json", o->json, "Print JSON, sizes in bytes");
  verb.example("ingot memory train.yaml --set recompute=selective", "what recomputation would save");
  verb.example("ingot memory train.yaml --card 80GB", "whether it fits on a card that is elsewhere");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
