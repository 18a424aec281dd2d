#include "ingot/train/language/planning/memory_limit.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/base/units.h"
#include "ingot/core/backend.h"
#include "ingot/train/language/planning/step_time.h"

namespace ingot {
namespace {

constexpr Recompute kRecompute[] = {Recompute::none, Recompute::selective, Recompute::full};

// Usual rates, where nothing is known of a device: they only order combinations.
constexpr double kCoreFlops = 5e10, kHostBandwidth = 2e10;

PlannedDevice usual_processors(std::size_t memory) {
  const double flops = kCoreFlops * num_threads();
  return {.name = "cpu",
          .f32 = flops,
          .half = flops,
          .memory = static_cast<double>(memory),
          .bandwidth = kHostBandwidth,
          .link = kHostBandwidth / 4,
          .host_link = kHostBandwidth / 4,
          .host = true};
}

// "NVIDIA H100 80GB HBM3" is the h100.
PlannedDevice usual_gpu(std::string name, std::size_t memory) {
  std::erase_if(name, [](char c) { return c == ' ' || c == '-'; });
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  PlannedDevice device = known_gpu("a100");
  for (const PlannedDevice& gpu : known_gpus())
    if (name.find(gpu.name) != std::string::npos) device = gpu;
  device.memory = static_cast<double>(memory);
  return device;
}

PlannedDevice device_of(const TrainConfig& config, std::size_t memory, const PlannedPlace& place) {
  if (place.gpu_bytes > 0) return usual_gpu("", memory);
  const BackendCapabilities& has = backend(config.training_device()).capabilities();
  return has.host_memory ? usual_processors(memory) : usual_gpu(has.device_name, memory);
}

// On processors the state is in the host's memory already.
std::vector<Offload> offloads(const TrainConfig& config, bool on_host) {
  if (config.memory_limit.keeps_offload) return {config.optimizer.offload};
  if (on_host) return {Offload::none, Offload::disk};
  return {Offload::none, Offload::cpu, Offload::disk};
}

// Those of adapters are little.
std::vector<Offload> gradient_offloads(const TrainConfig& config, bool on_host, int ranks) {
  if (config.memory_limit.keeps_gradients) return {config.optimizer.gradients};
  const bool little = config.adapter.enabled && config.adapter.lora.modules_to_save.empty();
  if (little || !config.offload_gradients_obstacle(ranks).first.empty()) return {Offload::none};
  if (on_host) return {Offload::none, Offload::disk};
  return {Offload::none, Offload::cpu, Offload::disk};
}

// On processors the weights of a frozen base are a file's where they can be, and what trains is loaded as a
// whole before it moves.
std::vector<Offload> weight_offloads(const TrainConfig& config, const LanguageConfig& model, bool on_host,
                                     int ranks) {
  if (config.memory_limit.keeps_weights) return {config.offload_weights};
  if (!config.offload_weights_obstacle(model, on_host, ranks).first.empty()) return {Offload::none};
  if (!on_host) return {Offload::none, Offload::cpu, Offload::disk};
  if (!config.adapter.enabled) return {Offload::none};
  return {Offload::none, Offload::disk};
}

std::vector<Offload> activation_offloads(const TrainConfig& config, Recompute recompute, bool on_host) {
  if (config.memory_limit.keeps_activations) return {config.offload_activations};
  if (recompute != Recompute::full) return {Offload::none};
  if (on_host) return {Offload::none, Offload::disk};
  return {Offload::none, Offload::cpu, Offload::disk};
}

// What memory_limit may choose, without plans.
std::vector<MemoryChoice> open_choices(const TrainConfig& config, const LanguageConfig& model, bool on_host,
                                       int ranks) {
  std::vector<MemoryChoice> choices;
  for (const Recompute recompute : kRecompute) {
    if (config.memory_limit.keeps_recompute && recompute != config.recompute) continue;
    for (const Offload activations : activation_offloads(config, recompute, on_host))
      for (const Offload weights : weight_offloads(config, model, on_host, ranks))
        for (const Offload gradients : gradient_offloads(config, on_host, ranks))
          for (const Offload offload : offloads(config, on_host))
            choices.push_back({.recompute = recompute,
                               .offload = offload,
                               .gradients = gradients,
                               .weights = weights,
                               .activations = activations,
                               .plan = {}});
  }
  return choices;
}

TrainConfig with_memory_choice(TrainConfig config, const MemoryChoice& choice) {
  config.recompute = choice.recompute;
  config.optimizer.offload = choice.offload;
  config.optimizer.gradients = choice.gradients;
  config.offload_weights = choice.weights;
  config.offload_activations = choice.activations;
  return config;
}

// Drops what is no smaller than something faster.
void keep_smaller(std::vector<MemoryChoice>& choices) {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  std::erase_if(choices, [&](const MemoryChoice& choice) {
    const bool smaller = choice.plan.needed() < least;
    if (smaller && choice.has_room) least = choice.plan.needed();
    return !smaller;
  });
}

}  // namespace

std::string MemoryChoice::text() const {
  std::string text = fmt::format("recompute: {}, offload_optimizer: {}", name(recompute), name(offload));
  if (gradients != Offload::none) text += fmt::format(", offload_gradients: {}", name(gradients));
  if (weights != Offload::none) text += fmt::format(", offload_weights: {}", name(weights));
  if (activations != Offload::none) text += fmt::format(", offload_activations: {}", name(activations));
  return text;
}

std::size_t allowed_memory(const TrainConfig& config, std::size_t available) {
  const std::string& limit = config.memory_limit.limit;
  if (limit.empty() || limit == "none" || limit == "auto") return available;
  return std::min<std::size_t>(available, parse_bytes(limit, "memory_limit"));
}

std::vector<MemoryChoice> memory_choices(const TrainConfig& config, const LanguageConfig& model,
                                         std::size_t limit, const PlannedPlace& place) {
  const PlannedDevice device = device_of(config, limit, place);
  const PlannedCluster on{.device = device, .ranks = place.ranks};
  const ModelWork work = model_work(config, model, device);
  std::vector<MemoryChoice> choices = open_choices(config, model, device.host, place.ranks);
  double fastest = std::numeric_limits<double>::max();
  for (MemoryChoice& choice : choices) {
    const TrainConfig with = with_memory_choice(config, choice);
    choice.plan = place.gpu_bytes > 0 ? plan_memory_of_gpu(with, model, place.gpu_bytes, place.ranks)
                                      : plan_memory(with, model, place.ranks);
    const bool here = place.gpu_bytes > 0 ||  // of a host that is elsewhere
                      offload_has_room(choice.plan, with, place.local_ranks);
    choice.has_room = place.agree ? place.agree(here) : here;
    choice.fits = choice.plan.needed() <= limit && choice.has_room;
    choice.slowdown = plan_step_time(with, work,
                                     {.zero_stage = static_cast<int>(with.zero_stage),
                                      .recompute = choice.recompute,
                                      .offload = choice.offload,
                                      .gradients = choice.gradients,
                                      .weights = choice.weights,
                                      .activations = choice.activations,
                                      .batch = with.per_device_train_batch_size,
                                      .accumulation = with.gradient_accumulation_steps},
                                     on)
                          .seconds();
    fastest = std::min(fastest, choice.slowdown);
  }
  for (MemoryChoice& choice : choices) choice.slowdown = choice.slowdown / fastest - 1;
  std::ranges::stable_sort(choices, {}, &MemoryChoice::slowdown);
  keep_smaller(choices);
  return choices;
}

const MemoryChoice& best_choice(const std::vector<MemoryChoice>& choices, const TrainConfig& config,
                                std::size_t limit) {
  const auto found = std::ranges::find_if(choices, &MemoryChoice::fits);
  if (found != choices.end()) return *found;
  // What has no room for what it offloads is none to speak of, where there are others.
  const MemoryChoice& least = *std::ranges::min_element(
      choices, {}, [](const MemoryChoice& c) { return std::pair(!c.has_room, c.plan.needed()); });
  throw OutOfMemory(
      fmt::format("memory_limit: nothing fits into {}; the least is {} with {} ({}); to make it fit: {}",
                  human_bytes(limit), human_bytes(least.plan.needed()), least.text(), least.plan.parts_text(),
                  memory_advice(least.plan, config)),
      least.plan.needed(), 0, limit);
}

std::string fit_into_memory(TrainConfig& config, const LanguageConfig& model, std::size_t available,
                            const PlannedPlace& place) {
  if (!config.memory_limit.is_on()) return {};
  const std::size_t limit = allowed_memory(config, available);
  const std::vector<MemoryChoice> choices = memory_choices(config, model, limit, place);
  const MemoryChoice& best = best_choice(choices, config, limit);
  config = with_memory_choice(std::move(config), best);
  const MemoryChoice& fastest = choices.front();
  const std::size_t elsewhere = best.plan.offloaded + best.plan.offloaded_gradients +
                                best.plan.offloaded_weights + best.plan.offloaded_activations;
  const std::string takes = fmt::format(
      "memory_limit: {} takes {} of {}{}", best.text(), human_bytes(best.plan.needed()), human_bytes(limit),
      elsewhere > 0 ? fmt::format(", with {} elsewhere", human_bytes(elsewhere)) : "");
  if (&best == &fastest) return takes + "; nothing is faster";
  return fmt::format("{}; steps take about {:.0f} % longer than with {}, which would take {}", takes,
                     100 * best.slowdown, fastest.text(), human_bytes(fastest.plan.needed()));
}

}  // namespace ingot
