#include "ingot/train/language/memory_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/units.h"
#include "ingot/core/backend.h"
#include "ingot/core/memory.h"
#include "ingot/kernels/master_weight.h"
#include "ingot/kernels/quant_map_8bit.h"
#include "ingot/ops/loss.h"
#include "ingot/train/language/recipe_training.h"
#include "ingot/train/language/reference.h"
#include "ingot/train/language/teacher.h"

namespace ingot {
namespace {

// What a layer keeps of each token for the backward pass.
struct Kept {
  std::int64_t values = 0;      // of the model's dtype
  std::int64_t statistics = 0;  // f32 whatever the dtype
  std::int64_t indices = 0;     // i64
  std::size_t bytes(DType dtype) const {
    return static_cast<std::size_t>(values) * byte_size(dtype) + static_cast<std::size_t>(statistics) * 4 +
           static_cast<std::size_t>(indices) * 8;
  }
};

// What keeping depends on besides the model.
struct Keeping {
  bool selective;  // SelectiveRecompute
  bool on_cpu;
  DType dtype;
  bool chunks;  // MLPs keep their input, and the rest is there for some rows only
};

// Queries and keys put together from their parts, what values and the keys' plain parts are views of, and the
// values that attention mixed; latents before and behind their norms.
void add_latent_attention(Kept& kept, const LanguageConfig& c) {
  const std::int64_t heads = c.num_attention_heads;
  kept.values += 2 * heads * c.head_dim + heads * (c.qk_nope_head_dim + 2 * c.v_head_dim) +
                 2 * (c.kv_lora_rank + c.q_lora_rank);
  kept.statistics += heads + (c.q_lora_rank > 0 ? 2 : 1);
}

// q, k, v and the values that attention mixed. Norms of the heads read q and k of the projections, attention
// those behind the norms and RoPE.
void add_attention(Kept& kept, const LanguageConfig& c, const Keeping& how) {
  if (c.is_latent()) return add_latent_attention(kept, c);
  const std::int64_t query = c.num_attention_heads * c.head_dim,
                     key_value = c.num_key_value_heads * c.head_dim;
  kept.values += 2 * query + 2 * key_value;
  kept.statistics += c.num_attention_heads;
  if (c.attention_gate) kept.values += 3 * query;
  if (c.qk_norm == QkNorm::none) return;
  kept.statistics += c.num_attention_heads + c.num_key_value_heads;
  if (!how.selective) kept.values += query + key_value;
}

// B, C and x, what the convolution reads and gives, and what the output projection reads.
void add_convolution(Kept& kept, const LanguageConfig& c, const Keeping& how) {
  kept.values += (how.selective ? 4 : 6) * c.hidden_size;
}

// The gate, what the convolution reads and gives, and what its activation gives; x, B and C in f32, x with
// its time step, what the scan gives, before and behind D, gate and norm; and what the output projection
// reads.
void add_mamba(Kept& kept, const LanguageConfig& c) {
  const std::int64_t inner = c.mamba_inner(), channels = c.conv_channels();
  kept.values += 2 * inner + 3 * channels + c.mamba_n_heads;
  kept.statistics += 2 * channels + 6 * inner + 4 * c.mamba_n_heads;
}

// What the convolution reads and gives, and what its activation gives, gates, corrections and decays; values
// in f32, keys and queries before and behind their norms, what the rule gives, the norm, and what the output
// projection reads.
void add_delta_net(Kept& kept, const LanguageConfig& c) {
  const std::int64_t keys = c.linear_num_key_heads * c.linear_key_head_dim,
                     values = c.linear_num_value_heads * c.linear_value_head_dim;
  kept.values += 3 * c.conv_channels() + 4 * values + 2 * c.linear_num_value_heads;
  kept.statistics += 4 * keys + 2 * values + 7 * c.linear_num_value_heads + 2 * c.linear_num_key_heads;
}

// What the activation reads and what the matmul behind it reads.
void add_mlp(Kept& kept, const LanguageConfig& c, const Keeping& how) {
  const std::int64_t width = c.intermediate_size;
  kept.values += (is_gated(c.mlp) ? 2 : 1) * width;
  const bool again = how.selective && (how.on_cpu || c.mlp != MlpKind::gelu);
  if (!again) kept.values += width;
  // gelu(gate), where it is an operation of its own: a GPU has one kernel for what is behind gate and up.
  if (c.mlp == MlpKind::geglu && how.on_cpu && !how.selective) kept.values += width;
}

// The rows of each token's experts: sorted for them, gate and up, the matmuls of these, and the results in
// the tokens' order. Of the router its probabilities and what it chose.
void add_experts(Kept& kept, const LanguageConfig& c, const Keeping& how) {
  const std::int64_t choices = c.num_experts_per_tok, width = c.moe_intermediate_size,
                     inputs = is_gated(c.mlp) ? 2 : 1;
  kept.values += choices * (inputs * width + c.hidden_size);
  if (!how.selective) kept.values += choices * (c.hidden_size + width);
  // Where gpt-oss' SwiGLU is a chain of operations: what it cut, and its factors.
  if (c.swiglu_limit > 0 && how.on_cpu && !how.selective) kept.values += 4 * choices * width;
  kept.statistics += c.num_experts;
  kept.indices += 3 * choices;
  if (c.norm_topk_prob) kept.statistics += choices + 1;
  if (!c.norm_topk_prob || !how.selective || how.dtype != DType::f32) kept.values += choices;
  // Gate and up of the shared expert, and what its last matmul reads.
  kept.values += (how.selective ? inputs : inputs + 1) * c.shared_expert_intermediate_size;
}

// Mean and scale of a row.
std::int64_t statistics_of_norm(const LanguageConfig& c) { return c.norm == NormKind::rms ? 1 : 2; }

// The inputs of the norms, and what the matmuls behind them read.
Kept kept_by_layer(const LanguageConfig& c, std::int64_t layer, const Keeping& how) {
  Kept kept;
  const std::int64_t norms = c.norm_placement == NormPlacement::sandwich ? 4 : 2,
                     products = how.selective ? 0 : 2;
  kept.values = (norms + products) * c.hidden_size;
  kept.statistics = norms * statistics_of_norm(c);
  if (c.attends(layer)) add_attention(kept, c, how);
  if (c.convolves(layer)) add_convolution(kept, c, how);
  if (c.scans(layer)) add_mamba(kept, c);
  if (c.corrects(layer)) add_delta_net(kept, c);
  if (c.is_sparse(layer)) {
    add_experts(kept, c, how);
  } else if (c.has_mlp(layer) && !how.chunks) {
    add_mlp(kept, c, how);
  }
  return kept;
}

Keeping keeping(const TrainConfig& config, std::size_t tokens, bool on_gpu) {
  return {.selective = config.recompute == Recompute::selective,
          .on_cpu = !on_gpu,
          .dtype = config.dtype,
          .chunks = config.mlp_chunk > 0 && static_cast<std::size_t>(config.mlp_chunk) < tokens};
}

struct Activations {
  std::size_t kept = 0;   // bytes of each token, from the forward for the backward pass
  std::size_t again = 0;  // besides, while the largest layer runs again
};

// The host's memory is the device's own on a CPU.
bool leaves(Offload to, bool on_gpu) { return to == Offload::disk || (to == Offload::cpu && on_gpu); }

// Inputs of layers that are there at once where the others are elsewhere: one comes, one is used.
constexpr std::int64_t kInputsThere = 2;

Activations activations_per_token(const LanguageConfig& c, const TrainConfig& config, const Keeping& how) {
  const std::size_t hidden = static_cast<std::size_t>(c.hidden_size) * byte_size(config.dtype);
  // The last norm's input and what it found of it, and the loss's gradient.
  const std::size_t last = 2 * hidden + static_cast<std::size_t>(statistics_of_norm(c)) * sizeof(float);
  std::size_t layers = 0, largest = 0;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::size_t layer = kept_by_layer(c, i, how).bytes(config.dtype);
    layers += layer;
    largest = std::max(largest, layer);
  }
  if (config.recompute != Recompute::full) return {.kept = layers + last};
  const std::int64_t there = leaves(config.offload_activations, !how.on_cpu)
                                 ? std::min(c.num_hidden_layers, kInputsThere)
                                 : c.num_hidden_layers;
  return {.kept = static_cast<std::size_t>(there) * hidden + last, .again = largest - hidden};
}

// Numbers of each token that are there besides while an MLP is differentiated: the gradient of what its last
// matmul reads, those of gate and up that are made from it, and what that matmul reads where it was made
// again (else it has been released by then). The rows of experts take as much as all of these.
std::int64_t gradients_of_mlp(const LanguageConfig& c, bool selective) {
  return ((is_gated(c.mlp) ? 2 : 1) + (selective ? 1 : 0)) * std::max(c.intermediate_size, c.hidden_size);
}

std::size_t gradients_per_token(const LanguageConfig& c, const Keeping& how) {
  std::int64_t widest = 0;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    widest = std::max(
        widest, c.is_sparse(i) ? 3 * c.num_experts_per_tok * std::max(c.moe_intermediate_size, c.hidden_size)
                               : gradients_of_mlp(c, how.selective));
  }
  return static_cast<std::size_t>(widest + c.hidden_size);
}

