#pragma once

#include "ingot/c_api/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Named tensors that a file or directory holds: safetensors, GGUF, PyTorch, npy, npz, ONNX, HDF5 (Keras),
/// TensorFlow. Opening reads the description only. Any thread may use one.
typedef struct IngotWeights IngotWeights;

/// Opens a file, an index of shards or a directory, by content; also hf://, https:// and s3:// addresses.
/// Errors: INGOT_IO_ERROR, INGOT_FORMAT_ERROR with `file`.
INGOT_API IngotStatus ingot_weights_open(const char* path, IngotWeights** out);
/// Tensors that were loaded stay. NULL is allowed.
INGOT_API IngotStatus ingot_weights_close(IngotWeights* weights);

/// "safetensors", "gguf", ...; valid while the handle is open.
INGOT_API IngotStatus ingot_weights_format(const IngotWeights* weights, const char** format);
/// How many tensors there are.
INGOT_API IngotStatus ingot_weights_count(const IngotWeights* weights, size_t* count);
/// The number of a tensor by its name, for ingot_weights_tensor(). INGOT_IO_ERROR names the nearest one where
/// there is none.
INGOT_API IngotStatus ingot_weights_find(const IngotWeights* weights, const char* name, size_t* index);
/// Free text that the file carries; *value is NULL where it has nothing of this name, and valid while the
/// handle is open.
INGOT_API IngotStatus ingot_weights_metadata(const IngotWeights* weights, const char* key,
                                             const char** value);

/// A tensor as the file describes it. Pointers are valid while the handle is open.
typedef struct IngotWeightInfo {
  const char* name;
  const int64_t* shape;
  int32_t rank;
  IngotDtype dtype;       ///< that loading gives; -1: there is no such dtype, and it cannot be loaded
  const char* stored_as;  ///< the format's own name of the element type: "BF16", "Q4_K"
  uint64_t bytes;         ///< as stored
  const char* file;       ///< the file that holds it
  uint64_t offset;        ///< of its first byte in that file
} IngotWeightInfo;

/// Tensor `index`, in the order of names. *info has `size` bytes: sizeof(IngotWeightInfo).
INGOT_API IngotStatus ingot_weights_tensor(const IngotWeights* weights, size_t index, IngotWeightInfo* info,
                                           size_t size);
/// Loads a tensor, on the CPU and contiguous. It may share the mapped file, copy-on-write: writing to it
/// never changes the file. Blocks of GGUF are dequantized.
INGOT_API IngotStatus ingot_weights_load(const IngotWeights* weights, const char* name, IngotTensor** out);

/// Writes `count` tensors to one .safetensors file, which appears whole or not at all.
INGOT_API IngotStatus ingot_save_safetensors(const char* path, const char* const* names,
                                             const IngotTensor* const* tensors, size_t count);

#ifdef __cplusplus
}
#endif
