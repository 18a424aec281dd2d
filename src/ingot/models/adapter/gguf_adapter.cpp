#include "ingot/models/adapter/gguf_adapter.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
#include "ingot/models/adapter/gguf_experts.h"
#include "ingot/models/adapter/gguf_rows.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/weights/gguf.h"
#include "ingot/weights/gguf_writer.h"

namespace ingot {
namespace {

constexpr const char *kType = "general.type", *kArchitecture = "general.architecture",
                     *kAdapterType = "adapter.type", *kAlpha = "adapter.lora.alpha",
                     *kInvocation = "adapter.alora.invocation_tokens";
constexpr std::string_view kEmbedding = "token_embd.weight", kWeightSuffix = ".weight";

std::map<std::string, ModuleSize> module_sizes(const AdapterBase& base) {
  std::map<std::string, ModuleSize> sizes;
  for (const AdaptedWeight& at : base.parts.weights) {
    const Shape shape = at.whole_shape();
    ModuleSize& size = sizes[at.module];
    size.columns = shape[1];
    const std::int64_t parts = std::max<std::int64_t>(at.groups, 1);
    size.rows = std::max(size.rows, at.rows == 0 ? shape[0] : (at.first + at.rows) * parts);
    size.transposed = base.map.rule_for(at.ours + std::string(kWeightSuffix)).transposed;
  }
  return sizes;
}

Tensor f32(const Tensor& x) { return contiguous(to(x, DType::f32)); }

struct Pair {
  Tensor a, b;
};

std::map<std::string, Pair> read_pairs(const GgufSource& source) {
  std::map<std::string, Pair> pairs;
  for (const TensorInfo& info : source.tensors()) {
    const auto part = [&](std::string_view ending) -> std::optional<std::string> {
      if (!info.name.ends_with(ending)) return std::nullopt;
      return info.name.substr(0, info.name.size() - ending.size());
    };
    if (const auto name = part(".lora_a"))
      pairs[*name].a = source.load_tensor(info.name);
    else if (const auto name_b = part(".lora_b"))
      pairs[*name_b].b = source.load_tensor(info.name);
    else
      throw NotImplemented(fmt::format("{}: {}: tensors of adapters are pairs of .lora_a and .lora_b",
                                       source.location(), info.name));
  }
  INGOT_CHECK(!pairs.empty(), FormatError(source.location(), -1, "lora_a",
                                          "is missing: the file holds no tensors, so this adapter would "
                                          "change nothing; convert the trained adapter again"));
  for (const auto& [name, pair] : pairs) {
    INGOT_CHECK(
        pair.a.defined() && pair.b.defined(),
        FormatError(source.location(), 0, name + (pair.a.defined() ? ".lora_b" : ".lora_a"),
                    fmt::format("is missing beside {}{}", name, pair.a.defined() ? ".lora_a" : ".lora_b")));
    INGOT_CHECK(
        (pair.a.rank() == 2 || pair.a.rank() == 3) && pair.b.rank() == pair.a.rank(),
        FormatError(source.location(), 0, name,
                    fmt::format("has lora_a {} and lora_b {}; two matrices, or two stacks of those of "
                                "experts, were expected",
                                to_string(pair.a.shape()), to_string(pair.b.shape()))));
  }
  return pairs;
}

void check_metadata(const GgufSource& source, std::string_view architecture) {
  const GgufMetadata& fields = source.fields();
  const auto expect = [&](const char* key, std::string_view wanted, std::string_view advice) {
    const std::string found = fields.text(key).value_or("");
    INGOT_CHECK(found == wanted,
                FormatError(source.location(), -1, key,
                            fmt::format("is '{}'; '{}' was expected{}", found, wanted, advice)));
  };
  expect(kType, "adapter", ": the file is not a LoRA adapter");
  expect(kAdapterType, "lora", "");
  expect(kArchitecture, architecture, ", the base model's; is the adapter of another base model?");
  INGOT_CHECK(fields.find(kInvocation) == nullptr,
              NotImplemented(fmt::format("{}: {}: activated LoRA", source.location(), kInvocation)));
}

// The pairs of one module's parts as one: rows of a concatenated, b with a block for each. llama.cpp divides
// alpha by the rank of each part, and the module's is their sum: where there is an alpha, b makes up for it.
ModuleTensors module_of(const std::string& file, const std::string& module, const ModuleSize& size,
                        const std::vector<GgufRows>& parts, const std::map<std::string, Pair>& pairs,
                        double alpha) {
  std::vector<Tensor> a;
  std::vector<std::pair<const GgufRows*, Tensor>> b;
  std::int64_t rank = 0;
  bool embedding = false;
  for (const GgufRows& part : parts) {
    const auto found = pairs.find(part.name);
    if (found == pairs.end()) continue;
    Pair pair = found->second;
    embedding = part.name == kEmbedding;
    if (embedding) pair = {contiguous(transpose(pair.b, 0, 1)), pair.a};
    const auto rows = static_cast<std::int64_t>(part.rows.size());
    INGOT_CHECK(pair.a.dim(0) > 0 && pair.a.dim(0) == pair.b.dim(1) && pair.a.dim(1) == size.columns &&
                    pair.b.dim(0) == rows,
                Error(fmt::format("{}: the adapter of '{}' ({}) has lora_a {} and lora_b {}, and the model's "
                                  "matrix is [{}, {}]; is it of another base model?",
                                  file, part.name, module, to_string(found->second.a.shape()),
                                  to_string(found->second.b.shape()), rows, size.columns)));
    a.push_back(f32(pair.a));
    b.emplace_back(&part, pair.b);
    rank += pair.a.dim(0);
  }
  ModuleTensors tensors{
      .a = concat(a, 0), .b = Tensor::zeros({size.rows, rank}), .magnitude = {}, .whole = {}};
  tensors.embedding = embedding;
  std::int64_t first = 0;
  for (const auto& [part, values] : b) {
    const std::int64_t own = values.dim(1);
    const double scale = alpha == 0 ? 1 : static_cast<double>(rank) / static_cast<double>(own);
    rows_from_gguf(values, *part, first, static_cast<float>(scale), tensors.b);
    first += own;
  }
  return tensors;
}

[[noreturn]] void refuse_tensor(const std::string& file, const std::string& name, const GgufFamily& family,
                                const std::map<std::string, ModuleSize>& modules) {
  std::vector<std::string> names;
  for (const auto& [module, size] : modules)
    if (const auto match = match_hugging_face_name(family, module + std::string(kWeightSuffix)))
      names.push_back(match->gguf());
  throw Error(
      fmt::format("{}: has an adapter for '{}', which this model does not have{}; is it of another "
                  "base model?",
                  file, name, did_you_mean(name, names)));
}

// `stacks`: of experts, which may be all there is.
LoraConfig config_of(const std::map<std::string, ModuleTensors>& modules,
                     const std::vector<ExpertStacks>& stacks, double alpha) {
  LoraConfig config;
  config.r = modules.empty() ? stacks.front().a.dim(1) : modules.begin()->second.a.dim(0);
  config.lora_alpha = alpha;
  for (const auto& [module, tensors] : modules) {
    const std::int64_t rank = tensors.a.dim(0);
    config.target_modules.push_back(module);
    if (rank != config.r) config.rank_pattern[module] = rank;
    if (alpha == 0) config.alpha_pattern[module] = static_cast<double>(rank);  // llama.cpp's scale of 1
  }
  config.validate();
  return config;
}

// Takes what is of experts out of the pairs.
std::vector<ExpertStacks> take_stacks(const AdapterBase& base, const GgufSource& source,
                                      std::map<std::string, Pair>& pairs, double alpha) {
  std::vector<ExpertStacks> stacks;
  if (std::ranges::none_of(pairs, [](const auto& pair) { return pair.second.a.rank() == 3; })) return stacks;
  for (const AdaptedExperts& at : base.parts.experts) {
    const GgufRows rows = experts_in_gguf(base, source.location(), at);
    const auto found = pairs.find(rows.name);
    if (found == pairs.end() || found->second.a.rank() != 3) continue;
    const auto& [a, b] = found->second;
    stacks.push_back(stacks_of_gguf(source.location(), at, rows, a, b, alpha));
    pairs.erase(found);
  }
  return stacks;
}

}  // namespace

bool is_gguf_path(const std::string& path) {
  std::error_code missing;
  return path.ends_with(".gguf") && std::filesystem::is_regular_file(path, missing);
}

bool is_gguf_adapter(const std::string& path) {
  return is_gguf_path(path) && open_gguf(path)->fields().text(kType) == "adapter";
}

AdapterFile read_gguf_adapter(const AdapterBase& base, const std::string& path) {
  const NoGrad no_grad;
  const auto source = open_gguf(path);
  const GgufFamily family = gguf_family_of(base.config, path);
  check_metadata(*source, family.architecture);
  const double alpha = source->fields().number(kAlpha).value_or(0);
  std::map<std::string, Pair> pairs = read_pairs(*source);
  const std::vector<ExpertStacks> stacks = take_stacks(base, *source, pairs, alpha);
  const std::map<std::string, ModuleSize> sizes = module_sizes(base);
  std::map<std::string, std::vector<GgufRows>> known;
  for (const auto& [name, pair] : pairs) {
    const auto match = match_gguf_name(family, name);
    std::string module = match ? base.map.canonical(match->hugging_face()) : std::string();
    if (module.ends_with(kWeightSuffix)) module.resize(module.size() - kWeightSuffix.size());
    const auto size = sizes.find(module);
    if (size == sizes.end() || pair.a.rank() != 2) refuse_tensor(path, name, family, sizes);
    if (!known.contains(module))
      known[module] = rows_in_gguf(base, path, module, {module + std::string(kWeightSuffix)}, size->second);
    if (std::ranges::find(known.at(module), name, &GgufRows::name) == known.at(module).end())
      refuse_tensor(path, name, family, sizes);
  }
  AdapterFile file{.path = path, .config = {}, .modules = {}};
  for (const auto& [module, parts] : known)
    file.modules[module] = module_of(path, module, sizes.at(module), parts, pairs, alpha);
  file.config = config_of(file.modules, stacks, alpha);
  put_expert_stacks(base.map, base.parts.experts, stacks, file.config, file.modules);
  return file;
}

namespace {

void check_writable(const std::string& file, const std::string& module, const ModuleTensors& tensors) {
  INGOT_CHECK(!tensors.magnitude.defined(),
              NotImplemented(fmt::format("{}: '{}' has a DoRA magnitude, which GGUF adapters have no place "
                                         "for; merge the adapter into the model (ingot merge)",
                                         file, module)));
  INGOT_CHECK(
      !tensors.whole.defined(),
      NotImplemented(fmt::format("{}: replaces '{}' as a whole (modules_to_save), which GGUF adapters "
                                 "have no place for; merge the adapter into the model (ingot merge)",
                                 file, module)));
  INGOT_CHECK(
      !tensors.tokens.defined(),
      NotImplemented(fmt::format("{}: has rows of '{}' that were trained by themselves, which GGUF adapters "
                                 "have no place for; merge the adapter into the model (ingot merge)",
                                 file, module)));
  INGOT_CHECK(tensors.a.defined() && tensors.b.defined(),
              FormatError(file, 0, module, "lacks lora_A or lora_B"));
}

}  // namespace

std::uint64_t write_gguf_adapter(const std::string& path, const AdapterBase& base, const AdapterFile& file,
                                 std::optional<DType> dtype) {
  const NoGrad no_grad;
  const std::map<std::string, ModuleSize> sizes = module_sizes(base);
  std::optional<double> alpha;
  std::vector<GgufTensor> tensors;
  std::uint64_t bytes = 0;
  const auto add = [&](const std::string& name, const Tensor& values, DType as) {
    const Tensor stored = contiguous(to(values, as));
    bytes += stored.nbytes();
    tensors.push_back(GgufTensor::of(StoredTensor::of(name, stored)));
  };
  // What a module's b is multiplied with besides alpha / rank.
  const auto factor = [&](float scale, std::int64_t rank) {
    const double own = static_cast<double>(scale) * static_cast<double>(rank);
    // llama.cpp takes an alpha of 0 for a scale of 1.
    if (!alpha) alpha = own == 0 ? 1 : own;
    return static_cast<float>(own / *alpha);
  };
  std::map<std::string, ModuleTensors> modules = file.modules;
  const std::vector<ExpertStacks> stacks =
      take_expert_stacks(file.path, modules, base.parts.experts, file.config);
  for (const auto& [module, pair] : modules) {
    check_writable(file.path, module, pair);
    INGOT_CHECK(sizes.contains(module),
                FormatError(file.path, 0, module,
                            "is of experts, and target_parameters of adapter_config.json does not name it"));
    const std::int64_t rank = pair.a.dim(0);
    const float scale = factor(file.config.scale_of(module, rank), rank);
    const DType as = dtype.value_or(pair.a.dtype());
    for (const GgufRows& at :
         rows_in_gguf(base, file.path, module, {module + std::string(kWeightSuffix)}, sizes.at(module))) {
      const Tensor b = rows_to_gguf(pair.b, at, scale);
      const bool exchanged = at.name == kEmbedding;
      add(at.name + ".lora_a", exchanged ? b : pair.a, as);
      add(at.name + ".lora_b", exchanged ? transpose(pair.a, 0, 1) : b, as);
    }
  }
  for (const ExpertStacks& one : stacks) {
    const GgufRows rows = experts_in_gguf(base, file.path, *one.at);
    const DType as = dtype.value_or(one.a.dtype());
    add(rows.name + ".lora_a", one.a, as);
    add(rows.name + ".lora_b", expert_rows_to_gguf(one.b, rows, factor(one.scale, one.a.dim(1))), as);
  }
  GgufMetadata metadata(path);
  metadata.append(kArchitecture,
                  GgufValue::of_string(std::string(gguf_family_of(base.config, file.path).architecture)));
  metadata.append(kType, GgufValue::of_string("adapter"));
  metadata.append(kAdapterType, GgufValue::of_string("lora"));
  metadata.append(kAlpha, GgufValue::of_f32(static_cast<float>(alpha.value_or(1))));
  write_gguf(path, metadata, tensors);
  return bytes;
}

}  // namespace ingot
