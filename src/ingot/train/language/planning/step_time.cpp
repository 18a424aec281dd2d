#include "ingot/train/language/planning/step_time.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace ingot {
namespace {

// Fitted once to all of the published runs in tests/train/language/published_rows.h, with nothing for a model
// or a row of its own.
constexpr double kMatmulShare = 0.9;     // of the sustained rate, for matmuls of weights
constexpr double kAttentionShare = 0.3;  // for attention, whose gradients take five matmuls for two
constexpr double kActivationMoves = 6;   // kept activations are written once; all reads and gradients
constexpr double kLogitMoves = 5;
constexpr double kRecomputeShare = 4.0 / 3;  // a forward pass more, of forward and two backward ones
constexpr double kSelectiveMoves = 7.0 / 6;
constexpr double kKernelsOfLayer = 50, kKernelSeconds = 4e-6;  // of a forward and a backward pass
constexpr double kHopSeconds = 20e-6;                          // of a message
constexpr double kDiskRate = 2e9;  // bytes/s, assumed: an NVMe drive's, reading or writing

double as_double(std::int64_t value) { return static_cast<double>(value); }

TrainConfig with_choice(TrainConfig config, const PlannedChoice& choice) {
  config.zero_stage = choice.zero_stage;
  config.recompute = choice.recompute;
  config.optimizer.offload = choice.offload;
  config.optimizer.gradients = choice.gradients;
  config.offload_weights = choice.weights;
  config.offload_activations = choice.activations;
  config.per_device_train_batch_size = choice.batch;
  config.gradient_accumulation_steps = choice.accumulation;
  return config;
}

MemoryPlan planned_memory(const TrainConfig& config, const LanguageConfig& model, const PlannedDevice& device,
                          int ranks) {
  if (!device.host) return plan_memory_of_gpu(config, model, static_cast<std::size_t>(device.memory), ranks);
  TrainConfig on_host = config;
  on_host.device = "cpu";
  return plan_memory(on_host, model, ranks);
}

// What one rank has of the device; the ranks of a node share its processors.
PlannedDevice of_a_rank(const PlannedCluster& on) {
  PlannedDevice device = on.device;
  if (!device.host) return device;
  const double share = on.ranks_per_node();
  for (double* rate : {&device.f32, &device.half, &device.fp8, &device.memory, &device.bandwidth,
                       &device.link, &device.host_link})
    *rate /= share;
  return device;
}

void add_work(StepTime& time, const TrainConfig& config, const ModelWork& work, const PlannedDevice& device) {
  const double tokens = as_double(config.tokens_per_step()), size = as_double(byte_size(config.dtype)),
               rounds = as_double(config.gradient_accumulation_steps);
  const bool is_full = config.recompute == Recompute::full;
  const double again = is_full ? kRecomputeShare : 1;
  const double peak = device.peak(config.dtype) * device.sustained;
  const bool in_fp8 = config.recipe.kind == RecipeKind::fp8_hybrid && device.fp8 > 0;
  const double layer_peak = in_fp8 ? device.fp8 * device.sustained : peak;
  time.model_flops = tokens * (work.layer_flops + work.attention_flops + work.head_flops);
  time.hardware_flops = tokens * (again * (work.layer_flops + work.attention_flops) + work.head_flops);
  // Few tokens at a time do not pay for reading the weights: forward, for the inputs' gradients, and those
  // of weights that are added to.
  time.matmuls =
      std::max(tokens * (again * work.layer_flops / layer_peak + work.head_flops / peak) / kMatmulShare,
               4 * work.read * rounds / device.bandwidth) +
      tokens * again * work.attention_flops / (peak * kAttentionShare);
  const double more = is_full                                    ? kRecomputeShare
                      : config.recompute == Recompute::selective ? kSelectiveMoves
                                                                 : 1;
  time.moves = tokens * (kActivationMoves * more * work.kept + kLogitMoves * as_double(work.classes) * size) /
               device.bandwidth;
  if (device.host) return;
  const double least = again * rounds * as_double(work.layers) * kKernelsOfLayer * kKernelSeconds;
  time.launches = std::max(0.0, least - time.matmuls - time.moves);
}

struct Collective {
  double inside = 0, outside = 0, seconds = 0;
};

// A reduce-scatter or an all-gather of so many bytes on each rank, by rings: in the nodes, and between the
// ranks of a kind with the part that a rank then has.
Collective collective(double bytes, const PlannedCluster& on, const PlannedDevice& device) {
  const double in_node = on.ranks_per_node(), nodes = on.nodes;
  Collective c;
  c.inside = bytes * (in_node - 1) / in_node;
  c.outside = bytes * (nodes - 1) / nodes;  // of a node: each of its ranks has a part
  const double link = on.direct || device.host ? device.link : std::min(device.link, device.host_link);
  c.seconds = c.inside / link + (nodes > 1 ? c.outside / on.network : 0) +
              kHopSeconds * std::ceil(std::log2(static_cast<double>(on.ranks)));
  return c;
}

// Tokens' rows go to the ranks of their experts and come back, forward and backward, and once more where
// the forward pass is run again. Every rank has as many rows for each other: an even load. The layer waits.
Collective expert_exchange(const TrainConfig& config, const PlannedCluster& on, const ModelWork& work) {
  const double passes = config.recompute == Recompute::full ? 6 : 4,
               group = as_double(config.expert_parallel_size), in_node = on.ranks_per_node(),
               near = std::min(group, in_node);
  const double rows = passes * as_double(config.tokens_per_step()) * work.expert_rows,
               messages = passes * as_double(config.gradient_accumulation_steps * work.expert_layers);
  return {.inside = rows * (near - 1) / group,
          .outside = rows * (group - near) / group * in_node,
          .seconds = kHopSeconds * messages * std::ceil(std::log2(group))};
}

// Groups of ranks, each with all experts, sum the gradients of these.
Collective expert_sum(const TrainConfig& config, const PlannedCluster& on, const ModelWork& work) {
  const double group = as_double(config.expert_parallel_size), in_node = on.ranks_per_node(),
               near = std::max(1.0, in_node / group), groups = on.ranks / group, far = groups / near;
  const double bytes = 2 * work.shared_experts / group;
  return {.inside = bytes * (near - 1) / near,
          .outside = bytes / near * (far - 1) / far * in_node,
          .seconds = groups > 1 ? 2 * kHopSeconds * std::ceil(std::log2(groups)) : 0};
}

void add_experts(StepTime& time, const TrainConfig& config, const PlannedCluster& on,
                 const PlannedDevice& device, const ModelWork& work) {
  if (work.expert_rows == 0 || on.ranks == 1) return;
  const double link = on.direct || device.host ? device.link : std::min(device.link, device.host_link);
  for (const Collective& c : {expert_exchange(config, on, work), expert_sum(config, on, work)}) {
    time.inside += c.inside;
    time.outside += c.outside;
    time.exposed += c.seconds + c.inside / link + (on.nodes > 1 ? c.outside / on.network : 0);
    if (!on.direct && !device.host) time.host_bytes += c.inside + c.outside / on.ranks_per_node();
  }
}

void add_communication(StepTime& time, const TrainConfig& config, const PlannedChoice& choice,
                       const PlannedCluster& on, const PlannedDevice& device, const ModelWork& amounts) {
  if (on.ranks == 1) return;
  const double rounds = as_double(choice.accumulation);
  const double sent = choice.zero_stage >= 2 || config.ordered_gradients ? rounds : 1;
  // Stage 3 gathers what lies below adapters, too.
  const double gathered = choice.zero_stage == 3 && config.adapter.enabled
                              ? amounts.layer_bytes
                              : amounts.weights - amounts.shared_experts;
  // Those of experts travel to no other rank, as these do not.
  const double gradients = amounts.gradients - amounts.shared_experts;
  const Collective scatter = collective(gradients, on, device), gather = collective(gathered, on, device);
  const double gathers = choice.zero_stage == 3 ? 2 * rounds : 1;
  time.inside = sent * scatter.inside + gathers * gather.inside;
  time.outside = sent * scatter.outside + gathers * gather.outside;
  double travel = sent * scatter.seconds + (choice.zero_stage == 0 ? gather.seconds : 0);
  // Beside the backward passes, two thirds of the work, of the rounds that send; all but the last bucket.
  double cover = (time.matmuls + time.moves + time.launches) * 2 / 3 * (sent / rounds);
  double after = choice.zero_stage == 0 ? 0 : gather.seconds;
  if (choice.zero_stage == 3) {  // weights are fetched beside the layer before
    travel += gathers * gather.seconds;
    cover = time.matmuls + time.moves + time.launches;
    after = 0;
  }
  const double last_bucket =
      std::min(1.0, as_double(static_cast<std::int64_t>(config.bucket_bytes())) / gradients);
  // Ranks on processors have no engine beside them that would copy bytes.
  const double hidden = device.host ? 0 : std::min(travel * (1 - last_bucket), cover);
  time.hidden += hidden;
  time.exposed += travel - hidden + after;
  if (!on.direct && !device.host) time.host_bytes += sent * gradients + gathers * gathered;
}

// State comes and goes at the same time, but to a file, which takes the one after the other.
void add_offload(StepTime& time, double bytes, Offload to, const PlannedDevice& device) {
  if (to == Offload::none) return;
  if (!device.host) time.host_bytes += bytes;
  if (to == Offload::disk)
    time.exposed += 2 * bytes / kDiskRate;
  else if (!device.host)
    time.exposed += bytes / device.host_link;
}

// Bytes that go one way, beside the work: what takes longer than that shows, and `first` in any case, before
// which there is no work.
void add_travel(StepTime& time, double bytes, double first, Offload to, const PlannedDevice& device) {
  if (to == Offload::none || (to == Offload::cpu && device.host)) return;
  if (!device.host) time.host_bytes += bytes;
  const double rate = to == Offload::disk ? kDiskRate : device.host_link;
  const double shown = std::max(bytes / rate - time.matmuls - time.moves - time.launches, first / rate);
  time.exposed += shown;
  time.hidden += bytes / rate - shown;
}

// Layers come for the forward and for the backward pass, and once more, and go, where they are stepped.
void add_weights(StepTime& time, const ModelWork& work, const PlannedChoice& choice, bool trains_whole,
                 const PlannedDevice& device) {
  const double passes = 2 * as_double(choice.accumulation) + (trains_whole ? 2 : 0);
  add_travel(time, passes * work.layer_bytes, passes * work.layer_bytes / as_double(work.layers),
             choice.weights, device);
}

// Inputs of layers go in the forward pass, and come in the backward pass.
void add_activations(StepTime& time, const TrainConfig& config, const ModelWork& work,
                     const PlannedChoice& choice, const PlannedDevice& device) {
  const double bytes = 2 * as_double(config.tokens_per_step()) * work.layer_inputs;
  add_travel(time, bytes, bytes / as_double(work.layers), choice.activations, device);
}

// Gradients go in each backward pass, and come in those that add to them; the optimizer's step waits for
// them.
void add_gradients(StepTime& time, const ModelWork& work, const PlannedChoice& choice,
                   const PlannedDevice& device) {
  if (choice.gradients == Offload::none || (choice.gradients == Offload::cpu && device.host)) return;
  const double passes = as_double(2 * choice.accumulation - 1);
  add_travel(time, passes * work.gradients, work.gradients / as_double(work.layers), choice.gradients,
             device);
  if (!device.host) time.host_bytes += work.gradients;
  time.exposed += work.gradients / (choice.gradients == Offload::disk ? kDiskRate : device.host_link);
}

}  // namespace

