#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ingot/models/language/decoder.h"
#include "ingot/text/tokenizer.h"

namespace ingot {

/// An adapter to be put on a model, as a person names it.
struct AdapterChoice {
  std::string path;     ///< a directory as PEFT writes it, or a GGUF file
  float weight = 1.0F;  ///< what its updates are multiplied with

  /// "out/adapter" or "out/adapter=0.5". InvalidConfig naming `option`.
  static AdapterChoice parse(std::string_view text, const std::string& option = "--adapter");
};

/// An adapter that is chosen by name while the model is in use.
struct NamedAdapter {
  std::string name;
  std::string path;          ///< a directory as PEFT writes it, or a GGUF file
  std::uint64_t number = 0;  ///< in the order of loading, from 1 on; 0: the next one

  /// "NAME=PATH". InvalidConfig naming `option`.
  static NamedAdapter parse(std::string_view text, const std::string& option);
};

/// Reads each adapter and puts it on the model, under its path; several add up. A model whose adapters were
/// trained with more tokens gets rows for them (grow_vocabulary). Throws as read_adapter does.
void use_adapters(LanguageModel& model, std::span<const AdapterChoice> adapters);
/// The same, kept as inference reads them fastest (prepare_for_inference).
void infer_with_adapters(LanguageModel& model, std::span<const AdapterChoice> adapters);

/// The tokenizer of a model with adapters: the model's, or that of an adapter which has more tokens.
text::Tokenizer open_tokenizer(const std::string& model, std::span<const AdapterChoice> adapters);

}  // namespace ingot
