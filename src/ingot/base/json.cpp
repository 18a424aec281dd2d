#include "ingot/base/json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "ingot/base/error.h"

namespace ingot {
namespace {

/// Where `text` nests deeper than is allowed; npos: nowhere. The parser keeps no stack, but copies, writers
/// and readers of what it makes do.
std::size_t too_deep_at(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return i;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return text.npos;
}

}  // namespace

// "[json.exception.parse_error.101] parse error at ...: prose", "[json.exception.out_of_range.406] prose"
std::string json_problem(const std::exception& error) {
  std::string_view what = error.what();
  for (const std::string_view end : {"] ", ": "}) {
    if (const std::size_t at = what.find(end); at != what.npos) what.remove_prefix(at + end.size());
  }
  return std::string(what);
}

template <class Json>
Json parse_json(std::string_view text, const std::string& source, std::string_view field,
                std::int64_t start) {
  if (const std::size_t at = too_deep_at(text); at != text.npos) {
    throw FormatError(source, start + static_cast<std::int64_t>(at), std::string(field),
                      "nests deeper than " + std::to_string(kMaxJsonDepth) + " levels");
  }
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const auto byte = static_cast<std::int64_t>(std::min(error.byte, text.size()));
    throw FormatError(source, start + byte, std::string(field), "is not valid JSON: " + json_problem(error));
  } catch (const nlohmann::json::exception& error) {  // a number that is too large
    throw FormatError(source, start, std::string(field), "is not valid JSON: " + json_problem(error));
  }
}

template <class Json>
Json parse_json_or_discard(std::string_view text) {
  if (too_deep_at(text) != text.npos) return Json(Json::value_t::discarded);
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
