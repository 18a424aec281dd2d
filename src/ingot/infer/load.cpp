#include "ingot/infer/load.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/scope.h"
#include "ingot/base/units.h"
#include "ingot/core/backend.h"
#include "ingot/core/host_memory.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot::infer {
namespace {

bool is_dense_format(const std::string& format) {
  return format == "f32" || format == "bf16" || format == "f16";
}

// f32 where a matrix is stored quantized; else what most of the matrices' bytes are.
DType dtype_on_gpu(const WeightSource& weights) {
  std::map<DType, std::uint64_t> bytes;
  for (const TensorInfo& info : weights.tensors()) {
    if (info.shape.size() < 2 || !info.dtype.has_value()) continue;
    const auto whole = static_cast<std::uint64_t>(info.numel()) * byte_size(*info.dtype);
    if (info.bytes < whole) return DType::f32;
    bytes[*info.dtype] += whole;
  }
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& each) { return each.second; });
  return most != bytes.end() && is_half_precision(most->first) ? most->first : DType::f32;
}

// Before minutes of reading. Formats that are made while loading are left to the allocator.
void check_room(const WeightSource& weights, std::optional<DType> dtype, Device device) {
  if (has_host_memory(device)) return;
  std::uint64_t needed = 0;
  for (const TensorInfo& info : weights.tensors()) {
    const bool quantized =
        info.bytes < static_cast<std::uint64_t>(info.numel()) * byte_size(info.dtype.value_or(DType::u8));
    needed += dtype.has_value() && !quantized ? static_cast<std::uint64_t>(info.numel()) * byte_size(*dtype)
                                              : info.bytes;
  }
  const MemoryInfo memory = backend(device).memory_info();
  if (needed <= memory.free) return;
  throw OutOfMemory(
      fmt::format("the weights of {} take {}, and of {}'s {} are {} free; a format of fewer bits takes less "
                  "(q8_0, q4_k), and the CPU has the machine's memory (device cpu)",
                  weights.location(), human_bytes(needed), to_string(device), human_bytes(memory.total),
                  human_bytes(memory.free)),
      needed, 0, memory.free);
}

}  // namespace

std::unique_ptr<LanguageModel> load_model(const std::string& path, const std::string& format,
                                          const PackedCacheOptions& cache_options, Device device,
                                          std::shared_ptr<const RankGroup> ranks) {
  const Scope scope(ScopeKind::file, "load model");
  LoadOptions options{.device = device, .copy = false, .trainable = false};
  options.wide_vectors = has_host_memory(device);
  options.keep_quantized = !is_dense_format(format);
  options.ranks = std::move(ranks);
  const ModelCheckpoint checkpoint = open_checkpoint(path);
  if (!options.keep_quantized) {
    options.dtype = parse_dtype(format);
    check_room(*checkpoint.weights, options.dtype, device);
    return load_language_model(checkpoint, options);
  }
  options.format = format;
  if (format.empty()) check_room(*checkpoint.weights, {}, device);
  if (!has_host_memory(device))
    options.dtype = format.empty() ? dtype_on_gpu(*checkpoint.weights) : DType::f32;
  if (options.ranks != nullptr)
    return load_language_model(checkpoint, options);  // the cache is of whole models
  const auto cache = std::make_shared<PackedCache>(path, *checkpoint.weights, format, cache_options);
  options.store = cache;
  auto model = load_language_model(checkpoint, options);
  cache->save();
  return model;
}

std::unique_ptr<LanguageModel> load_rounded_model(const std::string& path, const std::string& format) {
  const Scope scope(ScopeKind::file, "load model");
  return load_language_model(
      path,
      {.dtype = DType::f32, .copy = false, .trainable = false, .format = format, .keep_quantized = false});
}

Tensor token_logits(const LanguageModel& model, std::span<const std::int32_t> tokens) {
  for (const std::int32_t id : tokens) {
    INGOT_CHECK(id >= 0 && id < model.config.vocab_size,
                InvalidConfig("tokens", fmt::format("id {} is outside the vocabulary of {}", id,
                                                    model.config.vocab_size)));
  }
  const NoGrad no_grad;
  const auto count = static_cast<std::int64_t>(tokens.size());
  const Tensor ids = Tensor::from(std::vector(tokens.begin(), tokens.end()), {1, count}, model.device());
  return to(reshape(model.logits(model.hidden({.tokens = ids})), {count, model.config.vocab_size}), kCpu);
}

}  // namespace ingot::infer
