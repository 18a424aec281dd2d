#include "ingot/base/json.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"

namespace ingot {

template <class Json>
Json parse_json(std::string_view text, const std::string& source, std::string_view field,
                std::int64_t start) {
  try {
    return Json::parse(text);
  } catch (const typename Json::parse_error& error) {
    const std::string_view what =
        error.what();  // "[json.exception.parse_error.101] parse error at ...: prose"
    const std::size_t prose = what.find(": ");
    throw FormatError(
        source, start + static_cast<std::int64_t>(std::min(error.byte, text.size())), std::string(field),
        fmt::format("is not valid JSON: {}", prose == what.npos ? what : what.substr(prose + 2)));
  }
}

template <class Json>
Json parse_json_or_discard(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

template <class Json>
std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <class Json>
std::string excerpt(const Json& json, std::size_t length) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, length);
}

template nlohmann::json parse_json(std::string_view, const std::string&, std::string_view, std::int64_t);
template nlohmann::ordered_json parse_json(std::string_view, const std::string&, std::string_view,
                                           std::int64_t);
template nlohmann::json parse_json_or_discard(std::string_view);
template nlohmann::ordered_json parse_json_or_discard(std::string_view);
template std::string dump_json(const nlohmann::json&, int);
template std::string dump_json(const nlohmann::ordered_json&, int);
template std::string excerpt(const nlohmann::json&, std::size_t);
template std::string excerpt(const nlohmann::ordered_json&, std::size_t);

}  // namespace ingot
