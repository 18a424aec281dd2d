#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ingot/core/tensor.h"
#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

// The format: https://github.com/onnx/onnx/blob/main/docs/IR.md (a protobuf message; the classes that protoc
// makes of its description are for .cpp files only).

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace ingot {

/// A parsed ONNX model: the message, and the tensors in it or in files beside it.
class OnnxFile : public std::enable_shared_from_this<OnnxFile> {
 public:
  /// FormatError where the bytes are not an ONNX model.
  static std::shared_ptr<const OnnxFile> open(const Blob& blob);
  static std::shared_ptr<const OnnxFile> open(const std::string& path);
  ~OnnxFile();
  /// One serialized TensorProto, as the ONNX node tests store their inputs and outputs.
  static Tensor read_tensor(const std::string& path);
  /// The same out of bytes, as a model whose only initializer it is.
  static std::shared_ptr<const OnnxFile> of_tensor(const std::string& name, const std::string& bytes);

  const std::string& path() const { return path_; }
  const ::onnx::ModelProto& model() const { return *model_; }

  /// Name, shape, dtype, size. FormatError for a shape or size that does not fit its values; external data is
  /// looked at when it is loaded.
  TensorInfo describe(const ::onnx::TensorProto& tensor) const;
  /// The values: where possible an alias that keeps this object (or the mapped external file) alive. External
  /// data has to lie in a file below the model's directory. FormatError, or NotImplemented for an element
  /// type that Ingot lacks.
  Tensor load(const ::onnx::TensorProto& tensor) const;
  /// The values' bytes as raw_data holds them, little-endian and packed, of any type but strings.
  Blob bytes(const ::onnx::TensorProto& tensor) const;

 private:
  OnnxFile(std::string path, std::unique_ptr<::onnx::ModelProto> model);
  Blob external_bytes(const ::onnx::TensorProto& tensor, const TensorInfo& info) const;
  Blob external_file(const std::string& location, const std::string& tensor) const;

  std::string path_;
  std::unique_ptr<::onnx::ModelProto> model_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Blob> external_;
};

/// "FLOAT", "INT64", ...; the number where it has no name.
std::string onnx_type_name(int type);
/// Nothing where Ingot has no such dtype.
std::optional<DType> onnx_dtype(int type);

}  // namespace ingot