std::string PlannedChoice::text() const {
  std::string text =
      fmt::format("ZeRO {}, recompute {}, batch {} × {}", zero_stage, name(recompute), batch, accumulation);
  if (offload != Offload::none) text += fmt::format(", offload {}", ingot::name(offload));
  if (gradients != Offload::none) text += fmt::format(", offload_gradients {}", ingot::name(gradients));
  if (weights != Offload::none) text += fmt::format(", offload_weights {}", ingot::name(weights));
  if (activations != Offload::none) text += fmt::format(", offload_activations {}", ingot::name(activations));
  return text;
}

const char* StepTime::bound() const {
  const double most = std::max({matmuls, moves, launches, exposed});
  if (most == exposed) return "link";
  if (most == launches) return "kernel launches";
  return matmuls >= moves ? "compute" : "memory bandwidth";
}

ModelWork model_work(const TrainConfig& config, const LanguageConfig& model, const PlannedDevice& device) {
  const TrainConfig plain = with_choice(config, {});
  const MemoryPlan whole = planned_memory(plain, model, device, 1);
  const double trained = config.adapter.enabled ? 2.0 / 3 : 1;  // the base has no gradients of weights
  ModelWork work;
  work.gradients = static_cast<double>(whole.all_gradients);
  work.weights = config.adapter.enabled ? work.gradients : static_cast<double>(whole.parameters);
  work.optimizer = static_cast<double>(whole.optimizer);
  work.layer_bytes = static_cast<double>(config.adapter.layer_bytes(model, config.dtype));
  work.layer_inputs =
      as_double(model.num_hidden_layers * model.stream_width()) * as_double(byte_size(config.dtype));
  // Few rows of the table of layers' inputs are read.
  work.read = as_double(model.active_parameter_count() - layer_input_table(model)) *
              as_double(byte_size(config.dtype));
  work.kept = static_cast<double>(whole.kept) / as_double(config.sequence_len);
  if (config.shares_experts()) {
    const double size = as_double(byte_size(config.dtype));
    for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer)
      work.expert_layers += model.is_sparse(layer) ? 1 : 0;
    work.shared_experts = config.adapter.enabled
                              ? as_double(config.adapter.expert_parameter_count(model)) * sizeof(float)
                              : as_double(model.expert_parameter_count()) * size;
    if (config.adapter.enabled)
      work.layer_bytes -= static_cast<double>(config.adapter.expert_bytes(model, config.dtype));
    work.expert_rows =
        as_double(work.expert_layers * model.num_experts_per_tok * model.expert_width()) * size;
  }
  work.attention_flops = 6 * as_double(model.query_elements() * config.sequence_len);
  const double head = 6 * as_double(model.vocab_size * model.hidden_size),
               all = model.training_flops_per_token(config.sequence_len);
  work.head_flops = trained * head;
  work.layer_flops = trained * std::max(0.0, all - work.attention_flops - head);
  work.layers = model.num_hidden_layers;
  work.classes = model.vocab_size;
  return work;
}

StepTime plan_step_time(const TrainConfig& config, const ModelWork& work, const PlannedChoice& choice,
                        const PlannedCluster& on) {
  const TrainConfig chosen = with_choice(config, choice);
  const PlannedDevice device = of_a_rank(on);
  StepTime time;
  add_work(time, chosen, work, device);
  const double part = choice.zero_stage > 0 ? on.ranks : 1;
  time.moves += (2 * work.optimizer + 2 * work.weights + work.gradients) / part / device.bandwidth;
  add_offload(time, work.optimizer / part, choice.offload, device);
  add_gradients(time, work, choice, device);
  add_weights(time, work, choice, !config.adapter.enabled, device);
  add_activations(time, chosen, work, choice, device);
  add_communication(time, chosen, choice, on, device, work);
  add_experts(time, chosen, on, device, work);
  return time;
}

MemoryPlan plan_memory_of_choice(TrainConfig config, const LanguageConfig& model, const PlannedChoice& choice,
                                 const PlannedCluster& on) {
  config = with_choice(std::move(config), choice);
  return planned_memory(config, model, of_a_rank(on), on.ranks);
}

}  // namespace ingot
