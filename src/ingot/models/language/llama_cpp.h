#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ingot/models/language/config.h"

namespace ingot {

/// A tensor of a GGUF file, and what the checkpoint calls it.
struct ExportedTensor {
  std::string gguf, checkpoint;
};

/// Whether llama.cpp asks for output.weight where the head is the embedding; elsewhere it takes
/// token_embd.weight.
bool llama_cpp_needs_output(std::string_view architecture);

/// Whether it reads which layers slide from a list, or from every how many one does not.
bool llama_cpp_lists_windows(std::string_view architecture);

/// What llama.cpp's models of an architecture have no field for, or miss: it would not open the file, or
/// compute something else. Nothing where the file is one that it takes.
std::optional<std::string> llama_cpp_objection(std::string_view architecture, const LanguageConfig& config,
                                               std::span<const ExportedTensor> tensors);

/// The sliding window that llama.cpp does not apply for this architecture: it gives the model's numbers for
/// texts up to it, and attends to all tokens beyond. 0: none.
std::int64_t window_that_llama_cpp_ignores(std::string_view architecture, const LanguageConfig& config);

}  // namespace ingot
