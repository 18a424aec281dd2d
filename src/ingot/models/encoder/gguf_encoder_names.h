#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/models/encoder/config.h"
#include "ingot/models/weight_map.h"

namespace ingot {

// What llama.cpp has no key for, and a classifier's scores follow from: torch's name of what they go
// through, and transformers' problem_type.
inline constexpr const char* kGgufClassifierActivation = "ingot.classifier.activation";
inline constexpr const char* kGgufClassifierProblem = "ingot.classifier.problem_type";

/// What llama.cpp calls a part of an encoder; `*` for a layer's number.
struct EncoderGgufName {
  std::string_view gguf, ours;
};

/// One of llama.cpp's architectures of encoders.
struct EncoderGguf {
  std::string_view architecture;
  std::string_view model_type;  ///< what its files are read as
  std::vector<EncoderGgufName> names;
  /// Parts of ours that stand in the matrix of another: of queries, or of the gate.
  std::vector<std::string_view> fused;
};

/// Null where there is none.
const EncoderGguf* find_encoder_gguf(std::string_view architecture);

/// One parameter of a model, and where it stands in a directory and in a GGUF file.
struct EncoderGgufTensor {
  std::string ours, gguf;  ///< gguf: empty where llama.cpp has no name for it
  WeightRule rule;         ///< of the directory
};
/// Those of a configuration, but for parts of fused matrices that are not the first.
std::vector<EncoderGgufTensor> encoder_gguf_tensors(const EncoderGguf& gguf, const EncoderConfig& config);

}  // namespace ingot
