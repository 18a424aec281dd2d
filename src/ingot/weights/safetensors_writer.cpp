#include "ingot/weights/safetensors_writer.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/scope.h"
#include "ingot/core/memory.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/tensor_bytes.h"

namespace ingot {
namespace {

using Json = nlohmann::json;

struct DTypeName {
  DType dtype;
  std::string_view name;
};

// In the order in which the Python library lays tensors out: a wider type never follows a narrower one, so
// that all stay aligned.
constexpr std::array<DTypeName, 12> kLayoutOrder{{{DType::i64, "I64"},
                                                  {DType::f64, "F64"},
                                                  {DType::f32, "F32"},
                                                  {DType::i32, "I32"},
                                                  {DType::bf16, "BF16"},
                                                  {DType::f16, "F16"},
                                                  {DType::i16, "I16"},
                                                  {DType::f8e4m3, "F8_E4M3"},
                                                  {DType::f8e5m2, "F8_E5M2"},
                                                  {DType::i8, "I8"},
                                                  {DType::u8, "U8"},
                                                  {DType::boolean, "BOOL"}}};

std::size_t layout_rank(DType dtype) {
  const auto found = std::ranges::find(kLayoutOrder, dtype, &DTypeName::dtype);
  return static_cast<std::size_t>(found - kLayoutOrder.begin());
}

std::vector<const StoredTensor*> in_layout_order(std::span<const StoredTensor> tensors) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(layout_rank(a->dtype), std::string_view(a->name)) <
           std::pair(layout_rank(b->dtype), std::string_view(b->name));
  });
  return order;
}

void check_names(std::span<const StoredTensor> tensors) {
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    INGOT_CHECK(tensor.name != "__metadata__",
                InvalidConfig(tensor.name, "no tensor of a .safetensors file may have this name"));
    INGOT_CHECK(names.insert(tensor.name).second,
                InvalidConfig(tensor.name, "two tensors to be stored have this name"));
  }
}

/// As a JSON string; InvalidConfig where it is not UTF-8.
std::string quoted(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    throw InvalidConfig("metadata", fmt::format("names and metadata must be UTF-8; '{}' is not", text));
  }
}

// Built as text, because its order matters and an ordered JSON object finds its keys one by one.
std::string safetensors_header_text(std::span<const StoredTensor* const> order,
                                    const SafetensorsOptions& options) {
  const std::map<std::string, std::string>& metadata = options.metadata;
  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    pairs.reserve(metadata.size());
    for (const auto& [key, value] : metadata) pairs.push_back(quoted(key) + ":" + quoted(value));
    entries.push_back(fmt::format(R"("__metadata__":{{{}}})", fmt::join(pairs, ",")));
  }
  std::uint64_t offset = 0;
  for (const StoredTensor* tensor : order) {
    const std::uint64_t end = offset + estimate_tensor_bytes(tensor->shape, tensor->dtype);
    entries.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                  quoted(tensor->name), kLayoutOrder[layout_rank(tensor->dtype)].name,
                                  fmt::join(tensor->shape.dims(), ","), offset, end));
    offset = end;
  }
  std::string text = fmt::format("{{{}}}", fmt::join(entries, ","));
  const std::size_t unit = options.data_alignment, whole = (8 + text.size() + unit - 1) / unit * unit;
  text.resize(whole - 8, ' ');
  INGOT_CHECK(text.size() <= kMaxSafetensorsHeader,
              InvalidConfig("metadata", fmt::format("the header would have {} bytes, the format allows {}",
                                                    text.size(), kMaxSafetensorsHeader)));
  return text;
}

void write_values(FileWriter& out, const StoredTensor& tensor) {
  const Scope scope(ScopeKind::file, tensor.name);
  const Tensor values = tensor.values();
  INGOT_CHECK(values.defined() && values.shape() == tensor.shape,
              ShapeMismatch("storing '" + tensor.name + "'", tensor.shape.to_vector(),
                            values.defined() ? values.shape().to_vector() : std::vector<std::int64_t>{}));
  INGOT_CHECK(
      values.dtype() == tensor.dtype,
      KernelError("storing '" + tensor.name + "'", fmt::format("announced as {}, but its values are {}",
                                                               name(tensor.dtype), name(values.dtype()))));
  for_each_byte_range(values, [&](std::span<const std::byte> bytes) { out.write(bytes); });
}

}  // namespace

StoredTensor StoredTensor::of(std::string name, const Tensor& tensor) {
  INGOT_CHECK(tensor.defined(), Error("cannot store '" + name + "': the tensor is undefined"));
  return {std::move(name), tensor.shape(), tensor.dtype(), [tensor] { return tensor; }};
}

void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const SafetensorsOptions& options) {
  check_names(tensors);
  const auto order = in_layout_order(tensors);
  const std::string header = safetensors_header_text(order, options);
  write_file_atomically(path, [&](FileWriter& out) {
    std::array<std::byte, 8> length{};
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(header.size() >> (8 * i));
    out.write(length);
    out.write(header);
    for (const StoredTensor* tensor : order) write_values(out, *tensor);
  });
}

void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  std::vector<StoredTensor> stored;
  stored.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) stored.push_back(StoredTensor::of(name, tensor));
  write_safetensors(path, stored);
}

std::size_t nbytes(const std::map<std::string, Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
}

std::vector<std::string> write_safetensors_directory(const std::string& directory,
                                                     std::span<const StoredTensor> tensors,
                                                     const SafetensorsOptions& options) {
  INGOT_CHECK(options.max_shard_bytes > 0, InvalidConfig("max_shard_size", "must be more than 0 bytes"));
  check_names(tensors);
  make_directories(directory);
  std::vector<std::vector<StoredTensor>> shards(1);
  std::uint64_t filled = 0, total = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::uint64_t bytes = estimate_tensor_bytes(tensor.shape, tensor.dtype);
    if (!shards.back().empty() && filled + bytes > options.max_shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(tensor);
    filled += bytes;
    total += bytes;
  }
  if (shards.size() == 1) {
    write_safetensors(directory + "/model.safetensors", tensors, options);
    return {"model.safetensors"};
  }
  std::vector<std::string> files;
  Json weight_map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    files.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size()));
    write_safetensors(directory + "/" + files.back(), shards[i], options);
    for (const StoredTensor& tensor : shards[i]) weight_map[tensor.name] = files.back();
  }
  Json index;
  index["metadata"]["total_size"] = total;
  index["weight_map"] = std::move(weight_map);
  files.emplace_back("model.safetensors.index.json");
  write_file_atomically(directory + "/" + files.back(), dump_json(index, 2) + "\n");
  return files;
}

}  // namespace ingot
