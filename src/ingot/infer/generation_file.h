#pragma once

#include <string>

#include "ingot/text/tokenizer.h"

namespace ingot::infer {

/// A generation_config.json for a model that is written with `tokenizer`: what the files of `model` say, and
/// what ends a sequence by them and by the tokenizer.
std::string kept_generation_config(const std::string& model, const text::Tokenizer& tokenizer);

}  // namespace ingot::infer
