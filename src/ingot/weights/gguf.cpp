#include "ingot/weights/gguf.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/quant/block_format.h"
#include "ingot/weights/blob_source.h"
#include "ingot/weights/ggml_type.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlocksAtOnce = 4096;  // their values stay in the cache until they are checked

std::map<std::string, std::string> as_text(const GgufMetadata& fields) {
  std::map<std::string, std::string> text;
  for (const auto& [key, value] : fields.entries()) text.emplace(key, value.to_string());
  return text;
}

class GgufFile final : public BlobSource<GgufSource> {
 public:
  explicit GgufFile(Blob blob) : BlobSource(std::move(blob)) {
    GgufHeader header = parse_gguf_header(blob_.bytes, blob_.bytes.size(), blob_.name);
    fields_ = std::move(header.metadata);
    set_contents(std::move(header.tensors), as_text(fields_));
  }

  std::string_view format() const override { return "gguf"; }

 protected:
  Tensor load(const TensorInfo& info) const override {
    check_loadable(*this, info);
    const Shape shape{std::span<const std::int64_t>(info.shape)};
    const quant::BlockFormat* format = quant::find_block_format(info.stored_as);
    if (format == nullptr) return tensor_in(blob_, info.offset, shape, *info.dtype);
    return dequantized(info, *format, shape);
  }

 private:
  Tensor dequantized(const TensorInfo& info, const quant::BlockFormat& format, const Shape& shape) const {
    const PageLoan loan(stored(info));
    Tensor tensor = Tensor::empty(shape);
    auto* values = tensor.data<float>();
    const auto blocks = static_cast<std::int64_t>(info.bytes / format.bytes);
    parallel_for(blocks, kBlocksAtOnce, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; at += kBlocksAtOnce) {
        const std::int64_t count = std::min(kBlocksAtOnce, end - at);
        const std::size_t offset = info.offset + static_cast<std::size_t>(at) * format.bytes;
        const std::span out(values + at * format.elements, static_cast<std::size_t>(count * format.elements));
        quant::dequantize(format, blob_.bytes.subspan(offset, static_cast<std::size_t>(count) * format.bytes),
                          out);
        const bool finite = std::ranges::all_of(out, [](float value) { return std::isfinite(value); });
        INGOT_CHECK(finite,
                    FormatError(location(), static_cast<std::int64_t>(offset), info.name,
                                fmt::format("a {} block has a scale that is not finite", format.name)));
      }
    });
    return tensor;
  }
};

/// The files of one split model, first part first. Only that one needs to hold the metadata.
class GgufParts final : public GgufSource {
 public:
  explicit GgufParts(const std::vector<std::string>& paths) : GgufSource(paths.front()) {
    std::vector<TensorInfo> tensors;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      auto part = open_gguf(map_blob(paths[i]));
      check_number(part->fields(), paths[i], "split.no", i);
      check_number(part->fields(), paths[i], "split.count", paths.size());
      for (const TensorInfo& info : part->tensors()) {
        const auto [other, fresh] = part_of_.emplace(info.name, part.get());
        INGOT_CHECK(
            fresh, FormatError(paths[i], -1, info.name,
                               fmt::format("{} holds a tensor of this name too", other->second->location())));
        tensors.push_back(info);
      }
      if (i == 0) fields_ = part->fields();
      parts_.push_back(std::move(part));
    }
    if (const auto total = fields_.integer("split.tensors.count")) {
      INGOT_CHECK(*total == static_cast<std::int64_t>(tensors.size()),
                  FormatError(location(), -1, "split.tensors.count",
                              fmt::format("is {}, but the {} parts hold {} tensors", *total, paths.size(),
                                          tensors.size())));
    }
    set_contents(std::move(tensors), as_text(fields_));
  }

  std::string_view format() const override { return "gguf"; }
  WeightCapabilities capabilities() const override { return parts_.front()->capabilities(); }
  void preload(std::span<const std::string> names) const override {
    for (const std::string& name : names) part_of_.at(get_metadata(name).name)->preload(std::span(&name, 1));
  }

 protected:
  Tensor load(const TensorInfo& info) const override {
    return part_of_.at(info.name)->load_tensor(info.name);
  }
  Blob stored(const TensorInfo& info) const override {
    return part_of_.at(info.name)->stored_bytes(info.name);
  }

 private:
  static void check_number(const GgufMetadata& fields, const std::string& path, const char* key,
                           std::size_t expected) {
    const auto value = fields.integer(key);
    INGOT_CHECK(value && *value == static_cast<std::int64_t>(expected),
                FormatError(path, -1, key,
                            fmt::format("is {}, but the file's name says {}",
                                        value ? std::to_string(*value) : "missing", expected)));
  }

  std::vector<std::unique_ptr<GgufSource>> parts_;
  std::map<std::string, const GgufSource*, std::less<>> part_of_;
};

}  // namespace

std::vector<std::string> gguf_part_paths(const std::string& path) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf";
  if (path.size() <= kForm.size()) return {};
  const std::size_t begin = path.size() - kForm.size();
  const std::string_view end = std::string_view(path).substr(begin);
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = end[i] >= '0' && end[i] <= '9';
    if (kForm[i] == '0' ? !digit : end[i] != kForm[i]) return {};
  }
  int count = 0;
  std::from_chars(end.data() + 10, end.data() + 15, count);
  std::vector<std::string> paths;
  for (int i = 1; i <= count; ++i) {
    paths.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", path.substr(0, begin), i, count));
  }
  return paths;
}

std::unique_ptr<GgufSource> open_gguf(Blob blob) { return std::make_unique<GgufFile>(std::move(blob)); }

std::unique_ptr<GgufSource> open_gguf(const std::string& path) {
  auto file = open_gguf(map_blob(path));
  const std::int64_t count = file->fields().integer("split.count").value_or(1);
  if (count <= 1) return file;
  const std::vector<std::string> paths = gguf_part_paths(path);
  INGOT_CHECK(static_cast<std::int64_t>(paths.size()) == count,
              FormatError(path, -1, "split.count",
                          fmt::format("is {}: one part of a model; its files must be called "
                                      "NAME-00001-of-{:05}.gguf and so on",
                                      count, count)));
  for (const std::string& part : paths) {
    INGOT_CHECK(fs::exists(part),
                IoError(part, fmt::format("is missing; it is a part of the model of {}", path)));
  }
  return std::make_unique<GgufParts>(paths);
}

}  // namespace ingot
