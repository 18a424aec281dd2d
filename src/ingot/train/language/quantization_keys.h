#pragma once

#include <array>
#include <string_view>

namespace ingot {

class ConfigReader;

/// What translate_quantization_keys() makes of a key.
struct QuantizationKey {
  std::string_view key, meaning;
};
inline constexpr std::array kQuantizationKeys{
    QuantizationKey{"bnb_config_kwargs", "its keys, as those of the file"},
    QuantizationKey{"bnb_4bit_quant_type", "nf4, where the base has 4 bits"},
    QuantizationKey{"bnb_4bit_compute_dtype", "torch_dtype, where the base has 4 bits"},
    QuantizationKey{"qlora_bnb", "base_format: nf4"},
    QuantizationKey{"qlora_fp8", "base_format: fp8-128x128"},
    QuantizationKey{"qlora_fp4", "base_format: nvfp4"},
    QuantizationKey{"qlora_bnb_block_size", "always 64"},
    QuantizationKey{"qlora_block_size", "always 128"},
    QuantizationKey{"qlora_four_over_six", "always true"},
};

/// Keys of bitsandbytes' configuration, as transformers has them and axolotl in bnb_config_kwargs, and
/// Surogate's qlora_*, as `base_format` and `torch_dtype`. InvalidConfig names what there is instead of what
/// cannot be had. Behind what translates torch_dtype.
void translate_quantization_keys(const ConfigReader& root);

}  // namespace ingot