// Where MLPs go through some rows at a time: beside those of the rows there are gradients of the residual
// stream and of the input; or, without the norm and input of the MLP, of what mixed the tokens.
std::int64_t gradients_beside_chunks(const LanguageConfig& c, std::int64_t layer, const Keeping& how) {
  Keeping plain = how;
  plain.selective = true;  // norms of heads have theirs one after the other
  Kept mixed;
  if (c.attends(layer)) add_attention(mixed, c, plain);
  if (c.convolves(layer)) add_convolution(mixed, c, plain);
  if (c.scans(layer)) add_mamba(mixed, c);
  if (c.corrects(layer)) add_delta_net(mixed, c);
  return std::max(2 * c.hidden_size, mixed.values + mixed.statistics - c.hidden_size);
}

std::size_t most_gradients_per_token(const LanguageConfig& c, const Keeping& how) {
  if (!how.chunks || c.num_experts > 0) return gradients_per_token(c, how);
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    most = std::max(most, gradients_beside_chunks(c, i, how));
  return static_cast<std::size_t>(most);
}

// Of one row while a chunk of an MLP is differentiated: what it keeps, and gradients.
std::size_t bytes_of_chunk_row(const LanguageConfig& c, const Keeping& how) {
  Keeping plain = how;
  plain.selective = false;  // a chunk runs again as a whole
  Kept kept;
  add_mlp(kept, c, plain);
  kept.values += gradients_of_mlp(c, false) + 2 * c.hidden_size;
  return kept.bytes(how.dtype);
}

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
    codes = config.adapter.enabled ? count : count - (model.vocab_size + positions) * model.hidden_size;
  }
  const std::int64_t bytes =
      count * master + moments * (4 * (count - codes) + codes + 4 * kernels::moment_blocks(codes));
  return static_cast<std::size_t>(bytes);
}

