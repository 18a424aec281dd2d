#pragma once

#include <string>
#include <vector>

#include "ingot/models/language/config.h"

namespace ingot::benchmark {

/// What `ingot bench` knows shapes of: "gpt2" (124M parameters), "demo", "llama-1b" (Llama 3.2), "llama-8b",
/// "qwen3-0.6b" to "qwen3-32b".
std::vector<std::string> shape_names();
/// InvalidConfig where the shape has none of those names.
LanguageConfig shape_config(const std::string& shape, DType dtype);

}  // namespace ingot::benchmark
