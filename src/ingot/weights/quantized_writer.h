#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/quant/matrix_format.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {

/// A checkpoint as other programs keep quantized ones in safetensors files.
struct QuantizedCheckpoint {
  std::string config;  ///< JSON: what `quantization_config` in config.json becomes
  std::vector<StoredTensor> tensors;
  quant::StandIns stand_ins;  ///< the matrices that stay as they are: groups do not divide their rows
};

/// The formats that quantize_checkpoint knows: "fp8", "nvfp4" and the groups of integers ("int8",
/// "int4-g128-zero"), in the layout of compressed-tensors (transformers reads it), "fp8-128x128" in
/// DeepSeek's, and "nf4" in that of bitsandbytes.
std::vector<std::string> quantized_checkpoint_formats();

/// Σ xᵀx, f32 [in, in], over the inputs x of a layer by the name of its weight in the checkpoint; undefined
/// where it is not known.
using InputProducts = std::function<Tensor(const std::string& weight)>;

/// Rounds the matrices for which `is_linear` holds, each when it is asked for, and leaves the rest as it is:
/// also, named in `config`, those whose rows the format's groups do not divide.
/// Loading the result gives the values that quant::quantize_and_pack gives. The source must outlive the
/// writing. `products`: groups of integers are rounded by GPTQ where it knows a layer. InvalidConfig lists
/// the formats; NotImplemented where a format has no layout that others read.
QuantizedCheckpoint quantize_checkpoint(const WeightSource& source, std::string_view format,
                                        const std::function<bool(const TensorInfo&)>& is_linear,
                                        const WrittenCallback& written = {},
                                        const InputProducts& products = {});

}  // namespace ingot