// The layers' weights shared out among ranks, two layers, and what is of none.
std::size_t shared_out_bytes(const LanguageConfig& model, std::size_t ranks, std::size_t size) {
  const auto outside = static_cast<std::size_t>((model.tie_word_embeddings ? 1 : 2) * model.vocab_size *
                                                model.embedding_size());
  const std::size_t inside = static_cast<std::size_t>(model.parameter_count()) - outside;
  const std::size_t layer = inside / static_cast<std::size_t>(model.num_hidden_layers);
  return (outside + std::min(inside, inside / ranks + 2 * layer)) * size;
}

// `own`: of all gradients in the dtype of the parameters.
std::size_t gradient_bytes(const TrainConfig& config, std::size_t own, std::size_t ranks) {
  const std::size_t bucket = std::min(own, config.bucket_bytes());
  const bool sums = config.adds_every_round() && config.gradient_accumulation_steps > 1;
  if (ranks == 1) return sums ? 2 * own : own;  // the sums of micro-batches lie beside the gradients of each
  const std::size_t part = config.zero_stage > 0 ? own / ranks : own;
  // What a bucket's all-to-all receives; and those that are made, wait and are sent, where nothing stays.
  if (config.zero_stage >= 2) return part + 5 * bucket;
  return own + (sums ? part : 0) + bucket;
}

