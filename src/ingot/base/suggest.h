#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

/// Damerau-Levenshtein distance in bytes, ignoring case: the insertions, deletions, replacements and swaps of
/// neighbours that turn one word into the other (no part is edited twice: "optimal string alignment").
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that a person who typed `word` most likely meant; empty where none is near. Near means an
/// edit for every three letters or so, or that one word is the beginning of the other.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'x'?", or nothing: to be put at the end of a message.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace ingot
