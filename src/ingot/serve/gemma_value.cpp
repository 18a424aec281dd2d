#include "ingot/serve/gemma_value.h"

#include <nlohmann/json.hpp>

#include "ingot/base/json.h"

namespace ingot::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostNested = 64;

class GemmaReader {
 public:
  GemmaReader(std::string_view text, std::string_view quote) : rest_(text), quote_(quote) {}

  // False where the text is not a value.
  bool value(Json& to, int depth) {
    skip_space();
    if (depth > kMostNested) return false;
    if (take(quote_)) return string(to);
    if (rest_.starts_with('{')) return object(to, depth);
    if (rest_.starts_with('[')) return list(to, depth);
    to = parse_json_or_discard<Json>(until_any(",]}"));
    return !to.is_discarded();
  }
  bool at_end() {
    skip_space();
    return rest_.empty();
  }

 private:
  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  bool take(std::string_view mark) {
    skip_space();
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }
  std::string until_any(std::string_view marks) {
    const std::size_t end = std::min(rest_.find_first_of(marks), rest_.size());
    std::string word(rest_.substr(0, end));
    rest_.remove_prefix(end);
    word.erase(word.find_last_not_of(" \t\r\n") + 1);
    return word;
  }
  bool string(Json& to) {
    const std::size_t end = rest_.find(quote_);
    if (end == rest_.npos) return false;
    to = std::string(rest_.substr(0, end));
    rest_.remove_prefix(end + quote_.size());
    return true;
  }
  bool object(Json& to, int depth) {
    to = Json::object();
    take("{");
    if (take("}")) return true;
    do {
      skip_space();
      Json key;
      if (rest_.starts_with(quote_)) {
        take(quote_);
        if (!string(key)) return false;
      } else {
        key = until_any(":,{}[]");
      }
      if (!take(":") || !value(to[key.get<std::string>()], depth + 1)) return false;
    } while (take(","));
    return take("}");
  }
  bool list(Json& to, int depth) {
    to = Json::array();
    take("[");
    if (take("]")) return true;
    do {
      if (!value(to.emplace_back(), depth + 1)) return false;
    } while (take(","));
    return take("]");
  }

  std::string_view rest_, quote_;
};

}  // namespace

std::optional<std::string> read_gemma_object(std::string_view text, std::string_view quote) {
  GemmaReader reader(text, quote);
  Json object;
  if (!text.starts_with('{') || !reader.value(object, 0) || !reader.at_end()) return std::nullopt;
  return dump_json(object);
}

}  // namespace ingot::serve
