#include "ingot/train/language/language_task.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/base/file_memory.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/parallel.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/dist/agreement.h"
#include "ingot/dist/device_ranks.h"
#include "ingot/dist/ordered_sum.h"
#include "ingot/dist/processors.h"
#include "ingot/infer/generation_file.h"
#include "ingot/kernels/bf16_dot_products.h"
#include "ingot/models/config_file.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/language/vocabulary.h"
#include "ingot/nn/expert_linear.h"
#include "ingot/nn/with_values.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/train/data_parallel.h"
#include "ingot/train/language/checkpoint.h"
#include "ingot/train/language/expert_sharing.h"
#include "ingot/train/language/frozen_matrices.h"
#include "ingot/train/language/language_trainer.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/train/language/new_tokens.h"
#include "ingot/train/language/planning/memory_limit.h"
#include "ingot/train/language/router_report.h"
#include "ingot/train/language/run_settings.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

LanguageConfig finish_architecture(const TrainConfig& config, const text::Tokenizer& tokenizer) {
  LanguageConfig model = config.architecture;
  if (model.vocab_size == 0) model.vocab_size = tokenizer.vocab_size();
  INGOT_CHECK(
      model.vocab_size >= tokenizer.vocab_size(),
      InvalidConfig("architecture.vocab_size", fmt::format("{} is less than the tokenizer's {} ids",
                                                           model.vocab_size, tokenizer.vocab_size())));
  model.bos_token_id = tokenizer.bos_id().value_or(-1);
  model.eos_token_id = tokenizer.eos_id().value_or(-1);
  model.dtype = config.dtype;
  model.max_position_embeddings = std::max(model.max_position_embeddings, config.sequence_len);
  return model;
}

std::unique_ptr<LanguageModel> make_model(const TrainConfig& config, const text::Tokenizer& tokenizer,
                                          const LanguageCheckpoint* checkpoint,
                                          const std::map<std::string, Tensor>& adapters, Device device) {
  const MemoryTagScope tag(MemoryTag::parameter);
  if (checkpoint != nullptr) {
    LoadOptions options;
    options.device = device;
    options.copy = false;
    TensorMapSource source(checkpoint->weights, options, "the checkpoint");
    auto model = std::make_unique<LanguageModel>(checkpoint->config, source);
    source.finish();
    return model;
  }
  if (config.adapter.enabled)
    return load_adapted_model(config.model, config.adapter, config.dtype, device, config.seed, adapters);
  if (!config.from_scratch) {
    auto model = load_language_model(config.model, {.dtype = config.dtype, .device = device});
    if (!new_token_ids(config, tokenizer).empty()) grow_vocabulary(*model, tokenizer.vocab_size());
    return model;
  }
  InitSource source(config.seed, config.dtype, device);
  return std::make_unique<LanguageModel>(finish_architecture(config, tokenizer), source);
}

// A file that says so was trained with noise that no run here makes.
void warn_of_noise(const std::string& model) {
  const ModelCheckpoint checkpoint = open_checkpoint(model);
  double noise = 0;
  ConfigFile(checkpoint.config_json, checkpoint.config_path).read("input_jitter_noise", noise);
  if (noise > 0)
    log(LogLevel::warn, "ingot::train",
        fmt::format("{}: input_jitter_noise {}: this run makes no noise, and its experts are chosen as in "
                    "inference, without sampling",
                    checkpoint.config_path, noise));
}

std::int64_t count_steps(const TrainConfig& config, double steps_per_epoch) {
  if (config.max_steps > 0) return config.max_steps;
  return std::max<std::int64_t>(1, std::llround(config.num_epochs * steps_per_epoch));
}

std::vector<std::string> paths_of(const std::vector<DatasetConfig>& datasets) {
  std::vector<std::string> paths;
  paths.reserve(datasets.size());
  for (const DatasetConfig& dataset : datasets) paths.push_back(dataset.path);
  return paths;
}

}  // namespace

