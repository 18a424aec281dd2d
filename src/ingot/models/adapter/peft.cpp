#include "ingot/models/adapter/peft.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/suggest.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/models/adapter/peft_experts.h"
#include "ingot/models/adapter/token_rows.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

constexpr const char* kConfigFile = "adapter_config.json";
constexpr std::string_view kPrefix = kPeftPrefix;

std::string weights_file(const std::string& directory) {
  for (const char* name : {"adapter_model.safetensors", "adapter_model.bin"}) {
    const std::string path = directory + "/" + name;
    if (std::filesystem::exists(path)) return path;
  }
  throw IoError(directory, "holds neither adapter_model.safetensors nor adapter_model.bin");
}

// "base_model.model.x.lora_A.weight" as ("x", "lora_A"); names of older files have the adapter's between.
std::pair<std::string, std::string> split_name(std::string name) {
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  for (const char* part : {".lora_A", ".lora_B", ".lora_embedding_A", ".lora_embedding_B",
                           ".lora_magnitude_vector", ".modules_to_save", ".token_adapter", ".base_layer"}) {
    const std::size_t at = name.find(part);
    if (at == std::string::npos) continue;
    const char end =
        at + std::string_view(part).size() < name.size() ? name[at + std::string_view(part).size()] : '.';
    if (end == '.') return {name.substr(0, at), part + 1};
  }
  const std::size_t last = name.rfind('.');
  return {name.substr(0, last), last == std::string::npos ? "" : name.substr(last + 1)};
}

// The module's name as the rules of the family have it.
std::string canonical_module(const WeightMap& map, const std::string& module) {
  const std::string name = map.canonical(module + ".weight");
  return name.substr(0, name.size() - std::string_view(".weight").size());
}

Tensor transposed(const std::string& file, const std::string& name, const Tensor& matrix) {
  INGOT_CHECK(
      matrix.rank() == 2,
      FormatError(file, 0, name, fmt::format("is {}; a matrix was expected", to_string(matrix.shape()))));
  return contiguous(transpose(matrix, 0, 1));
}

std::map<std::string, ModuleTensors> read_modules(const std::string& file, const WeightMap& map) {
  const auto source = open_weights(file);
  std::map<std::string, ModuleTensors> modules;
  for (const TensorInfo& info : source->tensors()) {
    const auto [module, part] = split_name(info.name);
    ModuleTensors& tensors = modules[canonical_module(map, module)];
    tensors.embedding = tensors.embedding || part.starts_with("lora_embedding_");
    const Tensor tensor = source->load_tensor(info.name);
    if (part == "lora_A")
      tensors.a = tensor;
    else if (part == "lora_B")
      tensors.b = tensor;
    else if (part ==
             "lora_embedding_A")  // [r, tokens]: of the embedding's [tokens, width] it is the left matrix
      tensors.b = transposed(file, info.name, tensor);
    else if (part == "lora_embedding_B")
      tensors.a = transposed(file, info.name, tensor);
    else if (part == "token_adapter")
      tensors.tokens = tensor;
    else if (part == "lora_magnitude_vector")
      tensors.magnitude = tensor;
    else if (info.name.ends_with(".weight"))
      tensors.whole = tensor;
    else
      throw NotImplemented(
          fmt::format("{}: {}: adapters are matrices lora_A and lora_B, or whole weights", file, info.name));
  }
  INGOT_CHECK(!modules.empty(),
              FormatError(file, -1, "lora_A",
                          "is missing: the file holds no tensors, so this adapter would change nothing; "
                          "expected lora_A.weight and lora_B.weight of every module it adapts. Save the "
                          "trained adapter again"));
  return modules;
}

[[noreturn]] void refuse_module(const std::string& file, const std::string& module,
                                std::span<const AdaptedWeight> weights) {
  std::vector<std::string> names;
  names.reserve(weights.size());
  for (const AdaptedWeight& weight : weights) names.push_back(weight.module);
  throw Error(fmt::format(
      "{}: has an adapter for '{}', which this model does not have{}; is it of another base model?", file,
      module, did_you_mean(module, names)));
}

