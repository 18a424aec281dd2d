#include "ingot/weights/onnx.h"

#include <set>

#include "onnx.pb.h"
#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/weights/onnx_file.h"

namespace ingot {
namespace {

class OnnxWeights final : public WeightSource {
 public:
  explicit OnnxWeights(std::shared_ptr<const OnnxFile> file)
      : WeightSource(file->path()), file_(std::move(file)) {
    std::vector<TensorInfo> tensors;
    for (const auto& tensor : file_->model().graph().initializer()) {
      INGOT_CHECK(by_name_.emplace(tensor.name(), &tensor).second,
                  FormatError(location(), -1, tensor.name(), "is the name of two initializers"));
      tensors.push_back(file_->describe(tensor));
    }
    std::map<std::string, std::string> metadata;
    for (const auto& entry : file_->model().metadata_props()) metadata[entry.key()] = entry.value();
    set_contents(std::move(tensors), std::move(metadata));
  }

  std::string_view format() const override { return "onnx"; }
  WeightCapabilities capabilities() const override { return {.zero_copy = true, .concurrent = true}; }

 protected:
  Tensor load(const TensorInfo& info) const override { return file_->load(*by_name_.at(info.name)); }

 private:
  std::shared_ptr<const OnnxFile> file_;
  std::map<std::string, const ::onnx::TensorProto*> by_name_;
};

}  // namespace

std::unique_ptr<WeightSource> open_onnx(Blob blob) {
  return std::make_unique<OnnxWeights>(OnnxFile::open(blob));
}
std::unique_ptr<WeightSource> open_onnx(const std::string& path) { return open_onnx(map_blob(path)); }

}  // namespace ingot