// The state of the largest matrix that Muon steps, which it does as a whole: its momentum and the f32 master.
std::size_t largest_whole_state(const TrainConfig& config, const LanguageConfig& c) {
  if (!config.optimizer.name.ends_with("muon") || config.adapter.enabled) return 0;
  const std::int64_t widest =
      std::max({c.intermediate_size, c.num_attention_heads * c.head_dim, 2 * c.mamba_inner()});
  const std::size_t bytes = is_half_precision(config.dtype) ? 2 * sizeof(float) : sizeof(float);
  return static_cast<std::size_t>(c.hidden_size * widest) * bytes;
}

// Two layers are there, and the others are not. A mapped file's pages count as memory while they are in use.
void offload_weights(MemoryPlan& plan, const TrainConfig& config, const LanguageConfig& model) {
  if (!leaves(config.offload_weights, plan.on_gpu)) return;
  const std::size_t all = config.adapter.layer_bytes(model, config.dtype),
                    layers = static_cast<std::size_t>(model.num_hidden_layers);
  plan.offloaded_weights = std::min(all, plan.parameters);
  plan.parameters += std::min(plan.offloaded_weights, 2 * all / layers);
  plan.parameters -= plan.offloaded_weights;
}

// The state lies elsewhere, and on a GPU two windows of it come while the activations are not there.
void offload_optimizer(MemoryPlan& plan, Offload to, std::size_t largest_whole) {
  if (!leaves(to, plan.on_gpu)) return;
  plan.offloaded = std::exchange(plan.optimizer, 0);
  const std::size_t moving = plan.activations + plan.transients;
  const std::size_t window = std::max(offload_window(plan.offloaded), largest_whole);
  const std::size_t windows = plan.on_gpu ? std::min(plan.offloaded, 2 * window) : 0;
  plan.transients += windows - std::min(windows, moving);
}

}  // namespace

