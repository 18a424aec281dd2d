#pragma once

#include <memory>
#include <string>

#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// The initializers of an ONNX model, in the file or in external data below its directory. The names are the
/// graph's own, which exporters often keep from the original ("encoder.layer.0.attention.self.query.bias")
/// and sometimes do not ("onnx::MatMul_1234").
std::unique_ptr<WeightSource> open_onnx(Blob blob);
std::unique_ptr<WeightSource> open_onnx(const std::string& path);

}  // namespace ingot
