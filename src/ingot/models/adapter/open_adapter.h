#pragma once

#include <string>

#include "ingot/models/adapter/gguf_adapter.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/models/language/decoder.h"

namespace ingot {

/// Throws IoError unless a path is a directory with an adapter as PEFT writes it, or a GGUF file.
void check_is_adapter(const std::string& path);

/// What an adapter of either format holds.
AdapterFile read_adapter_file(const AdapterBase& base, const std::string& path);

/// Reads an adapter of either format for the weights of a model, as open_peft_adapter() does.
PeftAdapter open_adapter(const AdapterBase& base, const std::string& path, const std::string& name,
                         float weight = 1.0F);

/// Gives a model rows for the tokens that an adapter was trained with (grow_vocabulary).
void grow_for_adapter(LanguageModel& model, const std::string& path);
/// Reads an adapter of either format and puts it on the model, as read_peft_adapter() does, with rows for its
/// tokens.
LoraConfig read_adapter(LanguageModel& model, const std::string& path, const std::string& name = "default");

}  // namespace ingot
