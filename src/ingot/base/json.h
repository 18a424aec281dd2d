#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

// Every file that calls nlohmann's own parse() or dump() compiles a parser or a writer for itself, which
// takes seconds.
namespace ingot {

/// `text` as JSON; Json is nlohmann::json or nlohmann::ordered_json. Where it is none, FormatError names
/// `source`, the byte (counted from `start`, where `text` begins in its source) and `field`.
template <class Json>
Json parse_json(std::string_view text, const std::string& source, std::string_view field = "document",
                std::int64_t start = 0);

/// The same, but a discarded value, which is neither an object nor anything else, where `text` is no JSON.
template <class Json>
Json parse_json_or_discard(std::string_view text);

/// As text: on one line or, with `indent`, on many, with so many spaces per level. U+FFFD takes the place of
/// what is no UTF-8.
template <class Json>
std::string dump_json(const Json& json, int indent = -1);

/// Its first `length` characters on one line, in ASCII: for messages.
template <class Json>
std::string excerpt(const Json& json, std::size_t length);

}  // namespace ingot
