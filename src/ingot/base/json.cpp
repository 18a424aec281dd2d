#include "ingot/base/json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "ingot/base/error.h"

namespace ingot {
namespace {

// "[json.exception.parse_error.101] parse error at ...: prose", "[json.exception.out_of_range.406] prose"
std::string prose(const nlohmann::json::exception& error) {
  std::string_view what = error.what();
  for (const std::string_view end : {"] ", ": "}) {
    if (const std::size_t at = what.find(end); at != what.npos) what.remove_prefix(at + end.size());
  }
  return std::string(what);
}

}  // namespace

template <class Json>
Json parse_json(std::string_view text, const std::string& source, std::string_view field,
                std::int64_t start) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const auto byte = static_cast<std::int64_t>(std::min(error.byte, text.size()));
    throw FormatError(source, start + byte, std::string(field), "is not valid JSON: " + prose(error));
  } catch (const nlohmann::json::exception& error) {  // a number that is too large
    throw FormatError(source, start, std::string(field), "is not valid JSON: " + prose(error));
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
