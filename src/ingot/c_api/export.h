#pragma once

#include "ingot/c_api/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Called after each tensor with the bytes written so far, and those of all. Returns 0 to go on; anything
/// else ends the call with INGOT_ERROR, and nothing that was written stays.
typedef int32_t (*IngotOnWritten)(uint64_t done, uint64_t total, void* user);

/// Rounds a model's weights to fewer bits. source: a model directory, a .gguf file, or a name that `ingot
/// pull` knows. destination: NAME.gguf for "q4_k", "q8_0", ...; a directory for "int4-g128", "int8", "fp8",
/// "nf4". on_written may be NULL. INGOT_INVALID_CONFIG lists the formats.
INGOT_API IngotStatus ingot_quantize(const char* source, const char* destination, const char* format,
                                     IngotOnWritten on_written, void* user);

/// Writes weights, or a whole model, in another format or element type. destination: NAME.gguf, NAME.npz,
/// NAME.safetensors, or a directory. dtype: "f32", "bf16", "f16", for GGUF also "q8_0" and its like; NULL: as
/// stored.
INGOT_API IngotStatus ingot_convert(const char* source, const char* destination, const char* dtype,
                                    IngotOnWritten on_written, void* user);

/// Adds `count` LoRA adapters (directories as PEFT writes them) to the weights of their base model, each
/// times its weight (weights NULL: 1). destination: a directory. dtype: NULL as stored.
INGOT_API IngotStatus ingot_merge(const char* model, const char* const* adapters, const float* weights,
                                  size_t count, const char* destination, const char* dtype,
                                  IngotOnWritten on_written, void* user);

#ifdef __cplusplus
}
#endif
