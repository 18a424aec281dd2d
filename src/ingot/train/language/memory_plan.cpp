#include "ingot/train/language/memory_plan.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/units.h"
#include "ingot/core/backend.h"
#include "ingot/core/memory.h"
#include "ingot/kernels/dry_run.h"
#include "ingot/kernels/master_weight.h"
#include "ingot/kernels/quant_map_8bit.h"
#include "ingot/optim/muon.h"
#include "ingot/train/language/planning/dry_pass.h"
#include "ingot/train/language/planning/gradient_memory.h"
#include "ingot/train/language/reference.h"
#include "ingot/train/language/teacher.h"

namespace ingot {
namespace {

// The host's memory is the device's own on a CPU.
bool leaves(Offload to, bool on_gpu) { return to == Offload::disk || (to == Offload::cpu && on_gpu); }

// `count`: of the parameters that train; those of adapters are f32.
std::size_t optimizer_bytes(const TrainConfig& config, const LanguageConfig& model, std::int64_t count) {
  const std::int64_t master = is_half_precision(config.dtype) && !config.adapter.enabled
                                  ? static_cast<std::int64_t>(byte_size(kernels::master_dtype(config.dtype)))
                                  : 0;
  const std::int64_t moments = config.optimizer.name == "sgd" ? (config.optimizer.momentum > 0 ? 1 : 0) : 2;
  // Small parameters, which stay in f32 too, are too few to count.
  std::int64_t codes = 0;
  if (config.optimizer.name == "adamw_8bit") {
    const std::int64_t positions =
        model.position == PositionKind::learned ? model.max_position_embeddings : 0;
    const std::int64_t tables = (model.vocab_size + positions) * model.hidden_size + layer_input_table(model);
    codes = config.adapter.enabled ? count : count - tables;
  }
  const std::int64_t bytes =
      count * master + moments * (4 * (count - codes) + codes + 4 * kernels::moment_blocks(codes));
  return static_cast<std::size_t>(bytes);
}

// Weights of a model while it trains. Of layers that come and go, one or two are there at a time.
struct Weights {
  std::size_t resident = 0, layer = 0;
  std::size_t with(std::int64_t layers) const { return resident + static_cast<std::size_t>(layers) * layer; }
};

// `inside` bytes of `all` are those of layers, which the ranks share out.
Weights shared_out(std::size_t all, std::size_t inside, std::size_t ranks, const LanguageConfig& model) {
  return {.resident = all - inside + inside / ranks,
          .layer = inside / static_cast<std::size_t>(model.num_hidden_layers)};
}

// Rows of the largest matrix of a layer, or of what makes all layers' inputs.
std::int64_t widest_projection(const LanguageConfig& c) {
  return std::max({c.mlp_width(c.num_hidden_layers - 1), c.num_attention_heads * c.widest_head(),
                   c.num_hidden_layers * c.hidden_size_per_layer_input});
}

bool steps_matrices(const TrainConfig& config) {
  return config.optimizer.name.ends_with("muon") && !config.adapter.enabled;
}

// Rows of the largest matrix that Muon steps, which it does as a whole.
std::int64_t widest_whole(const LanguageConfig& c) {
  return std::max(widest_projection(c), 2 * c.mamba_inner());
}

// What comes of that: its momentum, the f32 master and the gradient.
std::size_t largest_whole_state(const TrainConfig& config, const LanguageConfig& c) {
  if (!steps_matrices(config)) return 0;
  std::size_t bytes = 0;
  if (config.optimizer.offload != Offload::none)
    bytes += is_half_precision(config.dtype) ? 2 * sizeof(float) : sizeof(float);
  if (config.optimizer.gradients != Offload::none) bytes += byte_size(config.dtype);
  return static_cast<std::size_t>(c.hidden_size * widest_whole(c)) * bytes;
}

// What that step computes with, in f32.
std::size_t matrix_step_bytes(const TrainConfig& config, const LanguageConfig& c,
                              const kernels::DeviceProfile& device) {
  if (!steps_matrices(config)) return 0;
  const kernels::DryRun run(device);
  const NoGrad no_grad;
  const std::size_t before = run.memory().allocated();
  run.memory().reset_peak();
  const Shape shape{widest_whole(c), c.hidden_size};
  const Tensor gradient = Tensor::empty(shape, DType::f32, kMeta),
               update = Tensor::empty(shape, DType::f32, kMeta);
  static_cast<void>(orthogonalized(update, 1));
  return run.memory().peak() - before;
}

// Layers are there while they compute. A mapped file's pages count as memory while they are in use.
void offload_weights(MemoryPlan& plan, Weights& weights, const TrainConfig& config,
                     const LanguageConfig& model) {
  if (!leaves(config.offload_weights, plan.on_gpu)) return;
  plan.offloaded_weights = std::min(config.adapter.layer_bytes(model, config.dtype), weights.resident);
  weights.resident -= plan.offloaded_weights;
  weights.layer = plan.offloaded_weights / static_cast<std::size_t>(model.num_hidden_layers);
}

// State and gradients lie elsewhere, and on a GPU two windows of them come, in bytes, while the activations
// are not there.
std::size_t offload_optimizer(MemoryPlan& plan, GradientMemory& gradients, const OptimizerConfig& optimizer,
                              std::size_t largest_whole) {
  if (leaves(optimizer.offload, plan.on_gpu)) plan.offloaded = std::exchange(plan.optimizer, 0);
  if (leaves(optimizer.gradients, plan.on_gpu)) {
    plan.offloaded_gradients = gradients.all;
    gradients.lie = GradientMemory::Lie::elsewhere;
    gradients.between = 0;
  }
  const std::size_t offloaded = plan.offloaded + plan.offloaded_gradients;
  if (offloaded == 0 || !plan.on_gpu) return 0;
  return std::min(offloaded, 2 * std::max(offload_window(offloaded), largest_whole));
}

}  // namespace

std::int64_t layer_input_table(const LanguageConfig& model) {
  return model.vocab_size_per_layer_input * model.num_hidden_layers * model.hidden_size_per_layer_input;
}

std::vector<std::pair<std::string, std::size_t>> MemoryPlan::parts() const {
  std::vector<std::pair<std::string, std::size_t>> list{
      {"parameters", parameters},   {"reference model", reference}, {"teacher", teacher},
      {"gradients", gradients},     {"optimizer", optimizer},       {"ema", ema},
      {"activations", activations}, {"transients", transients}};
  std::ranges::sort(list, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::erase_if(list, [](const auto& part) { return part.second == 0; });
  return list;
}

std::string MemoryPlan::parts_text() const {
  std::string text;
  const auto add = [&](std::size_t bytes, std::string_view what) {
    if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", human_bytes(bytes), what);
  };
  for (const auto& [what, bytes] : parts()) add(bytes, what);
  add(waiting, "buckets of gradients that wait for slow links");
  return text;
}

namespace {

// The values of a packed matrix, where a device multiplies many rows with these.
std::size_t dequantized_bytes(const TrainConfig& config, const LanguageConfig& c,
                              const kernels::KernelTraits& traits) {
  if (!config.adapter.quantizes_base() || !traits.dequantizes_for_many_rows) return 0;
  return static_cast<std::size_t>(c.hidden_size * widest_projection(c)) * byte_size(config.dtype);
}

// Of the layers' inputs, where they are elsewhere.
std::size_t offloaded_inputs(const MemoryPlan& plan, const TrainConfig& config, const LanguageConfig& model) {
  if (config.recompute != Recompute::full || !leaves(config.offload_activations, plan.on_gpu)) return 0;
  // Both answers of a pair go through the model together.
  const std::int64_t rows = config.objective.preferences() == data::PreferenceKind::pair ? 2 : 1,
                     tokens = rows * config.per_device_train_batch_size * config.sequence_len;
  return static_cast<std::size_t>(tokens * model.num_hidden_layers * model.stream_width()) *
         byte_size(config.dtype);
}

// Of what the ranks of a group share out, and other groups have, too.
std::size_t of_each_rank(const TrainConfig& config, std::size_t experts) {
  return experts / static_cast<std::size_t>(config.expert_parallel_size);
}

std::size_t expert_bytes(const TrainConfig& config, const LanguageConfig& model) {
  if (config.adapter.enabled) return config.adapter.expert_bytes(model, config.dtype);
  return static_cast<std::size_t>(model.expert_parameter_count()) * byte_size(config.dtype);
}

// What one of the ranks has of weights that take `all` bytes, while they train. `experts`: bytes of those of
// which each has its part alone.
Weights weights_of(const TrainConfig& config, const LanguageConfig& model, std::size_t all, std::size_t ranks,
                   std::size_t experts) {
  const std::size_t size = byte_size(config.dtype), own = of_each_rank(config, experts),
                    others = all - experts;
  if (config.zero_stage < 3 || ranks == 1) return {.resident = others + own};
  const std::size_t outside = static_cast<std::size_t>(model.parameters_outside_layers()) * size;
  const std::size_t inside = config.adapter.enabled
                                 ? std::min(all, config.adapter.layer_bytes(model, config.dtype)) -
                                       std::min(experts, expert_bytes(config, model))
                                 : others - outside;
  Weights weights = shared_out(others, inside, ranks, model);
  weights.resident += own;
  return weights;
}

// Parameters of experts, or of adapters on them.
std::size_t trained_of_experts(const TrainConfig& config, const LanguageConfig& model) {
  return static_cast<std::size_t>(config.adapter.enabled ? config.adapter.expert_parameter_count(model)
                                                         : model.expert_parameter_count());
}

// Answers and samples are written with all layers at once.
bool gathers_all_layers(const TrainConfig& config) {
  return config.zero_stage == 3 &&
         (config.objective.kind == ObjectiveKind::grpo || !config.sample_prompts.empty());
}

// Beside weights, when no pass runs.
std::size_t between_passes(const MemoryPlan& plan) {
  return plan.reference + plan.teacher + plan.sums + plan.optimizer + plan.ema;
}

void put_peak(MemoryPlan& plan, const Weights& weights, const StepPeak& peak) {
  plan.parameters = weights.with(peak.layers);
  plan.gradients = peak.gradients;
  plan.activations = peak.activations;
  plan.transients = peak.transients;
  plan.moving = peak.moving;
}

MemoryPlan plan(const TrainConfig& config, const LanguageConfig& model, const kernels::DeviceProfile& device,
                int ranks) {
  const auto count = static_cast<std::size_t>(model.parameter_count());
  const std::size_t size = byte_size(config.dtype);
  MemoryPlan plan;
  plan.on_gpu = !device.capabilities.host_memory;
  const AdapterTraining& adapter = config.adapter;
  const auto trained = adapter.enabled ? static_cast<std::size_t>(adapter.parameter_count(model)) : count;
  const auto parts = static_cast<std::size_t>(ranks);
  const bool copied = ReferenceModel::is_copied(config);
  const bool shares_experts = config.shares_experts() && ranks > 1;
  const std::size_t each = adapter.enabled ? sizeof(float) : size;
  const std::size_t all = adapter.enabled ? adapter.base_bytes(model, config.dtype) + trained * sizeof(float)
                                          : count * size,
                    experts = shares_experts ? trained_of_experts(config, model) : 0;
  std::size_t of_experts = shares_experts ? expert_bytes(config, model) : 0;
  if (adapter.enabled) of_experts += experts * sizeof(float);
  Weights weights = weights_of(config, model, all, parts, of_experts);
  if (config.runs_passes_together() && ranks > 1) plan.all_weights = (copied ? 2 * all : all) + all / parts;
  if (copied) plan.reference = weights_of(config, model, all, parts, 0).with(2);
  offload_weights(plan, weights, config, model);
  plan.teacher = teacher_bytes(config.distillation, config.dtype);
  plan.optimizer = optimizer_bytes(config, model, static_cast<std::int64_t>(trained));
  plan.ema = config.ema_decay > 0 ? trained * 4 : 0;
  if (config.zero_stage > 0) {
    const auto shared = [&](std::size_t bytes) {
      const std::size_t shared_out = static_cast<std::size_t>(
          static_cast<double>(bytes) * static_cast<double>(experts) / static_cast<double>(trained));
      return (bytes - shared_out) / parts + of_each_rank(config, shared_out);
    };
    plan.optimizer = shared(plan.optimizer);
    plan.ema = shared(plan.ema);
  }
  const std::shared_ptr<const PassMemory> pass = dry_pass(config, model, device);
  GradientMemory gradients = gradient_memory(config, *pass, (trained - experts) * each,
                                             of_each_rank(config, experts) * each, parts, plan.on_gpu);
  const std::size_t windows = offload_optimizer(plan, gradients, config.optimizer,
                                                largest_whole_state(config, model)),
                    matrix = matrix_step_bytes(config, model, device),
                    dequantized = dequantized_bytes(config, model, device.traits);
  plan.kept = pass->kept;
  plan.all_gradients = gradients.all;
  plan.sums = gradients.between;
  plan.offloaded_activations = offloaded_inputs(plan, config, model);
  const StepPeak peak = peak_of_step(*pass, gradients, weights.layer, dequantized, windows + matrix);
  put_peak(plan, weights, peak);
  plan.waiting = gradients.waiting;
  // All weights, and the rank's part, where text is written between two steps.
  const bool gathers = gathers_all_layers(config) && ranks > 1;
  const std::size_t written_with = gathers ? all + all / parts : weights.with(2);
  if (pass->rollout > 0)
    plan.rollout =
        pass->rollout + dequantized + written_with + between_passes(plan) - (gradients.stays ? 0 : plan.sums);
  if (gathers) plan.all_weights = std::max(plan.all_weights, written_with + between_passes(plan));
  return plan;
}

}  // namespace

std::size_t MemoryPlan::needed() const {
  const std::size_t held = total() + waiting;
  return std::max({held + (on_gpu ? moving : held) / 10, all_weights, rollout + rollout / 10});
}

MemoryPlan plan_memory(const TrainConfig& config, const LanguageConfig& model, int ranks) {
  return plan(config, model, kernels::DeviceProfile::of(config.training_device()), ranks);
}

MemoryPlan plan_memory_of_gpu(const TrainConfig& config, const LanguageConfig& model, std::size_t memory,
                              int ranks) {
  return plan(config, model, kernels::DeviceProfile::of_gpu(memory), ranks);
}

std::string memory_advice(const MemoryPlan& plan, const TrainConfig& config) {
  if (plan.activations + plan.transients > plan.needed() / 3) {
    constexpr std::int64_t kChunk = 2048;
    std::string smaller = "a smaller per_device_train_batch_size with more gradient_accumulation_steps";
    const bool helps = config.mlp_chunk == 0 && !config.shares_experts();
    if (helps && config.per_device_train_batch_size * config.sequence_len > 2 * kChunk)
      smaller += fmt::format(", or mlp_chunk: {}", kChunk);
    if (config.memory_limit.is_on()) return smaller;
    if (config.recompute == Recompute::none) return "recompute: selective, or recompute: true, or " + smaller;
    return config.recompute == Recompute::full ? smaller : "recompute: true, or " + smaller;
  }
  if (!config.memory_limit.is_on() && config.adapter.enabled && plan.parameters > plan.needed() / 3 &&
      config.offload_weights == Offload::none && config.offload_weights_obstacle().first.empty())
    return "offload_weights: cpu (on a CPU: disk), or a smaller model or sequence_len";
  const std::string smaller = config.adapter.enabled ? "a smaller model or sequence_len"
                                                     : "adapter: lora, a smaller model or sequence_len";
  if (plan.optimizer > plan.needed() / 4 && !config.memory_limit.is_on())
    return "offload_optimizer: cpu (on a CPU: disk), optimizer: adamw_8bit, " + smaller;
  if (plan.gradients > plan.needed() / 4 && !config.memory_limit.is_on() &&
      config.offload_gradients_obstacle().first.empty())
    return "offload_gradients: cpu (on a CPU: disk), " + smaller;
  return smaller;
}

namespace {

// What ranks of this machine keep in one place between steps, or between two passes.
struct Elsewhere {
  std::string keys;  // that put it there
  std::size_t bytes = 0, there = std::numeric_limits<std::size_t>::max();
  bool has_room() const { return bytes <= there; }
};

Elsewhere kept_in(Offload place, const MemoryPlan& plan, const TrainConfig& config, int local_ranks) {
  Elsewhere kept;
  const auto add = [&](Offload to, const char* key, std::size_t bytes) {
    if (to != place || bytes == 0) return;
    kept.keys += fmt::format("{}{}: {}", kept.keys.empty() ? "" : ", ", key, name(to));
    kept.bytes += bytes * static_cast<std::size_t>(local_ranks);
  };
  add(config.optimizer.offload, "offload_optimizer", plan.offloaded);
  add(config.optimizer.gradients, "offload_gradients", plan.offloaded_gradients);
  // A mapped file of a frozen base takes no more of the disk.
  if (place == Offload::cpu || !config.adapter.enabled)
    add(config.offload_weights, "offload_weights", plan.offloaded_weights);
  add(config.offload_activations, "offload_activations", plan.offloaded_activations);
  return kept;
}

// `loaded`: as check_memory() has it.
Elsewhere kept_on_host(const MemoryPlan& plan, const TrainConfig& config, int local_ranks,
                       std::size_t loaded) {
  if (!plan.on_gpu) return {};
  Elsewhere kept = kept_in(Offload::cpu, plan, config, local_ranks);
  kept.there = backend(kCpu).memory_info().free + loaded;
  return kept;
}

Elsewhere kept_on_disk(const MemoryPlan& plan, const TrainConfig& config, int local_ranks) {
  Elsewhere kept = kept_in(Offload::disk, plan, config, local_ranks);
  if (kept.bytes > 0) kept.there = free_disk_bytes(config.output_dir);
  return kept;
}

void check_elsewhere(const Elsewhere& kept, const std::string& where, int local_ranks,
                     const std::string& advice) {
  if (kept.has_room()) return;
  throw OutOfMemory(fmt::format("{} takes {} of {}{} and {} are free; to make it fit: {}", kept.keys,
                                human_bytes(kept.bytes), where,
                                local_ranks > 1 ? fmt::format(" for {} ranks", local_ranks) : "",
                                human_bytes(kept.there), advice),
                    kept.bytes, 0, kept.there);
}

}  // namespace

bool offload_has_room(const MemoryPlan& plan, const TrainConfig& config, int local_ranks) {
  return kept_on_host(plan, config, local_ranks, 0).has_room() &&
         kept_on_disk(plan, config, local_ranks).has_room();
}

void check_memory(const MemoryPlan& plan, const TrainConfig& config, std::size_t available, int local_ranks,
                  std::size_t loaded) {
  const std::size_t needed = plan.needed();
  const auto less_state = [&](Offload place) {
    const bool has_state = plan.offloaded > 0 && config.optimizer.offload == place;
    return std::string(has_state ? ", or optimizer: adamw_8bit" : "");
  };
  check_elsewhere(kept_on_host(plan, config, local_ranks, loaded), "the host's memory", local_ranks,
                  "disk in the place of cpu" + less_state(Offload::cpu));
  check_elsewhere(kept_on_disk(plan, config, local_ranks), fmt::format("the disk of {}", config.output_dir),
                  local_ranks, "another output_dir" + less_state(Offload::disk));
  if (needed <= available) return;
  throw OutOfMemory(
      fmt::format("this run needs about {} ({}) and {} are free; to make it fit: {}", human_bytes(needed),
                  plan.parts_text(), human_bytes(available), memory_advice(plan, config)),
      needed, 0, available);
}

}  // namespace ingot
