#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ingot::serve {

/// The JSON of an object as Gemma's calls of tools have it, {key:value,...}: keys stand bare, strings between
/// two `quote`, numbers, words, lists and objects as in JSON. Nothing where `text` is not one as a whole.
std::optional<std::string> read_gemma_object(std::string_view text, std::string_view quote);

}  // namespace ingot::serve