LanguageTask::LanguageTask(TrainConfig config, const std::optional<SavedCheckpoint>& saved,
                           SampleFunction sample, dist::Communicator& communicator)
    : config_(std::move(config)), sample_(std::move(sample)), communicator_(communicator) {
  // Preparing may take one rank longer than a step ever does.
  if (config_.ddp_timeout == 0 || config_.ddp_timeout > communicator_.timeout())
    communicator_.set_timeout(config_.ddp_timeout);
  const dist::Preparing preparing(communicator_);
  precision_.emplace(kernels::parse_matmul_precision(config_.matmul_precision));
  if (config_.threads > 0)
    set_num_threads(static_cast<int>(config_.threads));
  else if (communicator_.local_size() > 1)
    dist::share_threads(communicator_.local_size());
  set_detect_anomaly(config_.detect_anomaly);
  device_ = dist::choose_rank_device(communicator_, config_.device);
  dist::connect_devices(communicator_, device_);
  check_data_paths(config_);  // all of them, before a tokenizer is trained on some
  std::optional<LanguageCheckpoint> checkpoint;
  std::map<std::string, Tensor> adapters;
  if (saved.has_value()) check_same_adapter(*saved);
  if (saved.has_value() && config_.adapter.enabled) adapters = saved->tensors(kAdapterFile);
  if (saved.has_value() && !config_.adapter.enabled) checkpoint = load_checkpoint(*saved);
  tokenizer_ = saved.has_value() ? text::Tokenizer::from_directory(saved->path()) : run_tokenizer(config_);
  train_new_tokens(config_, *tokenizer_, communicator_.is_first());
  const LanguageConfig planned = architecture(checkpoint.has_value() ? &*checkpoint : nullptr);
  if (config_.shares_experts()) check_expert_ranks(config_, planned, communicator_.size());
  if (!config_.from_scratch) generation_config_ = infer::kept_generation_config(config_.model, *tokenizer_);
  if (!communicator_.is_first()) communicator_.barrier();  // the first makes what is cached
  data_ = prepare_data(config_, *tokenizer_);
  if (communicator_.is_first()) communicator_.barrier();
  choose_memory(planned);
  fault_point("train.load");
  // The first rank of a machine packs the base, and the others map its cache.
  const bool packs = config_.adapter.quantizes_base() && communicator_.size() > 1;
  if (packs && communicator_.local_rank() > 0) communicator_.barrier();
  model_ = make_model(config_, *tokenizer_, checkpoint.has_value() ? &*checkpoint : nullptr, adapters,
                      offloads(config_.offload_weights) ? kCpu : device_);
  if (packs && communicator_.local_rank() == 0) communicator_.barrier();
  if (model_->config.router_score == RouterScore::sparse_mixer && !config_.from_scratch &&
      communicator_.rank() == 0)
    warn_of_noise(config_.model);
  INGOT_CHECK(model_->config.vocab_size >= data_.max_token() + 1,
              InvalidConfig("tokenizer", fmt::format("its ids reach {}, but the model's vocabulary has {}",
                                                     data_.max_token(), model_->config.vocab_size)));
  check_room();
  offload_weights();
  offload_activations();
  flops_per_token_ = model_->config.training_flops_per_token(config_.sequence_len);
  if (config_.adapter.enabled) flops_per_token_ *= 2.0 / 3;  // no gradients of the base's weights
  if (communicator_.size() > 1) check_rows_for(config_, data_, communicator_.size());
  epochs_per_step_ = 1 / steps_per_epoch(config_, data_, communicator_.size());
  total_steps_ = count_steps(config_, 1 / epochs_per_step_);
  if (config_.objective.has_reference())  // before the optimizer, which takes what trains
    reference_ = std::make_unique<ReferenceModel>(config_, *model_);
  schedule_ = std::make_shared<LrSchedule>(run_schedule(config_, total_steps_));
  if (communicator_.size() > 1) checksum_ = weights_checksum(*model_);  // before they are shared out
  check_offload_of_gradients();
  share_out_weights();
  optimizer_ = std::make_unique<TrainOptimizer>(
      *model_, config_.optimizer, [schedule = schedule_](std::int64_t step) { return (*schedule)(step); },
      config_.ema_decay, ranks_of_optimizer(), config_.output_dir);
  if (optimizer_->weights() != nullptr) model_->lease = optimizer_->weights();
  if (offloaded_weights_ != nullptr) optimizer_->set_offloaded(*offloaded_weights_);
  objective_ = make_objective({.config = config_,
                               .data = data_,
                               .model = *model_,
                               .tokenizer = *tokenizer_,
                               .reference = reference_.get(),
                               .optimizer = *optimizer_,
                               .communicator = communicator_});
  watch_routers();
  check_ranks_agree();
  communicator_.barrier();
  communicator_.set_timeout(config_.ddp_timeout);
}

