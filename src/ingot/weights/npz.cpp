#include "ingot/weights/npz.h"

#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/memory.h"
#include "ingot/weights/npy.h"
#include "ingot/weights/tensor_bytes.h"
#include "ingot/weights/zip.h"

namespace ingot {
namespace {

class NpzFile final : public WeightSource {
 public:
  explicit NpzFile(Blob blob) : WeightSource(blob.name), archive_(std::move(blob)) {
    std::vector<TensorInfo> tensors;
    for (const ZipEntry& entry : archive_.entries()) {
      if (!entry.name.ends_with(".npy")) continue;
      const Blob start = archive_.prefix(entry, kMaxNpyHeader);
      Array array{parse_npy(start.bytes, entry.size, location() + ": " + entry.name), &entry};
      TensorInfo info = array.description.info;
      info.name = entry.name.substr(0, entry.name.size() - 4);
      info.file = location();
      // Of a compressed array the offset of its compressed bytes, which is what can be said.
      info.offset = entry.offset + (entry.method == 0 ? info.offset : 0);
      arrays_.emplace(info.name, std::move(array));
      tensors.push_back(std::move(info));
    }
    set_contents(std::move(tensors), {});
  }

  std::string_view format() const override { return "npz"; }
  WeightCapabilities capabilities() const override { return {.zero_copy = true, .concurrent = true}; }

 protected:
  Tensor load(const TensorInfo& info) const override {
    const Array& array = arrays_.at(info.name);
    return load_npy(array.description, archive_.content(*array.entry));
  }
  Blob stored(const TensorInfo& info) const override {
    const Array& array = arrays_.at(info.name);
    return part_of(archive_.content(*array.entry), array.description.info.offset, info.bytes);
  }

 private:
  struct Array {
    NpyDescription description;
    const ZipEntry* entry;
  };
  ZipArchive archive_;
  std::map<std::string, Array> arrays_;
};

}  // namespace

std::unique_ptr<WeightSource> open_npz(Blob blob) { return std::make_unique<NpzFile>(std::move(blob)); }

void write_npz(const std::string& path, std::span<const StoredTensor> tensors) {
  std::set<std::string_view> names;
  std::vector<std::string> headers;  // before anything is written: an element type may be refused
  for (const StoredTensor& tensor : tensors) {
    INGOT_CHECK(names.insert(tensor.name).second,
                InvalidConfig(tensor.name, "two tensors to be stored have this name"));
    headers.push_back(npy_header(path, tensor.shape, tensor.dtype));
  }
  write_file_atomically(path, [&](FileWriter& out) {
    ZipWriter archive(out);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::uint64_t size =
          headers[i].size() + estimate_tensor_bytes(tensors[i].shape, tensors[i].dtype);
      archive.add(tensors[i].name + ".npy", size, [&](ZipWriter::Sink sink) {
        sink(std::as_bytes(std::span(headers[i])));
        for_each_byte_range(tensors[i].values(), sink);
      });
    }
    archive.finish();
  });
}

}  // namespace ingot