void check_magnitude(const std::string& file, const std::string& module, const ModuleTensors& tensors,
                     bool use_dora) {
  const bool given = tensors.magnitude.defined();
  INGOT_CHECK(given == use_dora,
              FormatError(file, 0, module,
                          given ? "has a lora_magnitude_vector, and adapter_config.json no use_dora"
                                : "lacks the lora_magnitude_vector that use_dora needs"));
  INGOT_CHECK(!given || tensors.magnitude.numel() == tensors.b.dim(0),
              FormatError(file, 0, module,
                          fmt::format("has a lora_magnitude_vector {}, and its lora_B {}",
                                      to_string(tensors.magnitude.shape()), to_string(tensors.b.shape()))));
}

void check_shapes(const std::string& file, const std::string& module, const ModuleTensors& tensors,
                  const AdaptedWeight& weight) {
  INGOT_CHECK(tensors.a.defined() && tensors.b.defined(),
              FormatError(file, 0, module,
                          fmt::format("has lora_{} without lora_{}", tensors.a.defined() ? 'A' : 'B',
                                      tensors.a.defined() ? 'B' : 'A')));
  INGOT_CHECK(tensors.a.rank() != 2 || tensors.a.dim(0) > 0,
              FormatError(file, 0, module,
                          fmt::format("has lora_A {}: its rank is 0, so it would change nothing",
                                      to_string(tensors.a.shape()))));
  const Shape shape = weight.whole_shape();
  const auto fits = [&] {
    if (tensors.a.rank() != 2 || tensors.b.rank() != 2 || tensors.a.dim(0) != tensors.b.dim(1)) return false;
    const std::int64_t out = tensors.b.dim(0), groups = std::max<std::int64_t>(weight.groups, 1);
    return tensors.a.dim(1) == shape[1] &&
           (weight.rows == 0 ? out == shape[0]
                             : out % groups == 0 && out / groups >= weight.first + weight.rows);
  };
  if (fits()) return;
  throw Error(fmt::format(
      "{}: the adapter of '{}' has lora_A {} and lora_B {}, and the model's matrix is {}; is it "
      "of another base model?",
      file, module, to_string(tensors.a.shape()), to_string(tensors.b.shape()), to_string(shape)));
}

// The rows of a module's matrix (or vector) that are the weight's.
Tensor own_rows(const AdaptedWeight& at, const Tensor& module) {
  if (at.rows == 0) return module;
  if (at.groups == 0) return narrow(module, 0, at.first, at.rows);
  const Tensor groups = reshape(contiguous(module), {at.groups, module.dim(0) / at.groups, -1});
  return reshape(contiguous(narrow(groups, 1, at.first, at.rows)),
                 module.shape().with(0, at.groups * at.rows));
}

// What this rank has of something that goes with an axis of the matrix, and is split along its own.
Tensor own_part(const AdaptedWeight& at, const Tensor& x, int axis_of_matrix, int axis) {
  if (!at.part.has_value() || at.part->axis != axis_of_matrix) return x;
  return narrow(x, axis, at.part->begin, at.part->end - at.part->begin);
}

Tensor own_magnitude(const AdaptedWeight& at, const Tensor& magnitude) {
  INGOT_CHECK(
      !at.part.has_value() || at.part->axis != 1,
      NotImplemented(fmt::format("DoRA of '{}', whose rows ranks have together; merge the adapter into "
                                 "the model (ingot merge)",
                                 at.ours)));
  return own_part(at, own_rows(at, reshape(magnitude, {magnitude.numel()})), 0, 0);
}