void LanguageTask::share_out_experts() {
  const auto size = static_cast<int>(config_.expert_parallel_size);
  if (communicator_.size() > size) {
    expert_group_ = communicator_.split(communicator_.rank() / size);
    expert_peers_ = communicator_.split(communicator_.rank() % size);
    // An adapter that the run goes on from may have them, whatever lora_target_modules says.
    INGOT_CHECK(
        !config_.ordered_gradients || expert_parameters(*model_).empty(),
        InvalidConfig("expert_parallel_size",
                      fmt::format("is {}, but lora_model_dir has adapters of experts, and with "
                                  "ordered_gradients the {} processes have to be one group; write {}, "
                                  "or leave ordered_gradients out",
                                  size, communicator_.size(), communicator_.size())));
  }
  INGOT_CHECK(
      !config_.ordered_gradients || !config_.adapter.enabled || config_.adapter.lora.lora_dropout == 0 ||
          expert_parameters(*model_).empty(),
      InvalidConfig("expert_parallel_size",
                    fmt::format("is {}, but lora_model_dir has adapters of experts, which would drop other "
                                "elements than in one process with ordered_gradients and lora_dropout; write "
                                "lora_dropout: 0, or leave ordered_gradients out",
                                size)));
  expert_ranks_ = std::make_shared<ExpertParallel>(expert_group_ != nullptr ? *expert_group_ : communicator_,
                                                   *gathering_);
  for (const auto& layer : model_->layers)
    if (layer->experts != nullptr) layer->experts->share_out(expert_ranks_, config_.ordered_gradients);
  backend(device_).trim();
}

void LanguageTask::watch_routers() {
  auto statistics = std::make_unique<RouterStatistics>(*model_);
  if (statistics->layers().empty()) return;
  router_statistics_ = std::move(statistics);
  model_->router_statistics = router_statistics_.get();
}

void LanguageTask::share_out_weights() {
  if (shares_weights() || config_.shares_experts())
    gathering_ = std::make_unique<dist::Background>(GatheredBlocks::kMostWaiting);
  if (config_.shares_experts()) share_out_experts();
  if (!shares_weights()) return;
  if (reference_ != nullptr) reference_->share_out(communicator_, *gathering_);
  if (!config_.adapter.enabled) return;
  frozen_shards_ = std::make_unique<FrozenShards>(frozen_matrices(*model_), communicator_, *gathering_);
  model_->lease = frozen_shards_.get();
}

// On a CPU the host's memory is where they are anyway.
bool LanguageTask::offloads(Offload to) const {
  return to == Offload::disk || (to == Offload::cpu && !has_host_memory(device_));
}

void LanguageTask::check_offload_of_gradients() const {
  if (config_.optimizer.gradients == Offload::none) return;
  const auto [key, reason] = config_.offload_gradients_obstacle(communicator_.size());
  INGOT_CHECK(key.empty(),
              InvalidConfig("offload_gradients",
                            fmt::format("is not supported with {}: {}; write none", key, reason)));
}

void LanguageTask::offload_activations() {
  if (!offloads(config_.offload_activations)) return;
  offloaded_activations_ = std::make_unique<OffloadedActivations>(
      device_, OffloadConfig{.to = config_.offload_activations, .directory = config_.output_dir});
  model_->layer_inputs = offloaded_activations_.get();
}

void LanguageTask::offload_weights() {
  if (!offloads(config_.offload_weights)) return;
  const auto [key, reason] =
      config_.offload_weights_obstacle(model_->config, has_host_memory(device_), communicator_.size());
  INGOT_CHECK(
      key.empty(),
      InvalidConfig("offload_weights", fmt::format("is not supported with {}: {}; write none", key, reason)));
  std::vector<ModuleRef> layers;
  layers.reserve(model_->layers.size());
  for (const auto& layer : model_->layers) layers.emplace_back(*layer);
  offloaded_weights_ = std::make_unique<OffloadedWeights>(
      *model_, layers, device_,
      OffloadConfig{.to = config_.offload_weights, .directory = config_.output_dir});
  model_->lease = offloaded_weights_.get();
}

// Of the weights that were loaded: what was not left in a mapped file.
std::size_t LanguageTask::loaded_bytes() const {
  std::size_t bytes = 0;
  for (const Parameter* parameter : parameters(*model_)) {
    const View values = parameter->value.view();
    if (!is_file_memory(values.data, parameter->value.nbytes())) bytes += parameter->value.nbytes();
  }
  return bytes;
}

// Ranks that share a device share what it has free.
std::size_t LanguageTask::free_bytes() const {
  const bool shared = has_host_memory(device_) || config_.device.find(':') != std::string::npos;
  const int sharing = shared ? communicator_.local_size() : 1;
  return backend(device_).memory_info().free / static_cast<std::size_t>(sharing);
}

