#include "ingot/base/json.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"

namespace ingot {
namespace {

struct Excess {
  std::size_t at;
  std::string problem;
};

/// What is too much about `text`. The parser keeps no stack, but copies, writers and readers of what it makes
/// do; and its smallest values take 30 times their text.
std::optional<Excess> find_excess(std::string_view text) {
  constexpr std::size_t kSmall = std::size_t{512} << 20, kMostRatio = 12;
  constexpr std::size_t kContainer = 64, kMember = 96, kText = 32, kValue = 16;  // bytes, at least
  const std::size_t most = std::max(kSmall, kMostRatio * text.size());
  std::size_t memory = 0;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
      memory += kText;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth)
        return Excess{i, fmt::format("nests deeper than {} levels", kMaxJsonDepth)};
      memory += kContainer;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      memory += kValue;
      if (memory > most)
        return Excess{i, fmt::format("holds so many small values that it takes over {} bytes of memory; "
                                     "records are read one by one from JSON lines (.jsonl)",
                                     most)};
    } else if (c == ':') {
      memory += kMember;
    }
  }
  return std::nullopt;
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
  if (const auto excess = find_excess(text))
    throw FormatError(source, start + static_cast<std::int64_t>(excess->at), std::string(field),
                      excess->problem);
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
  if (find_excess(text)) return Json(Json::value_t::discarded);
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