std::unique_ptr<LowRankAdapter> pair_of(const AdaptedWeight& at, const ModuleTensors& tensors,
                                        const std::string& name, float scale, float weight) {
  const Device device = at.weight->device();
  const auto moved = [device](const Tensor& x) { return clone(contiguous(to(to(x, DType::f32), device))); };
  GivenMatrices given(moved(own_part(at, tensors.a, 1, 1)),
                      moved(own_part(at, own_rows(at, tensors.b), 0, 0)));
  auto adapter = std::make_unique<LowRankAdapter>(ParamSource(given).scope(at.ours), name, at.weight->shape(),
                                                  tensors.a.dim(0), scale);
  adapter->weight = weight;
  if (tensors.magnitude.defined())
    adapter->decompose(*at.weight, moved(own_magnitude(at, tensors.magnitude)));
  return adapter;
}

// trainable_token_indices: rows as they were trained.
std::unique_ptr<LowRankAdapter> rows_of_tokens(const std::string& file, const AdaptedWeight& at,
                                               const Tensor& values, const LoraConfig& config,
                                               const std::string& name) {
  const std::vector<std::int64_t> tokens = config.token_rows(at.module, at.ours == "model.embed_tokens");
  INGOT_CHECK(
      has_token_rows(at) && !at.part.has_value(),
      NotImplemented(fmt::format("{}: rows of '{}' that are trained by themselves{}; merge the adapter "
                                 "into the model (ingot merge)",
                                 file, at.module, at.part.has_value() ? ", under tensor parallelism" : "")));
  INGOT_CHECK(
      values.rank() == 2 && values.dim(0) == std::ssize(tokens) && values.dim(1) == at.weight->in(),
      FormatError(file, 0, at.module,
                  fmt::format("has rows of tokens {}; [{}, {}] were expected, by trainable_token_indices and "
                              "the model's width",
                              to_string(values.shape()), tokens.size(), at.weight->in())));
  return token_row_adapter(at, token_rows_name(name), tokens, values);
}

// modules_to_save: the weight as it was trained.
Tensor value_of_whole(const std::string& file, const std::string& module, const Tensor& whole,
                      const WeightMap& map, const AdaptedWeight& at) {
  INGOT_CHECK(!at.weight->is_quantized(),
              Error(fmt::format("{}: replaces '{}', which is quantized in this model", file, module)));
  WeightRule rule = map.rule_for(at.ours + ".weight");
  const Tensor value = import_tensor(rule, [&whole](const std::string&) { return whole; });
  INGOT_CHECK(value.defined() && value.shape() == at.whole_shape(),
              ShapeMismatch(fmt::format("{}: {}", file, module), at.whole_shape().to_vector(),
                            whole.shape().to_vector(), "the model's matrix is another"));
  const DType dtype = at.weight->dense.value.dtype();
  const Tensor own = own_part(at, own_part(at, value, 0, 0), 1, 1);
  return clone(to(to(own, dtype), at.weight->device()));
}

}  // namespace

bool is_peft_adapter(const std::string& path) { return std::filesystem::exists(path + "/" + kConfigFile); }

std::int64_t vocabulary_of_peft_adapter(const WeightMap& map, const std::string& directory) {
  const std::string config_path = directory + "/" + kConfigFile;
  const LoraConfig config = LoraConfig::from_json(read_file(config_path), config_path);
  std::int64_t most = 0;
  for (const auto& [module, rows] : config.trainable_token_indices)
    for (const std::int64_t row : rows) most = std::max(most, row + 1);
  if (config.modules_to_save.empty()) return most;
  const auto source = open_weights(weights_file(directory));
  for (const char* ours : {"model.embed_tokens.weight", "lm_head.weight"}) {
    const std::string theirs = map.rule_for(ours).theirs;
    for (const TensorInfo& info : source->tensors()) {
      const auto [module, part] = split_name(info.name);
      const bool whole = part == "weight" || part == "modules_to_save";
      if (whole && info.shape.size() == 2 && canonical_module(map, module) + ".weight" == theirs)
        most = std::max(most, info.shape[0]);
    }
  }
  return most;
}