LanguageConfig LanguageTask::architecture(const LanguageCheckpoint* checkpoint) const {
  if (checkpoint != nullptr) return checkpoint->config;
  if (config_.from_scratch) return finish_architecture(config_, *tokenizer_);
  return with_new_tokens(planned_architecture(config_), config_, *tokenizer_);
}

// Before the model is loaded, as that depends on what is chosen.
void LanguageTask::choose_memory(const LanguageConfig& model) {
  if (!config_.memory_limit.is_on()) return;
  const PlannedPlace place{.ranks = communicator_.size(),
                           .local_ranks = communicator_.local_size(),
                           .agree = [this](bool yes) { return !communicator_.any(!yes); }};
  chosen_from_ = smallest(free_bytes());
  log(LogLevel::info, "ingot::train", fit_into_memory(config_, model, chosen_from_, place));
}

// Before anything but the model is there.
void LanguageTask::check_room() {
  const int here = communicator_.local_size(), ranks = communicator_.size();
  const std::size_t free = free_bytes();
  const std::size_t loaded =
      offloads(config_.offload_weights) ? loaded_bytes() : 0;  // which move, and leave their place
  const std::size_t there_already = model_->device() != device_ ? 0
                                    : offloads(config_.offload_weights)
                                        ? loaded
                                        : plan_memory(config_, model_->config).parameters;  // not shared yet
  // What was chosen to fit is held against the same number.
  const std::size_t there = config_.memory_limit.is_on() ? chosen_from_ : smallest(free + there_already);
  model_->recompute = config_.recompute;
  model_->set_mlp_chunk(config_.mlp_chunk);
  recipe_ = put_recipe(*model_, config_);
  if (config_.router_aux_loss_coef >= 0) model_->config.router_aux_loss_coef = config_.router_aux_loss_coef;
  check_memory(plan_memory(config_, model_->config, ranks), config_, there, here, loaded);
}

// Of all ranks, so that they choose alike.
std::size_t LanguageTask::smallest(std::size_t bytes) {
  std::vector<std::size_t> all(static_cast<std::size_t>(communicator_.size()));
  communicator_.all_gather(std::as_bytes(std::span(&bytes, 1)), std::as_writable_bytes(std::span(all)));
  return *std::ranges::min_element(all);
}

std::optional<OptimizerShard::Options> LanguageTask::ranks_of_optimizer() const {
  if (config_.zero_stage == 0) return std::nullopt;
  OptimizerShard::Options options{.communicator = &communicator_,
                                  .stage = static_cast<int>(config_.zero_stage),
                                  .bucket_bytes = config_.bucket_bytes(),
                                  .background = gathering_.get(),
                                  .experts = {},
                                  .expert_group = static_cast<int>(config_.expert_parallel_size),
                                  .expert_peers = expert_peers_.get()};
  if (expert_ranks_ != nullptr) options.experts = expert_parameters(*model_);
  if (options.stage < 3 || config_.adapter.enabled) return options;  // adapters are little
  std::map<const Parameter*, std::int64_t> layer_of;
  for (std::size_t i = 0; i < model_->layers.size(); ++i)
    for (const Parameter* parameter : parameters(*model_->layers[i]))
      layer_of[parameter] = static_cast<std::int64_t>(i);
  for (Parameter* parameter : parameters(*model_)) {
    const auto found = layer_of.find(parameter);
    if (!parameter->trainable() || std::ranges::count(options.experts, parameter) > 0) continue;
    // Vectors take little, and recomputation asks for those of layers before.
    const bool is_shared_out = found != layer_of.end() && parameter->shape().rank() > 1;
    options.blocks.push_back(is_shared_out ? found->second : -1);
  }
  return options;
}

// All weights, or those of adapters and of modules that are saved with them. The first rank gets those that
// ranks have parts of.
std::map<std::string, Tensor> LanguageTask::gathered_weights() {
  std::map<std::string, Tensor> weights =
      config_.adapter.enabled ? trained_parameters(*model_) : parameter_map(*model_);
  if (offloaded_weights_ != nullptr)
    for (auto& [name, value] : offloaded_weights_->trained()) weights[name] = value;
  if (optimizer_->weights() != nullptr) gather_layers(weights);
  if (expert_ranks_ != nullptr)
    for (auto& [name, value] : optimizer_->shard()->gather_experts()) weights[name] = value;
  return weights;
}

