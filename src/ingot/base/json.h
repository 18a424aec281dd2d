#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

// Every file that calls nlohmann's own parse() or dump() compiles a parser or a writer for itself, which
// takes seconds.
namespace ingot {

/// Arrays and objects may nest this deep; more would exhaust the stack of whoever walks through them.
inline constexpr int kMaxJsonDepth = 500;

/// `text` as JSON; Json is nlohmann::json or nlohmann::ordered_json. Where it is none, FormatError names
/// `source`, the byte (counted from `start`, where `text` begins in its source) and `field`; likewise where
/// it nests deeper than kMaxJsonDepth.
template <class Json>
Json parse_json(std::string_view text, const std::string& source, std::string_view field = "document",
                std::int64_t start = 0);

/// The same, but a discarded value, which is neither an object nor anything else, where `text` is not JSON,
/// or nests too deep.
template <class Json>
Json parse_json_or_discard(std::string_view text);

/// As text: on one line or, with `indent`, on many, with so many spaces per level. U+FFFD replaces
/// what is not UTF-8.
template <class Json>
std::string dump_json(const Json& json, int indent = -1);

/// What an error of the JSON library says, without its own marks ("[json.exception...]").
std::string json_problem(const std::exception& error);

/// Its first `length` characters on one line, in ASCII: for messages.
template <class Json>
std::string excerpt(const Json& json, std::size_t length);

}  // namespace ingot