AdapterFile read_peft_file(const WeightMap& map, const std::string& directory) {
  const std::string config_path = directory + "/" + kConfigFile;
  LoraConfig config = LoraConfig::from_json(read_file(config_path), config_path);
  std::string file = weights_file(directory);
  auto modules = read_modules(file, map);
  return {.path = std::move(file), .config = std::move(config), .modules = std::move(modules)};
}

void check_adapter(const AdaptedParts& parts, const AdapterFile& file) {
  const std::span<const AdaptedWeight> weights = parts.weights;
  const std::set<std::string> of_experts = modules_of_experts(parts.experts);
  for (const auto& [module, tensors] : file.modules) {
    if (of_experts.contains(module)) continue;
    bool found = false;
    for (const AdaptedWeight& at : weights) {
      if (at.module != module) continue;
      found = true;
      if (!tensors.a.defined() && !tensors.b.defined()) {
        INGOT_CHECK(!tensors.magnitude.defined(), FormatError(file.path, 0, module,
                                                              "has a lora_magnitude_vector without lora_A "
                                                              "and lora_B"));
        continue;
      }
      check_shapes(file.path, module, tensors, at);
      check_magnitude(file.path, module, tensors, file.config.use_dora);
    }
    if (!found) refuse_module(file.path, module, weights);
  }
}

PeftAdapter place_adapter(const AdaptedParts& parts, const WeightMap& map, AdapterFile read,
                          const std::string& name, float weight) {
  const NoGrad no_grad;
  check_adapter(parts, read);
  PeftAdapter adapter{.config = read.config, .pairs = {}, .experts = {}, .wholes = {}};
  const std::span<const AdaptedWeight> weights = parts.weights;
  const LoraConfig& config = adapter.config;
  const std::string& file = read.path;
  const bool tied = std::ranges::none_of(
      weights, [](const AdaptedWeight& at) { return at.is_head && !at.weight->dense.embedding; });
  for (const ExpertStacks& stacks : take_expert_stacks(file, read.modules, parts.experts, config))
    adapter.experts.emplace_back(stacks.at->experts, expert_adapter(stacks, name, weight));
  for (const std::string& module : modules_of_experts(parts.experts))
    INGOT_CHECK(!read.modules.contains(module),
                FormatError(file, 0, module,
                            "is of experts, and target_parameters of adapter_config.json does not name it"));
  for (const auto& [module, tensors] : read.modules) {
    for (const AdaptedWeight& at : weights) {
      if (at.module != module) continue;
      if (tensors.whole.defined())
        adapter.wholes.push_back(
            {.weight = at.weight, .value = value_of_whole(file, module, tensors.whole, map, at)});
      if (tensors.tokens.defined()) {
        adapter.pairs.emplace_back(at.weight, rows_of_tokens(file, at, tensors.tokens, config, name));
        adapter.pairs.back().second->weight = weight;
      }
      if (!tensors.a.defined()) continue;
      if (at.weight->dense.embedding && tied)
        throw NotImplemented(
            fmt::format("{}: an adapter of the embeddings ('{}') that are the head, too", file, module));
      adapter.pairs.emplace_back(
          at.weight, pair_of(at, tensors, name, config.scale_of(module, tensors.a.dim(0)), weight));
    }
  }
  return adapter;
}

PeftAdapter open_peft_adapter(const AdaptedParts& parts, const WeightMap& map, const std::string& directory,
                              const std::string& name, float weight) {
  return place_adapter(parts, map, read_peft_file(map, directory), name, weight);
}

std::size_t PeftAdapter::nbytes() const {
  std::size_t bytes = 0;
  for (const LowRankAdapter* pair : all_pairs()) {
    bytes += pair->a.value.nbytes() + pair->b.value.nbytes();
    if (pair->magnitude) bytes += pair->magnitude.value.nbytes();
  }
  return bytes;
}

