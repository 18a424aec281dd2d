#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ingot/infer/packed_cache.h"
#include "ingot/models/language/decoder.h"

namespace ingot::infer {

/// Opens a model directory or a GGUF file for inference. Matrices keep what the file holds: f32, bf16 and f16
/// stay in the mapped file, which processes share; GGUF's quantized blocks, and layers that GPTQ and its like
/// made, are put into tiles. With `format` they are converted first: "f32", "bf16", "f16", or a quantized
/// format ("q4_k"; InvalidConfig lists them). Tiles are kept in a cache (packed_cache.h). Norms and biases
/// are f32, and so is all arithmetic between matmuls. On a GPU, which has the model in its own memory, a
/// model without quantized matrices has one dtype for everything, that of most of its matrices. With `ranks`
/// it is this rank's part (models/language/tensor_parallel.h). Throws as load_language_model does.
std::unique_ptr<LanguageModel> load_model(const std::string& path, const std::string& format = {},
                                          const PackedCacheOptions& cache = {}, Device device = kCpu,
                                          std::shared_ptr<const RankGroup> ranks = {});

/// The same with the values that a quantized format leaves, as f32 matrices: matmuls then round nothing but
/// the weights. To tell what rounding weights costs from what rounding activations does.
std::unique_ptr<LanguageModel> load_rounded_model(const std::string& path, const std::string& format);

/// A model's logits f32 [tokens, vocab], on the CPU, one row per token. InvalidConfig naming an id outside
/// the vocabulary.
Tensor token_logits(const LanguageModel& model, std::span<const std::int32_t> tokens);

}  // namespace ingot::infer
