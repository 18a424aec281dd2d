#include "ingot/weights/sharded.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Open = std::function<std::unique_ptr<WeightSource>(Blob)>;

constexpr std::size_t kMaxIndex = 100'000'000;

/// Several files that an index puts together.
class Shards final : public WeightSource {
 public:
  explicit Shards(const std::string& index_path, const Open& open) : WeightSource(index_path), open_(open) {
    const Json index = read_index();
    const std::string parent = fs::path(index_path).parent_path().string();
    std::vector<TensorInfo> tensors;
    std::map<std::string, std::string> metadata;
    for (const auto& [name, file] : index.at("weight_map").items()) {
      tensors.push_back(find_in_shard(name, file, parent, metadata));
    }
    if (index.contains("metadata") && index["metadata"].is_object()) {
      for (const auto& [key, value] : index["metadata"].items()) {
        metadata[key] = value.is_string() ? value.get<std::string>() : dump_json(value);
      }
    }
    set_contents(std::move(tensors), std::move(metadata));
  }

  std::string_view format() const override {
    return shards_.empty() ? "index" : shards_.begin()->second->format();
  }
  WeightCapabilities capabilities() const override {
    return shards_.empty() ? WeightCapabilities{} : shards_.begin()->second->capabilities();
  }
  void preload(std::span<const std::string> names) const override {
    for (const std::string& name : names) {
      shards_.at(get_metadata(name).file)->preload(std::span(&name, 1));
    }
  }

 protected:
  Tensor load(const TensorInfo& info) const override { return shards_.at(info.file)->load_tensor(info.name); }
  Blob stored(const TensorInfo& info) const override {
    return shards_.at(info.file)->stored_bytes(info.name);
  }

 private:
  Json read_index() const {
    const MappedFile file(location());
    INGOT_CHECK(
        file.bytes().size() <= kMaxIndex,
        FormatError(location(), -1, "index",
                    fmt::format("has {} bytes; at most {} are reasonable", file.bytes().size(), kMaxIndex)));
    Json index = parse_json<Json>(file.text(), location(), "index");
    INGOT_CHECK(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(),
                FormatError(location(), -1, "weight_map", "is missing or no object"));
    return index;
  }

  TensorInfo find_in_shard(const std::string& name, const Json& file, const std::string& parent,
                           std::map<std::string, std::string>& metadata) {
    const std::string field = "weight_map." + name;
    INGOT_CHECK(file.is_string(), FormatError(location(), -1, field, "is not a file name"));
    const auto& shard_name = file.get_ref<const std::string&>();
    // A name that leads elsewhere would let an index read any file of the machine.
    INGOT_CHECK(
        !shard_name.empty() && shard_name.find_first_of("/\\") == shard_name.npos && shard_name != "." &&
            shard_name != ".." && shard_name.find('\0') == shard_name.npos,
        FormatError(location(), -1, field,
                    fmt::format("'{}' is not a plain file name; shards lie beside their index", shard_name)));
    const std::string path = parent.empty() ? shard_name : parent + "/" + shard_name;
    auto& shard = shards_[path];
    if (shard == nullptr) {
      INGOT_CHECK(fs::exists(path),
                  IoError(path, fmt::format("is missing; {} needs it for '{}'", location(), name)));
      shard = open_(map_blob(path));
      metadata.insert(shard->metadata().begin(), shard->metadata().end());
    }
    const TensorInfo* info = shard->find(name);
    INGOT_CHECK(info != nullptr,
                FormatError(location(), -1, field, fmt::format("{} holds no such tensor", path)));
    return *info;
  }

  const Open& open_;  // used while constructing only
  std::map<std::string, std::unique_ptr<WeightSource>> shards_;
};

}  // namespace

std::unique_ptr<WeightSource> open_sharded(const std::string& index_path, const Open& open) {
  return std::make_unique<Shards>(index_path, open);
}

std::string find_weights_in(const std::string& directory, std::span<const std::string_view> usual) {
  for (const std::string_view name : usual) {
    for (const char* end : {"", ".index.json"}) {
      const std::string path = fmt::format("{}/{}{}", directory, name, end);
      if (fs::exists(path)) return path;
    }
  }
  std::set<std::string> endings, files, indices;
  for (const std::string_view name : usual) endings.insert(fs::path(name).extension().string());
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string path = entry.path().string();
    const auto ends = [&path](const std::string& ending) { return path.ends_with(ending); };
    if (std::ranges::any_of(endings, ends)) files.insert(path);
    if (std::ranges::any_of(endings,
                            [&](const std::string& ending) { return ends(ending + ".index.json"); })) {
      indices.insert(path);
    }
  }
  if (indices.size() == 1) return *indices.begin();
  if (indices.empty() && files.size() == 1) return *files.begin();
  const std::string expected = fmt::format("{}", fmt::join(usual, ", "));
  INGOT_CHECK(
      !files.empty() || !indices.empty(),
      IoError(directory,
              fmt::format("holds no weights; expected one of {}, or one's index and its shards", expected)));
  throw IoError(directory,
                fmt::format("holds several files of weights and no one index for them ({}); name the file",
                            fmt::join(files.empty() ? indices : files, ", ")));
}

}  // namespace ingot
