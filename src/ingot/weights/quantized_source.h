#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ingot/weights/weight_source.h"

namespace ingot {

/// How another tool quantized a checkpoint: what `quantization_config` in its config.json says.
struct QuantizationConfig {
  std::string method;     ///< "gptq", "awq", "fp8", "compressed-tensors", "modelopt", "bitsandbytes", "mxfp4"
  std::string algorithm;  ///< ModelOpt's "quant_algo": "NVFP4", "FP8"; empty: not said
  std::int64_t bits = 4;
  bool zeros_less_one = true;                   ///< GPTQ: "checkpoint_format" is not "gptq_v2"
  std::int64_t block_rows = 0, block_cols = 0;  ///< FP8: "weight_block_size"
  bool inputs_first = false;  ///< dense layers of this family are stored [in, out] (GPT-2's Conv1D)
};

/// The tensors of a quantized checkpoint under the names that dense ones have: where it keeps `x.qweight`,
/// `x.qzeros` and so on, there is one `x.weight` [out, in] instead. It loads as f32 values, and in tiles of
/// its own format with load_packed(). Everything else stays as it is. NotImplemented for another method, with
/// those that are known; InvalidConfig names a layer that lacks one of its tensors.
std::shared_ptr<const WeightSource> open_quantized(std::shared_ptr<const WeightSource> base,
                                                   const QuantizationConfig& config);

}  // namespace ingot
