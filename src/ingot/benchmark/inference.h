#pragma once

#include <cstdint>
#include <string>

#include "ingot/benchmark/measure.h"
#include "ingot/infer/session.h"

namespace ingot::benchmark {

struct InferenceOptions {
  infer::SessionOptions session{};  ///< the model, and how it is opened
  std::string shape{};              ///< random weights of one of shape_names(), instead of a model
  std::int64_t tokens = 128;        ///< to write, or of the prompt
  std::int64_t batch = 1, runs = 3;
  std::int64_t speculate = 0;  ///< infer::Request::speculate
  std::int64_t adapters = 0;   ///< fresh LoRA adapters that the texts take in turn; 0: none
  std::int64_t adapter_rank = 16;
  std::string against{};        ///< llama.cpp's llama-bench by path, or "llama.cpp" for the one in PATH
  std::string against_model{};  ///< the .gguf it runs, where the model is none itself
  bool breakdown = false;
};
/// Writing, token by token, beside what memory bandwidth allows.
Report time_decode(const InferenceOptions& options);
/// Reading a prompt, beside what matmuls allow.
Report time_prefill(const InferenceOptions& options);

}  // namespace ingot::benchmark