std::vector<LowRankAdapter*> PeftAdapter::all_pairs() const {
  std::vector<LowRankAdapter*> all;
  for (const auto& [weight, pair] : pairs) all.push_back(pair.get());
  for (const auto& [stack, pair] : experts) all.push_back(pair.get());
  return all;
}

void put_on(PeftAdapter adapter) {
  for (const PeftAdapter::Whole& whole : adapter.wholes) whole.weight->dense.replace(whole.value);
  for (auto& [weight, pair] : adapter.pairs) weight->add_adapter(std::move(pair));
  for (auto& [stack, pair] : adapter.experts) add_adapter(stack->adapters, std::move(pair));
}

LoraConfig read_peft_adapter(AdaptedModel model, const std::string& directory, const std::string& name,
                             float weight) {
  PeftAdapter adapter = open_peft_adapter(AdaptedParts(model), model.map, directory, name, weight);
  LoraConfig config = adapter.config;
  put_on(std::move(adapter));
  return config;
}

namespace {

struct Part {
  AdaptedWeight at;
  const LowRankAdapter* adapter;
};

using Values = std::map<std::string, Tensor>;

// The reverse of own_rows(), of all parts of a module.
Tensor rows_of_module(const std::vector<Part>& parts, const std::vector<Tensor>& rows) {
  const std::int64_t groups = parts.front().at.groups;
  if (groups == 0) return concat(rows, 0);
  std::vector<Tensor> grouped;
  grouped.reserve(rows.size());
  std::int64_t count = 0;
  for (const Tensor& own : rows) {
    grouped.push_back(reshape(contiguous(own), {groups, own.dim(0) / groups, -1}));
    count += own.dim(0);
  }
  return reshape(concat(grouped, 1), rows.front().shape().with(0, count));
}

// The adapters of a module's parts as one: rows of A concatenated, B with a block for each part.
ModuleTensors joined(const std::vector<Part>& parts, const Values& values) {
  const auto f32 = [&values](const Parameter& parameter) {
    return parameter ? to(value_of(parameter, values), DType::f32) : Tensor{};
  };
  if (parts.size() == 1) {
    const LowRankAdapter& one = *parts.front().adapter;
    return {f32(one.a), f32(one.b), f32(one.magnitude), {}};
  }
  std::vector<Tensor> a, b, magnitudes;
  std::int64_t rank = 0;
  for (const Part& part : parts) rank += part.adapter->a.value.dim(0);
  std::int64_t first = 0;
  for (const Part& part : parts) {
    a.push_back(f32(part.adapter->a));
    const Tensor own = f32(part.adapter->b), block = Tensor::zeros({own.dim(0), rank});
    copy_(narrow(block, 1, first, own.dim(1)), own);
    b.push_back(block);
    if (part.adapter->magnitude) magnitudes.push_back(f32(part.adapter->magnitude));
    first += own.dim(1);
  }
  return {concat(a, 0),
          rows_of_module(parts, b),
          magnitudes.empty() ? Tensor{} : rows_of_module(parts, magnitudes),
          {}};
}

float scale_of(const Part& part) { return part.adapter->scale * part.adapter->weight; }

void check_parts(const std::string& module, const std::vector<Part>& parts) {
  std::int64_t next = 0;
  for (const Part& part : parts) {
    INGOT_CHECK(part.at.rows == 0 || part.at.first == next,
                NotImplemented(fmt::format(
                    "an adapter of a part of '{}' alone; target all that is fused there", module)));
    INGOT_CHECK(part.adapter->weight == 1 || !part.adapter->magnitude,
                NotImplemented(fmt::format("writing the DoRA of '{}' with a weight of {}; merge it instead",
                                           module, part.adapter->weight)));
    INGOT_CHECK(scale_of(part) == scale_of(parts.front()),
                NotImplemented(fmt::format("adapters of parts of '{}' with different scales", module)));
    next += part.at.rows;
  }
}

void put_module(const std::string& module, const ModuleTensors& one, std::map<std::string, Tensor>& tensors) {
  const std::string prefix = std::string(kPrefix) + module;
  if (one.whole.defined()) tensors[prefix + ".weight"] = one.whole;
  if (one.tokens.defined()) tensors[prefix + ".token_adapter.trainable_tokens_delta"] = one.tokens;
  if (!one.a.defined()) return;
  if (one.embedding) {
    tensors[prefix + ".lora_embedding_A"] = contiguous(transpose(one.b, 0, 1));
    tensors[prefix + ".lora_embedding_B"] = contiguous(transpose(one.a, 0, 1));
    return;
  }
  tensors[prefix + ".lora_A.weight"] = contiguous(one.a);
  tensors[prefix + ".lora_B.weight"] = contiguous(one.b);
  if (one.magnitude.defined()) tensors[prefix + ".lora_magnitude_vector"] = one.magnitude;
}

}  // namespace