// One after the other.
void LanguageTask::gather_layers(std::map<std::string, Tensor>& weights) {
  const bool on_host = backend(device_).capabilities().host_memory;
  model_->lease->begin();
  for (std::int64_t i = 0; i < optimizer_->weights()->blocks(); ++i) {
    const LeasedBlock leased(model_->lease, i);
    if (!communicator_.is_first()) continue;
    for (const Parameter* parameter : parameters(*model_->layers[static_cast<std::size_t>(i)]))
      if (parameter->trainable())
        weights[parameter->name] =
            on_host ? clone(parameter->value.detach()) : to(parameter->value.detach(), kCpu);
  }
}

void LanguageTask::plan(std::int64_t total_steps) {
  total_steps_ = total_steps;
  *schedule_ = run_schedule(config_, total_steps);
}

// What every rank must have alike, by the keys of the configuration.
void LanguageTask::check_ranks_agree() const {
  if (communicator_.size() == 1) return;
  dist::Settings settings = rank_settings(config_);
  settings.emplace_back("max_steps", std::to_string(total_steps_));
  settings.emplace_back("datasets", objective_->position().fingerprint);
  settings.emplace_back("model", checksum_);
  dist::check_agreement(communicator_, settings,
                        "start every rank with the same configuration, data and weights");
  if (config_.dtype != DType::bf16) return;
  const char* const matmuls = !has_host_memory(device_)          ? "of the GPU"
                              : kernels::use_bf16_dot_products() ? "dot products of bf16"
                                                                 : "widened to f32";
  dist::check_agreement(communicator_, {{"matmuls of bf16", matmuls}},
                        "start every rank on the same kind of device, and with INGOT_BF16_DOT_PRODUCTS=0 "
                        "where their processors differ");
}

StepWork LanguageTask::gradients(std::int64_t step, const StopCheck& stops) {
  communicator_.set_activity(fmt::format("step {}", step + 1));
  if (router_statistics_ != nullptr) router_statistics_->begin();
  StepWork work = objective_->gradients(step, stops);
  if (router_statistics_ != nullptr) work.metrics = with_router_sums(work.metrics);
  if (recipe_ != nullptr) end_recipe_step(*recipe_, communicator_);
  return work;
}

void LanguageTask::read(std::span<const float> metrics, StepRecord& record) {
  if (router_statistics_ == nullptr) return objective_->read(metrics, record);
  const std::span<const float> sums =
      metrics.last(static_cast<std::size_t>(router_statistics_->sums().numel()));
  objective_->read(metrics.first(metrics.size() - sums.size()), record);
  report_routers(sums, router_statistics_->experts(), model_->config.num_experts_per_tok,
                 expert_ranks_ != nullptr ? expert_ranks_->size() : 1, record);
}

// Behind the objective's own, of all ranks together.
Tensor LanguageTask::with_router_sums(const Tensor& metrics) const {
  const NoGrad no_grad;
  const Tensor& sums = router_statistics_->sums();
  if (communicator_.size() > 1) {
    backend(device_).synchronize(current_stream(device_));
    dist::all_reduce(communicator_, sums);
  }
  return concat(std::vector{reshape(metrics, {-1}), sums});
}

std::optional<double> LanguageTask::evaluate(const StopCheck& stops) {
  communicator_.set_activity("the evaluation");
  return objective_->evaluate(stops);
}

RunInfo LanguageTask::info() const {
  const LanguageConfig& c = model_->config;
  const std::string recipe = recipe_summary(config_, device_);
  RunMetadata metadata;
  metadata.seeds = {{"train_seed", config_.seed}};
  metadata.data = {{"datasets", data_.fingerprint()}};
  metadata.processes = communicator_.size();
  return {.name = config_.run_name,
          .output_dir = config_.output_dir,
          .subtitle = fmt::format("{} layers, width {}, {} heads, vocabulary {}{}{}", c.num_hidden_layers,
                                  c.hidden_size, c.num_attention_heads, c.vocab_size,
                                  recipe.empty() ? "" : ", ", recipe),
          .model_type = c.model_type,
          .parameters = c.parameter_count(),
          .loss_unit = objective_->loss_unit(),
          .tracking = config_.tracking,
          .metadata = std::move(metadata),
          .logging_steps = config_.logging_steps,
          .value_layers = router_statistics_ != nullptr ? router_layer_names(*router_statistics_)
                                                        : std::vector<std::string>{}};
}

