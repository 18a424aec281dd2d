#pragma once

#include <optional>
#include <span>
#include <string>

#include "ingot/core/dtype.h"
#include "ingot/models/adapter/adapter_file.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/models/language/config.h"
#include "ingot/models/weight_map.h"

namespace ingot {

/// The model that an adapter is for.
struct AdapterBase {
  const AdaptedParts& parts;
  const WeightMap& map;
  const LanguageConfig& config;
};

/// Whether a path names a GGUF file; read_gguf_adapter() says whether it is an adapter.
bool is_gguf_path(const std::string& path);
/// Whether a file is a GGUF file of an adapter (general.type).
bool is_gguf_adapter(const std::string& path);

/// Reads a LoRA adapter as llama.cpp has it: pairs `NAME.lora_a` [r, in] and `NAME.lora_b` [out, r] under the
/// names of GGUF's tensors, rows in the orders of GGUF files of the family; of the embedding the pair is
/// exchanged. Updates are scaled by adapter.lora.alpha / r, or not at all where it is 0. Errors name file and
/// tensor: another architecture, a pair without its second half, other shapes.
AdapterFile read_gguf_adapter(const AdapterBase& base, const std::string& path);

/// Writes one so that llama.cpp reads it. A GGUF file has one alpha: what other modules' updates are scaled
/// by (rsLoRA, alpha patterns) goes into their lora_b. NotImplemented for DoRA and for weights kept whole,
/// which llama.cpp lacks. `dtype`: f32, bf16 or f16; none: as stored. Returns the bytes of the tensors.
std::uint64_t write_gguf_adapter(const std::string& path, const AdapterBase& base, const AdapterFile& file,
                                 std::optional<DType> dtype = std::nullopt);

}  // namespace ingot