std::vector<std::pair<std::string, std::size_t>> MemoryPlan::parts() const {
  std::vector<std::pair<std::string, std::size_t>> list{
      {"parameters", parameters},   {"reference model", reference}, {"teacher", teacher},
      {"gradients", gradients},     {"optimizer", optimizer},       {"ema", ema},
      {"activations", activations}, {"transients", transients}};
  std::ranges::sort(list, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::erase_if(list, [](const auto& part) { return part.second == 0; });
  return list;
}

namespace {

// `logits`: the bytes that those of a chunk may take.
MemoryPlan plan(const TrainConfig& config, const LanguageConfig& model, const BackendCapabilities& on,
                std::int64_t logits, int ranks) {
  const bool on_gpu = !on.host_memory;
  const auto count = static_cast<std::size_t>(model.parameter_count());
  const std::size_t size = byte_size(config.dtype);
  // Both answers of a pair go through the model together.
  const std::int64_t rows = config.objective.preferences() == data::PreferenceKind::pair ? 2 : 1;
  const auto tokens =
      static_cast<std::size_t>(rows * config.per_device_train_batch_size * config.sequence_len);
  const auto hidden = static_cast<std::size_t>(model.hidden_size);
  MemoryPlan plan;
  plan.on_gpu = on_gpu;
  const AdapterTraining& adapter = config.adapter;
  const auto trained = adapter.enabled ? static_cast<std::size_t>(adapter.parameter_count(model)) : count;
  plan.parameters =
      adapter.enabled ? adapter.base_bytes(model, config.dtype) + trained * sizeof(float) : count * size;
  if (config.zero_stage == 3 && ranks > 1) {
    plan.start = plan.parameters + plan.parameters / static_cast<std::size_t>(ranks);
    plan.parameters = shared_out_bytes(model, static_cast<std::size_t>(ranks), size);
  }
  offload_weights(plan, config, model);
  if (ReferenceModel::is_copied(config)) plan.reference = plan.parameters;
  plan.teacher = teacher_bytes(config.distillation, config.dtype);
  plan.gradients = gradient_bytes(config, trained * (adapter.enabled ? sizeof(float) : size),
                                  static_cast<std::size_t>(ranks));
  plan.optimizer = optimizer_bytes(config, model, static_cast<std::int64_t>(trained));
  if (config.zero_stage > 0) plan.optimizer /= static_cast<std::size_t>(ranks);
  plan.ema = config.ema_decay > 0 ? trained * 4 : 0;
  const Keeping how = keeping(config, tokens, on_gpu);
  Activations activations = activations_per_token(model, config, how);
  const std::size_t scaled = static_cast<std::size_t>(adapter.kept_per_token(model)) * size;
  if (config.recompute == Recompute::full)
    activations.again += scaled / static_cast<std::size_t>(model.num_hidden_layers);
  else
    activations.kept += scaled;
  const RecipeMemory recipe = recipe_memory(config, model, tokens);
  if (config.recompute == Recompute::full)
    activations.again += recipe.kept_per_token / static_cast<std::size_t>(model.num_hidden_layers);
  else
    activations.kept += recipe.kept_per_token;
  plan.activations = tokens * activations.kept;
  if (config.recompute == Recompute::full && leaves(config.offload_activations, on_gpu))
    plan.offloaded_activations = tokens * static_cast<std::size_t>(model.num_hidden_layers) * hidden * size;
  const std::size_t gradients = most_gradients_per_token(model, how);
  const std::size_t chunk_rows =
      how.chunks ? static_cast<std::size_t>(config.mlp_chunk) * bytes_of_chunk_row(model, how) : 0;
  const auto chunk_tokens = static_cast<std::size_t>(
      linear_cross_entropy_chunk(static_cast<std::int64_t>(tokens), model.vocab_size, config.dtype, logits));
  const std::size_t chunk = std::min(tokens, chunk_tokens) * static_cast<std::size_t>(model.vocab_size);
  // The fused loss makes the head's gradient in the forward pass; tied or not, one [vocab, hidden] matrix
  // more, and another where it has the weight with classes behind it.
  const bool padded = linear_cross_entropy_classes(model.vocab_size, on.matmul_alignment) != model.vocab_size;
  const std::size_t head = static_cast<std::size_t>(model.vocab_size) * hidden * (padded ? 2 : 1);
  plan.transients = std::max(tokens * (activations.again + gradients * size) + chunk_rows + recipe.product,
                             (tokens * hidden + chunk + head) * size);
  offload_optimizer(plan, config.optimizer.offload, largest_whole_state(config, model));
  return plan;
}

}  // namespace

std::size_t MemoryPlan::needed() const {
  const std::size_t moving = on_gpu ? activations + transients : total();
  return std::max(total() + moving / 10, start);
}

MemoryPlan plan_memory(const TrainConfig& config, const LanguageConfig& model, int ranks) {
  const Device device = config.training_device();
  return plan(config, model, backend(device).capabilities(), logits_budget(device), ranks);
}

MemoryPlan plan_memory_of_gpu(const TrainConfig& config, const LanguageConfig& model, std::size_t memory,
                              int ranks) {
  const BackendCapabilities of_gpus{.fuses_projections = true, .matmul_alignment = 64};
  return plan(config, model, of_gpus, logits_budget_of_gpu(memory), ranks);
}

std::string memory_advice(const MemoryPlan& plan, const TrainConfig& config) {
  if (plan.activations + plan.transients > plan.needed() / 3) {
    constexpr std::int64_t kChunk = 2048;
    std::string smaller = "a smaller per_device_train_batch_size with more gradient_accumulation_steps";
    if (config.mlp_chunk == 0 && config.per_device_train_batch_size * config.sequence_len > 2 * kChunk)
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
  std::string parts;
  for (const auto& [what, bytes] : plan.parts()) {
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", human_bytes(bytes), what);
  }
  throw OutOfMemory(
      fmt::format("this run needs about {} ({}) and {} are free; to make it fit: {}", human_bytes(needed),
                  parts, human_bytes(available), memory_advice(plan, config)),
      needed, 0, available);
}

}  // namespace ingot
