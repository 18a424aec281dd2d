#include "ingot/weights/safetensors.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class SafetensorsFile final : public WeightSource {
 public:
  explicit SafetensorsFile(Blob blob) : WeightSource(blob.name), blob_(std::move(blob)) {
    SafetensorsHeader header = parse_safetensors_header(blob_.bytes, blob_.bytes.size(), blob_.name);
    set_contents(std::move(header.tensors), std::move(header.metadata));
  }

  std::string_view format() const override { return "safetensors"; }
  WeightCapabilities capabilities() const override {
    return {.zero_copy = true, .concurrent = true, .preload = static_cast<bool>(blob_.will_need)};
  }

  void preload(std::span<const std::string> names) const override {
    for (const std::string& name : names) {
      const TensorInfo& info = get_metadata(name);
      if (blob_.will_need) blob_.will_need(info.offset, info.bytes);
    }
  }

 protected:
  Tensor load(const TensorInfo& info) const override {
    INGOT_CHECK(info.dtype.has_value(), NotImplemented(fmt::format("{}: loading '{}': element type {}",
                                                                   location(), info.name, info.stored_as)));
    INGOT_CHECK(info.shape.size() <= kMaxRank,
                NotImplemented(fmt::format("{}: loading '{}': shape {} has more than {} axes", location(),
                                           info.name, to_string(info.shape), kMaxRank)));
    if (*info.dtype == DType::boolean) check_booleans(info);
    return tensor_in(blob_, info.offset, Shape(std::span<const std::int64_t>(info.shape)), *info.dtype);
  }

 private:
  // Reading any other byte as a bool is undefined behaviour.
  void check_booleans(const TensorInfo& info) const {
    const auto values = blob_.bytes.subspan(info.offset, info.bytes);
    const auto bad = std::ranges::find_if(values, [](std::byte b) { return b > std::byte{1}; });
    INGOT_CHECK(bad == values.end(),
                FormatError(location(), static_cast<std::int64_t>(info.offset) + (bad - values.begin()),
                            info.name, "holds a byte other than 0 and 1 as a boolean"));
  }

  Blob blob_;
};

/// Several files that an index puts together.
class SafetensorsShards final : public WeightSource {
 public:
  explicit SafetensorsShards(const std::string& index_path) : WeightSource(index_path) {
    const Json index = read_index();
    const std::string parent = fs::path(index_path).parent_path().string();
    std::vector<TensorInfo> tensors;
    std::map<std::string, std::string> metadata;
    for (const auto& [name, file] : index.at("weight_map").items()) {
      tensors.push_back(find_in_shard(name, file, parent, metadata));
    }
    if (index.contains("metadata") && index["metadata"].is_object()) {
      for (const auto& [key, value] : index["metadata"].items()) {
        metadata[key] = value.is_string() ? value.get<std::string>() : value.dump();
      }
    }
    set_contents(std::move(tensors), std::move(metadata));
  }

  std::string_view format() const override { return "safetensors"; }
  WeightCapabilities capabilities() const override {
    return {.zero_copy = true, .concurrent = true, .preload = true};
  }
  void preload(std::span<const std::string> names) const override {
    for (const std::string& name : names) {
      shards_.at(get_metadata(name).file)->preload(std::span(&name, 1));
    }
  }

 protected:
  Tensor load(const TensorInfo& info) const override { return shards_.at(info.file)->load_tensor(info.name); }

 private:
  Json read_index() const {
    const MappedFile file(location());
    INGOT_CHECK(file.bytes().size() <= kMaxSafetensorsHeader,
                FormatError(location(), -1, "index",
                            fmt::format("has {} bytes; at most {} are reasonable", file.bytes().size(),
                                        kMaxSafetensorsHeader)));
    Json index;
    try {
      index = Json::parse(file.text());
    } catch (const Json::parse_error& error) {
      throw FormatError(location(), static_cast<std::int64_t>(error.byte), "index",
                        fmt::format("is not valid JSON: {}", error.what()));
    }
    INGOT_CHECK(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(),
                FormatError(location(), -1, "weight_map", "is missing or no object"));
    return index;
  }

  TensorInfo find_in_shard(const std::string& name, const Json& file, const std::string& parent,
                           std::map<std::string, std::string>& metadata) {
    const std::string field = "weight_map." + name;
    INGOT_CHECK(file.is_string(), FormatError(location(), -1, field, "is no file name"));
    const auto& shard_name = file.get_ref<const std::string&>();
    // A name that leads elsewhere would let an index read any file of the machine.
    INGOT_CHECK(
        !shard_name.empty() && shard_name.find_first_of("/\\") == shard_name.npos && shard_name != "." &&
            shard_name != ".." && shard_name.find('\0') == shard_name.npos,
        FormatError(location(), -1, field,
                    fmt::format("'{}' is no plain file name; shards lie beside their index", shard_name)));
    const std::string path = parent.empty() ? shard_name : parent + "/" + shard_name;
    auto& shard = shards_[path];
    if (shard == nullptr) {
      INGOT_CHECK(fs::exists(path),
                  IoError(path, fmt::format("is missing; {} needs it for '{}'", location(), name)));
      shard = open_safetensors(map_blob(path));
      metadata.insert(shard->metadata().begin(), shard->metadata().end());
    }
    const TensorInfo* info = shard->find(name);
    INGOT_CHECK(info != nullptr,
                FormatError(location(), -1, field, fmt::format("{} holds no such tensor", path)));
    return *info;
  }

  std::map<std::string, std::unique_ptr<WeightSource>> shards_;
};

/// The file in a directory that stands for the whole model.
std::string find_weights_in(const std::string& directory) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    const fs::path path = fs::path(directory) / name;
    if (fs::exists(path)) return path.string();
  }
  std::set<std::string> files, indices;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".safetensors")) files.insert(path);
    if (path.ends_with(".safetensors.index.json")) indices.insert(path);
  }
  if (indices.size() == 1) return *indices.begin();
  if (indices.empty() && files.size() == 1) return *files.begin();
  if (files.empty() && indices.empty()) {
    throw IoError(directory,
                  "holds no .safetensors file; expected model.safetensors, or "
                  "model.safetensors.index.json and its shards");
  }
  throw IoError(directory, fmt::format("holds several .safetensors files and no one index for them ({}); "
                                       "name the file",
                                       fmt::join(files, ", ")));
}

}  // namespace

std::unique_ptr<WeightSource> open_safetensors(Blob blob) {
  return std::make_unique<SafetensorsFile>(std::move(blob));
}

std::unique_ptr<WeightSource> open_safetensors(const std::string& path) {
  const std::string file = fs::is_directory(path) ? find_weights_in(path) : path;
  if (file.ends_with(".json")) return std::make_unique<SafetensorsShards>(file);
  return open_safetensors(map_blob(file));
}

}  // namespace ingot