void LanguageTask::write_model(const std::string& path) {
  std::map<std::string, Tensor> weights =
      optimizer_->has_ema() ? optimizer_->ema_weights() : gathered_weights();
  if (!communicator_.is_first()) return;
  AtomicDirectory directory(path);
  if (config_.adapter.enabled) {
    write_trained_adapter(directory.path(), *model_, config_.adapter, weights);
    tokenizer_->save_directory(directory.path());
    return directory.commit();
  }
  for (auto& [name, tensor] : weights) tensor = to(tensor, kCpu);
  write_trained_model(directory.path(), model_->config, weights, *tokenizer_, generation_config_);
  directory.commit();
}

StepSize LanguageTask::step_size() const {
  StepSize size = objective_->step_size();
  size.flops = size.tokens * flops_per_token_;
  size.epochs = epochs_per_step_;
  return size;
}

std::string LanguageTask::divergence_advice() const {
  return "lower learning_rate, or find the operation with detect_anomaly: true";
}

std::vector<SampleRecord> LanguageTask::samples(std::int64_t step) {
  const WithValues with_values(config_.trains_in_halves());
  std::vector<SampleRecord> records;
  if (config_.sample_prompts.empty()) return records;
  // The first rank alone writes, so all layers are there meanwhile.
  const LeasedBlocks all(shares_weights() ? model_->lease : nullptr, model_->layers.size());
  if (!sample_ || !communicator_.is_first()) return records;
  for (const std::string& prompt : config_.sample_prompts)
    records.push_back({step, prompt, sample_(*model_, *tokenizer_, prompt)});
  return records;
}

// Before files of the checkpoint are missed and shapes differ.
void LanguageTask::check_same_adapter(const SavedCheckpoint& saved) const {
  const auto begun = parse_json_or_discard<Json>(saved.state());
  if (!begun.is_object() || !begun.contains("config")) return;  // which Trainer::resume tells
  Json adapter;
  const Json now = parse_json<Json>(settings(), "the settings");
  for (const char* key :
       {"adapter", "base_format", "lora_r", "lora_alpha", "lora_use_rslora", "tokens", "special_tokens"})
    if (now.contains(key)) adapter[key] = now.at(key);
  check_same_settings(dump_json(begun.at("config")), dump_json(adapter), earlier_settings(), saved.path());
}

std::string LanguageTask::state() const {
  return dump_json(Json{{"seed", config_.seed},
                        {"tokens_per_step", config_.tokens_per_step()},
                        {"datasets", paths_of(config_.datasets)},
                        {"data", parse_json<Json>(objective_->position().to_json(), "the data's position")}});
}

void LanguageTask::save(Checkpoint& checkpoint) {
  std::map<std::string, Tensor> weights = gathered_weights();
  if (!communicator_.is_first()) return;  // all have the same
  checkpoint.tensors[kObjectiveFile] = objective_->state();
  if (recipe_ != nullptr) checkpoint.tensors[kRecipeFile] = recipe_->state();
  checkpoint.tensors[config_.adapter.enabled ? kAdapterFile : kModelFile] = std::move(weights);
}

std::string LanguageTask::write(const CheckpointDirectory& directory, std::int64_t step,
                                const Checkpoint& checkpoint) const {
  if (!config_.adapter.enabled)
    return save_checkpoint(directory, step, checkpoint, model_->config, *tokenizer_, generation_config_);
  return directory.write(step, checkpoint, [&](const AtomicDirectory& files) {
    write_trained_adapter(files.path(), *model_, config_.adapter, checkpoint.tensors.at(kAdapterFile));
    tokenizer_->save_directory(files.path());
  });
}

// The model has the checkpoint's weights already.
void LanguageTask::restore(const SavedCheckpoint& saved, TrainProgress& /*progress*/) {
  const Json json = parse_json<Json>(saved.state(), saved.state_path());
  const data::DataState position = data::DataState::from_json(dump_json(json.at("data")), saved.state_path());
  const auto before = json.value("datasets", std::vector<std::string>{});
  INGOT_CHECK(
      position.fingerprint == objective_->position().fingerprint,
      InvalidConfig("datasets",
                    fmt::format("[{}] do not hold the text that the run in {} was begun with{}; "
                                "give that, or begin anew elsewhere",
                                fmt::join(paths_of(config_.datasets), ", "), saved.path(),
                                before.empty() ? "" : fmt::format(" ([{}])", fmt::join(before, ", ")))));
  objective_->restore(position);
  objective_->load_state(saved.tensors(kObjectiveFile));
  if (recipe_ != nullptr) recipe_->load(saved.tensors(kRecipeFile));
}

}  // namespace ingot