void write_peft_file(const std::string& directory, const AdapterFile& file) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [module, one] : file.modules) put_module(module, one, tensors);
  write_safetensors(directory + "/adapter_model.safetensors", tensors);
  write_file_atomically(directory + "/" + kConfigFile, file.config.to_json());
}

void write_peft_adapter(const std::string& directory, AdaptedModel model, const LoraConfig& config,
                        const std::string& name, const std::map<std::string, Tensor>& values) {
  const NoGrad no_grad;
  LoraConfig written = config;
  written.target_regex.clear();
  written.target_modules.clear();
  written.target_parameters.clear();
  written.trainable_token_indices.clear();
  written.exclude_modules.clear();
  written.layers_to_transform.clear();
  written.rank_pattern.clear();
  written.alpha_pattern.clear();
  std::map<std::string, std::vector<Part>> modules;
  std::map<std::string, Tensor> saved, tensors;
  for (const AdaptedWeight& at : adapted_weights(model)) {
    if (const LowRankAdapter* adapter = at.weight->find_adapter(name))
      modules[at.module].push_back({at, adapter});
    if (config.saves(at.module)) saved[at.ours + ".weight"] = value_of(at.weight->dense, values);
    if (const LowRankAdapter* rows = at.weight->find_adapter(token_rows_name(name))) {
      ModuleTensors own;
      own.tokens = values_of_token_rows(at, *rows, value_of(rows->a, values));
      put_module(at.module, own, tensors);
      written.trainable_token_indices[at.module] = rows->tokens;
    }
  }
  for (const auto& [theirs, whole] : export_tensors(model.map, saved))
    tensors[std::string(kPrefix) + theirs] = whole;
  for (const auto& [module, parts] : modules) {
    check_parts(module, parts);
    ModuleTensors one = joined(parts, values);
    one.embedding = parts.front().at.weight->dense.embedding;
    put_module(module, one, tensors);
    written.target_modules.push_back(module);
    // What the pattern rules give for this rank, or else a rule of its own.
    const std::int64_t rank = one.a.dim(0);
    const float scale = scale_of(parts.front());
    if (rank != written.r) written.rank_pattern[module] = rank;
    if (written.scale_of(module, rank) != scale) {
      const auto of = static_cast<double>(rank);
      written.alpha_pattern[module] = static_cast<double>(scale) * (written.use_rslora ? std::sqrt(of) : of);
    }
  }
  const std::vector<AdaptedExperts> experts = adapted_experts(model);
  const std::vector<ExpertStacks> stacks = expert_stacks(experts, name, values);
  INGOT_CHECK(!modules.empty() || !stacks.empty(),
              Error(fmt::format("this model has no adapter '{}'", name)));
  std::map<std::string, ModuleTensors> of_experts;
  put_expert_stacks(model.map, experts, stacks, written, of_experts);
  for (const auto& [module, one] : of_experts) put_module(module, one, tensors);
  write_safetensors(directory + "/adapter_model.safetensors", tensors);
  write_file_atomically(directory + "/" + kConfigFile, written.to_json());
}

}  // namespace ingot
