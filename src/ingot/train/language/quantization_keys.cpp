#include "ingot/train/language/quantization_keys.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/env.h"

namespace ingot {
namespace {

// Of transformers' BitsAndBytesConfig.
constexpr std::array kBitsAndBytes{"load_in_4bit",
                                   "load_in_8bit",
                                   "bnb_4bit_quant_type",
                                   "bnb_4bit_compute_dtype",
                                   "bnb_4bit_use_double_quant",
                                   "bnb_4bit_quant_storage",
                                   "llm_int8_threshold",
                                   "llm_int8_skip_modules",
                                   "llm_int8_enable_fp32_cpu_offload",
                                   "llm_int8_has_fp16_weight"};

void read_section(const ConfigReader& root) {
  if (!root.has("bnb_config_kwargs")) return;
  const ConfigReader section = root.section("bnb_config_kwargs");
  for (const char* key : kBitsAndBytes)
    if (const std::string value = section.skip(key); !value.empty() && !root.has(key)) root.put(key, value);
}

std::string dtype_of(std::string value) {
  constexpr std::string_view kTorch = "torch.";
  if (value.starts_with(kTorch)) value.erase(0, kTorch.size());
  if (value == "bfloat16") return "bf16";
  if (value == "float32") return "f32";
  if (value == "float16" || value == "half" || value == "fp16") return "f16";
  return value;
}

bool is_on(const ConfigReader& root, const char* key) {
  const std::string value = root.skip(key);
  const std::optional<bool> on = value.empty() ? false : parse_bool(value);
  if (!on) root.fail(key, fmt::format("must be true or false, got '{}'", value));
  return *on;
}

// What is multiplied with the base's values is in torch_dtype. Beside a base of other formats bitsandbytes
// does not read the key either.
void read_compute_dtype(const ConfigReader& root) {
  constexpr const char* kKey = "bnb_4bit_compute_dtype";
  const std::string asked = dtype_of(root.skip(kKey));
  const bool four =
      is_on(root, "load_in_4bit") || is_on(root, "qlora_bnb") || root.skip("adapter") == "qlora";
  if (asked.empty() || asked == "auto" || !four) return;
  if (asked == "f16")
    root.fail(kKey,
              "must be bfloat16 or float32, got float16: small gradients become 0 in it without loss "
              "scaling, which is not available");
  if (!root.has("torch_dtype")) return root.put("torch_dtype", asked);
  const std::string dtype = dtype_of(root.skip("torch_dtype"));
  if (dtype != asked)
    root.fail(kKey, fmt::format("is {} beside torch_dtype: {}, which the base's values are multiplied in; "
                                "leave it out, or write torch_dtype: {}",
                                asked, dtype, asked));
}

void read_quant_type(const ConfigReader& root) {
  const std::string type = root.skip("bnb_4bit_quant_type");
  if (type.empty() || type == "nf4") return;
  root.fail("bnb_4bit_quant_type",
            fmt::format("must be nf4, got '{}'; base_format has other formats of four bits: nvfp4, q4_k, "
                        "int4-g64",
                        type));
}

void expect(const ConfigReader& root, const char* key, std::string_view only, const char* why) {
  const std::string value = root.skip(key);
  if (!value.empty() && value != only)
    root.fail(key, fmt::format("must be {}, got {}: {}", only, value, why));
}

// What else the file says of the base's format than `key`, which is `format`.
void refuse_other_formats(const ConfigReader& root, const char* key, std::string_view format) {
  std::string other;
  if (is_on(root, "load_in_4bit") && format != "nf4") other = "load_in_4bit: true";
  if (is_on(root, "load_in_8bit")) other = "load_in_8bit: true";
  if (const std::string named = root.skip("base_format"); !named.empty() && named != format)
    other = "base_format: " + named;
  if (!other.empty())
    root.fail(key, fmt::format("is base_format: {}, beside {}; leave one of them out", format, other));
}

void read_surogate(const ConfigReader& root) {
  std::string first;
  for (const auto& [key, format] :
       {std::pair{"qlora_bnb", "nf4"}, {"qlora_fp8", "fp8-128x128"}, {"qlora_fp4", "nvfp4"}}) {
    if (!is_on(root, key)) continue;
    if (!first.empty()) root.fail(key, fmt::format("is set beside {}; choose one", first));
    first = key;
    refuse_other_formats(root, key, format);
    root.put("base_format", format);
  }
  expect(root, "qlora_bnb_block_size", "64", "the groups of nf4; int4-g128 and its kin have others");
  expect(root, "qlora_block_size", "128", "the tiles of fp8");
  if (root.has("qlora_four_over_six") && !is_on(root, "qlora_four_over_six"))
    root.fail("qlora_four_over_six", "must be true: each block of nvfp4 takes what has the smaller error");
}

}  // namespace

void translate_quantization_keys(const ConfigReader& root) {
  read_section(root);
  read_quant_type(root);
  read_compute_dtype(root);
  read_surogate(root);
}

}  // namespace ingot
