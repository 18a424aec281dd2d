#include "ingot/weights/safetensors.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/blob_source.h"
#include "ingot/weights/sharded.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 1> kUsualName{"model.safetensors"};

class SafetensorsFile final : public BlobSource<> {
 public:
  explicit SafetensorsFile(Blob blob) : BlobSource(std::move(blob)) {
    SafetensorsHeader header = parse_safetensors_header(blob_.bytes, blob_.bytes.size(), blob_.name);
    set_contents(std::move(header.tensors), std::move(header.metadata));
  }

  std::string_view format() const override { return "safetensors"; }

 protected:
  Tensor load(const TensorInfo& info) const override {
    check_loadable(*this, info);
    check_booleans(info, blob_.bytes.subspan(info.offset, info.bytes));
    return tensor_in(blob_, info.offset, Shape(std::span<const std::int64_t>(info.shape)), *info.dtype);
  }
};

}  // namespace

std::unique_ptr<WeightSource> open_safetensors(Blob blob) {
  return std::make_unique<SafetensorsFile>(std::move(blob));
}

std::unique_ptr<WeightSource> open_safetensors(const std::string& path) {
  const std::string file = fs::is_directory(path) ? find_weights_in(path, kUsualName) : path;
  const auto open_shard = [](Blob blob) { return open_safetensors(std::move(blob)); };
  return file.ends_with(".json") ? open_sharded(file, open_shard) : open_safetensors(map_blob(file));
}

std::map<std::string, Tensor> read_safetensors(const std::string& path) {
  const std::unique_ptr<WeightSource> source = open_safetensors(path);
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : source->tensors()) tensors[info.name] = clone(source->load_tensor(info.name));
  return tensors;
}

}  // namespace ingot
